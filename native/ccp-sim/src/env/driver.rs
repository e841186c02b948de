//! A connection whose window a policy moves, once an interval.

use ccp_tcp::CaState::{Cwr, Loss as Timeout, Recovery};
use ccp_tcp::{Sender, Sock};

use crate::World;
use crate::control::Control;
use crate::env::domain::Mode;
use crate::env::interval::{Interval, Monitor};
use crate::env::reasoner::{Hyvar, Next, State};

/// A window is not smaller [segments]: Linux sets none that is.
pub const CWND_MIN_PKTS: u32 = 2;
/// Silence is listened to in such parts of an interval.
const LISTEN_SHARE: f64 = 8.0;

/// The connection, and what is known of its interval.
pub struct Driver {
    plan: usize,
    mode: Mode,
    hyvar: Hyvar,
    monitor: Monitor,
    /// Window behind the last action [segments], which is no whole number.
    window_pkts: f64,
    queue_rtts: f64,
    due_ns: u64,
    /// What the interval is to be like that is under way.
    pub next: Next,
}

impl Driver {
    /// Drives a connection that delivers; its first interval begins now.
    pub fn new(
        world: &mut World,
        plan: usize,
        mode: Mode,
        hyvar: Hyvar,
        mtp_us: u64,
        most_pkts: u32,
    ) -> Self {
        let now_ns = world.now_ns();
        let sock = &mut sender_of(world, plan).sock;
        sock.snd_cwnd_clamp = most_pkts;
        let monitor = Monitor::new(sock, now_ns, hyvar.thr_window_rtts);
        let next = Next { case: 0, mtp_us: mtp_us as f64, alone: mode == Mode::Steered, heeded: true };
        let due_ns = now_ns + 1000 * mtp_us;
        Driver { plan, mode, hyvar, monitor, window_pkts: 0.0, queue_rtts: 0.0, due_ns, next }
    }

    /// When the interval is over, or to be looked at again.
    #[must_use]
    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// Ends the interval, if anything was heard in it; else it is longer. `at_once`: however that is.
    pub fn end(&mut self, world: &mut World, at_once: bool) -> Option<Interval> {
        let now_ns = world.now_ns();
        let sock = &sender_of(world, self.plan).sock;
        if !at_once && !self.monitor.heard(sock) {
            self.due_ns = now_ns + (1e3 * self.next.mtp_us / LISTEN_SHARE) as u64;
            return None;
        }
        let interval = self.monitor.end(sock, now_ns);
        if self.mode == Mode::Adaptive {
            self.next = self.reason(&interval, sock);
        }
        self.due_ns = now_ns + (1e3 * self.next.mtp_us) as u64;
        Some(interval)
    }

    /// As `States` of `ccp_algs/hyvar/collector.py`.
    fn reason(&mut self, interval: &Interval, sock: &Sock) -> Next {
        let before_rtts = self.queue_rtts;
        if interval.rtt_us > 0.0 {
            self.queue_rtts = (interval.rtt_us / interval.rtt_min_us.max(1.0) - 1.0).max(0.0);
        }
        let sent_bytes_per_s = interval.thr_bytes_per_s + interval.loss_bytes_per_s;
        self.hyvar.next(&State {
            queue_rtts: self.queue_rtts,
            gradient_rtts: self.queue_rtts - before_rtts,
            loss_ratio: interval.loss_bytes_per_s / sent_bytes_per_s.max(1.0),
            rtt_min_us: interval.rtt_min_us,
            mtp_us: self.next.mtp_us,
            in_slow_start: sock.in_slow_start(),
        })
    }

    /// Multiplies the window by 2 to the power of the action. As in Hyvar's fold program, CUBIC repairs losses
    /// undisturbed, and a window that is not used up does not grow.
    pub fn act(&mut self, world: &mut World, action: f64) {
        let sender = sender_of(world, self.plan);
        if let Control::Hybrid(hybrid) = &mut sender.congestion {
            hybrid.alone = self.next.alone;
        }
        // CUBIC alone is what it is compared with: it must not notice.
        if action == 0.0 || !self.next.heeded {
            return;
        }
        let sock = &mut sender.sock;
        // What an action adds may be less than a segment; the next one adds to it, as long as nobody else moved the
        // window meanwhile.
        let is_own = self.window_pkts.floor() == f64::from(sock.snd_cwnd);
        let before_pkts = if is_own { self.window_pkts } else { f64::from(sock.snd_cwnd) };
        let (lowers, in_slow_start) = (action < 0.0, sock.in_slow_start());
        let repairs = match &sender.congestion {
            Control::Steered(_) => false,
            Control::Hybrid(hybrid) => hybrid.repairs(),
            _ => matches!(sock.ca_state, Recovery | Cwr | Timeout),
        };
        if repairs || !(lowers || sock.cwnd_limited()) {
            return;
        }
        let limits = (f64::from(CWND_MIN_PKTS), f64::from(sock.snd_cwnd_clamp));
        self.window_pkts = (before_pkts * action.exp2()).clamp(limits.0, limits.1);
        sock.snd_cwnd = self.window_pkts as u32;
        if lowers || !in_slow_start {
            // A smaller window ends slow start, and never begins one.
            sock.snd_ssthresh = sock.snd_cwnd;
        }
        match &mut sender.congestion {
            Control::Cubic(cubic) => cubic.restart(sock.snd_cwnd, lowers),
            Control::Hybrid(hybrid) => hybrid.cubic.restart(sock.snd_cwnd, lowers),
            _ => {}
        }
        world.kick(self.plan, 0);
    }
}

/// Whether anything of a connection has arrived.
pub fn delivers(world: &World, plan: usize) -> bool {
    world.sender(plan, 0).is_some_and(|sender| sender.sock.delivered > 0)
}

/// A sender that delivers, which never ends its transfer.
fn sender_of(world: &mut World, plan: usize) -> &mut Sender<Control> {
    world.sender_mut(plan, 0).expect("a connection that delivered is there")
}
