//! A turn on a processor when it is needed.

/// The lowest real-time priority: above all ordinary processes, below everything that someone raised.
const PRIORITY: libc::c_int = 1;

/// Asks for real-time priority and exact timers; without the right to that, things go on as they are.
///
/// Returns whether the priority is real-time.
pub fn raise() -> bool {
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    // SAFETY: a valid structure, read during the call; 0 is the calling thread.
    let raised = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) } == 0;
    let slack_ns: libc::c_ulong = 1;
    // SAFETY: PR_SET_TIMERSLACK takes a number and concerns the calling thread only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns) };
    raised
}
