//! A connection whose window is changed by a learner once per interval.

use ccp_tcp::CaState::{Cwr, Loss as Timeout, Recovery};
use ccp_tcp::{Sender, Sock};

use crate::World;
use crate::control::Control;

/// Minimum window [segments] of Linux.
pub const CWND_MIN_PKTS: u32 = 2;
/// Parts of an interval in which silence is noticed.
const LISTEN_SHARE: u64 = 8;

/// Registers reported by Hyvar's fold program at the end of an interval (`ccp_algs/hyvar/fold.py`); totals
/// start at the first interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Totals {
    /// Delivered, in order or not.
    pub delivered_pkts: f64,
    pub lost_pkts: f64,
    pub rtt_sum_us: f64,
    pub rtt_samples: f64,
    pub rtt_min_us: f64,
    pub srtt_us: f64,
    pub cwnd_bytes: f64,
    /// Payload of a full segment.
    pub mss_bytes: f64,
    /// 1 in slow start.
    pub in_slow_start: f64,
}

impl Totals {
    fn of(sock: &Sock) -> Self {
        let mss_bytes = f64::from(sock.mss_bytes);
        Totals {
            delivered_pkts: f64::from(sock.delivered),
            lost_pkts: f64::from(sock.lost),
            rtt_sum_us: sock.rtt_sum_us as f64,
            rtt_samples: sock.rtt_samples as f64,
            rtt_min_us: if sock.min_rtt_us == u32::MAX { 0.0 } else { f64::from(sock.min_rtt_us) },
            srtt_us: f64::from(sock.srtt_us),
            cwnd_bytes: f64::from(sock.snd_cwnd) * mss_bytes,
            mss_bytes,
            in_slow_start: f64::from(u8::from(sock.in_slow_start())),
        }
    }

    fn since(self, begin: &Totals) -> Self {
        Totals {
            delivered_pkts: self.delivered_pkts - begin.delivered_pkts,
            lost_pkts: self.lost_pkts - begin.lost_pkts,
            rtt_sum_us: self.rtt_sum_us - begin.rtt_sum_us,
            rtt_samples: self.rtt_samples - begin.rtt_samples,
            ..self
        }
    }
}

pub struct Driver {
    plan: usize,
    mtp_ns: u64,
    /// At the beginning of the first and of the present interval.
    first: Totals,
    latest: Totals,
    /// Window after the last action [segments], with its fraction.
    window_pkts: f64,
    due_ns: u64,
}

impl Driver {
    /// Takes a delivering connection; its first interval begins now.
    pub fn new(world: &mut World, plan: usize, mtp_us: u64, max_pkts: u32) -> Self {
        let mtp_ns = 1000 * mtp_us;
        let due_ns = world.now_ns() + mtp_ns;
        let sock = &mut sender_of(world, plan).sock;
        sock.snd_cwnd_clamp = max_pkts;
        let first = Totals::of(sock);
        Driver { plan, mtp_ns, first, latest: first, window_pkts: 0.0, due_ns }
    }

    /// When the interval ends, or should be checked again.
    #[must_use]
    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// Ends the interval if anything was received in it, or a timeout occurred; otherwise it is extended.
    /// `at_once`: unconditionally.
    pub fn end(&mut self, world: &mut World, at_once: bool) -> Option<Totals> {
        let now_ns = world.now_ns();
        let now = Totals::of(&sender_of(world, self.plan).sock);
        let received =
            now.delivered_pkts != self.latest.delivered_pkts || now.lost_pkts != self.latest.lost_pkts;
        if !at_once && !received {
            self.due_ns = now_ns + self.mtp_ns / LISTEN_SHARE;
            return None;
        }
        self.latest = now;
        self.due_ns = now_ns + self.mtp_ns;
        Some(now.since(&self.first))
    }

    /// Multiplies the window by 2 to the power of the action. As in Hyvar's fold program, CUBIC's loss
    /// recovery is left alone, and an unused window does not grow.
    pub fn act(&mut self, world: &mut World, action: f64) {
        // CUBIC alone is the baseline: it must stay unaffected.
        if action == 0.0 {
            return;
        }
        let sender = sender_of(world, self.plan);
        let sock = &mut sender.sock;
        // Fractions of a segment accumulate, unless something else changed the window meanwhile.
        let is_own = self.window_pkts.floor() == f64::from(sock.snd_cwnd);
        let before_pkts = if is_own { self.window_pkts } else { f64::from(sock.snd_cwnd) };
        let (lowers, in_slow_start) = (action < 0.0, sock.in_slow_start());
        let repairs = !matches!(sender.congestion, Control::Steered(_))
            && matches!(sock.ca_state, Recovery | Cwr | Timeout);
        if repairs || !(lowers || sock.cwnd_limited()) {
            return;
        }
        let limits = (f64::from(CWND_MIN_PKTS), f64::from(sock.snd_cwnd_clamp));
        self.window_pkts = (before_pkts * action.exp2()).clamp(limits.0, limits.1);
        sock.snd_cwnd = self.window_pkts as u32;
        if lowers || !in_slow_start {
            // A smaller window ends slow start, and never begins it.
            sock.snd_ssthresh = sock.snd_cwnd;
        }
        if let Control::Cubic(cubic) = &mut sender.congestion {
            cubic.restart(sock.snd_cwnd, lowers);
        }
        world.kick(self.plan, 0);
    }
}

/// Whether any data of a connection has arrived.
pub fn delivers(world: &World, plan: usize) -> bool {
    world.sender(plan, 0).is_some_and(|sender| sender.sock.delivered > 0)
}

/// The sender of a connection that delivers, and never ends.
fn sender_of(world: &mut World, plan: usize) -> &mut Sender<Control> {
    world.sender_mut(plan, 0).expect("a delivering connection exists")
}
