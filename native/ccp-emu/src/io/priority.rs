//! Prompt scheduling of the emulator's thread.

/// The lowest real-time priority: above all ordinary processes, below every raised one.
const PRIORITY: libc::c_int = 1;
const SLACK_NS: libc::c_ulong = 1;

/// Real-time priority and exact timers of this thread, while the value exists.
#[derive(Debug)]
pub struct Urgent {
    /// The previous settings; None if the priority could not be raised.
    before: Option<(libc::c_int, libc::sched_param)>,
}

impl Urgent {
    /// Requests both; without permission, nothing changes.
    pub fn ask() -> Self {
        let mut parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: a valid structure, written during the call; 0 is the calling thread.
        let known = unsafe { libc::sched_getparam(0, &raw mut parameters) } == 0;
        // SAFETY: takes no pointers.
        let policy = unsafe { libc::sched_getscheduler(0) };
        let before = (known && policy >= 0).then_some((policy, parameters));
        let raised = before.is_some() && set(libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, PRIORITY);
        slack(SLACK_NS);
        Urgent { before: before.filter(|_| raised) }
    }

    pub fn is_real_time(&self) -> bool {
        self.before.is_some()
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        if let Some((policy, parameters)) = self.before {
            set(policy, parameters.sched_priority);
        }
        slack(0); // the thread's default
    }
}

fn set(policy: libc::c_int, priority: libc::c_int) -> bool {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: a valid structure, read during the call; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) == 0 }
}

fn slack(ns: libc::c_ulong) {
    // SAFETY: PR_SET_TIMERSLACK takes a number and concerns the calling thread only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ns) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> libc::c_int {
        // SAFETY: takes no pointers.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn a_thread_goes_back_to_what_it_was() {
        let before = policy();
        let urgent = Urgent::ask();
        // Without permission, nothing changes.
        let expected = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
        assert_eq!(policy(), if urgent.is_real_time() { expected } else { before });
        drop(urgent);
        assert_eq!(policy() & !libc::SCHED_RESET_ON_FORK, before & !libc::SCHED_RESET_ON_FORK);
    }
}
