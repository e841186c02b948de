//! CoDel, controlled delay.
//!
//! Source: RFC 8289, section 5. Deviation: a packet with ECN is marked where the RFC drops it, and sent; the RFC
//! mentions that possibility without pseudocode.

use super::Action;

/// After this many intervals without drops the previous drop frequency is outdated.
const MEMORY_INTERVALS: i128 = 16;

#[derive(Clone, Debug)]
pub struct CoDel {
    target_ns: u64,
    interval_ns: u64,
    mtu_bytes: u64,
    ecn: bool,
    /// Time at which the delay will have been above the target for an interval.
    above_until_ns: Option<u64>,
    dropping: bool,
    /// Set if the packet follows one that was dropped in the same departure.
    after_drop: Option<AfterDrop>,
    next_drop_ns: u64,
    count: u32,
    last_count: u32,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum AfterDrop {
    /// The drop that began the dropping state.
    First,
    Later,
}

impl CoDel {
    pub fn new(target_us: u64, interval_us: u64, mtu_bytes: u64, ecn: bool) -> Self {
        CoDel {
            target_ns: target_us.saturating_mul(1000),
            interval_ns: interval_us.saturating_mul(1000),
            mtu_bytes,
            ecn,
            above_until_ns: None,
            dropping: false,
            after_drop: None,
            next_drop_ns: 0,
            count: 0,
            last_count: 0,
        }
    }

    /// The queue is empty.
    pub fn empty(&mut self) {
        self.above_until_ns = None;
        self.after_drop = None;
        self.dropping = false;
    }

    /// Decides about the next packet; `left_bytes` wait after it. After `Drop` the following packet is passed
    /// in at the same time.
    pub fn departure(&mut self, now_ns: u64, sojourn_ns: u64, left_bytes: u64, markable: bool) -> Action {
        let stands = self.delay_stands(now_ns, sojourn_ns, left_bytes);
        match self.after_drop.take() {
            // The packet after the first drop is sent whatever its delay.
            Some(AfterDrop::First) => return Action::Pass,
            Some(AfterDrop::Later) if stands => self.schedule(self.next_drop_ns),
            _ => (),
        }
        if self.dropping {
            if !stands {
                self.dropping = false;
            } else if now_ns >= self.next_drop_ns {
                self.count = self.count.saturating_add(1);
                if self.ecn && markable {
                    self.schedule(self.next_drop_ns);
                    return Action::Signal;
                }
                self.after_drop = Some(AfterDrop::Later);
                return Action::Drop;
            }
        } else if stands {
            self.start(now_ns);
            if self.ecn && markable {
                return Action::Signal;
            }
            self.after_drop = Some(AfterDrop::First);
            return Action::Drop;
        }
        Action::Pass
    }

    /// Whether the delay has been above the target for an interval.
    fn delay_stands(&mut self, now_ns: u64, sojourn_ns: u64, left_bytes: u64) -> bool {
        if sojourn_ns < self.target_ns || left_bytes <= self.mtu_bytes {
            self.above_until_ns = None;
            return false;
        }
        match self.above_until_ns {
            Some(until_ns) => now_ns >= until_ns,
            None => {
                self.above_until_ns = Some(now_ns.saturating_add(self.interval_ns));
                false
            }
        }
    }

    /// Enters the dropping state, with the previous frequency if it is recent.
    fn start(&mut self, now_ns: u64) {
        self.dropping = true;
        let delta = self.count.saturating_sub(self.last_count);
        let since_ns = i128::from(now_ns) - i128::from(self.next_drop_ns);
        let recent = since_ns < MEMORY_INTERVALS * i128::from(self.interval_ns);
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.schedule(now_ns);
    }

    /// The control law: the interval between drops shrinks with the square root of their number.
    fn schedule(&mut self, from_ns: u64) {
        let step_ns = self.interval_ns as f64 / f64::from(self.count.max(1)).sqrt();
        self.next_drop_ns = from_ns.saturating_add(step_ns as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Times, in ms, at which it drops or marks while a packet that waited `sojourn_ms` leaves every ms from 10 ms.
    fn signals(codel: &mut CoDel, sojourn_ms: u64, markable: bool, until_ms: u64) -> Vec<u64> {
        let mut times = Vec::new();
        for now_ms in 10..until_ms {
            loop {
                let action = codel.departure(now_ms * MS, sojourn_ms * MS, 9000, markable);
                times.extend((action != Action::Pass).then_some(now_ms));
                if action != Action::Drop {
                    break;
                }
            }
        }
        times
    }

    fn codel(ecn: bool) -> CoDel {
        CoDel::new(5_000, 100_000, 1500, ecn)
    }

    #[test]
    fn it_signals_at_the_times_of_its_control_law() {
        // Above the target from 10 ms: the first at 110 ms. Then at intervals of 100 ms / sqrt(count), at 210; 210 +
        // 70.7 = 280.7; + 57.7 = 338.4; + 50 = 388.4; + 44.7 = 433.2: with the first packet that leaves then.
        let expected = [110, 210, 281, 339, 389, 434];
        assert_eq!(signals(&mut codel(true), 10, false, 470), expected);
        assert_eq!(signals(&mut codel(true), 10, true, 470), expected);
        assert_eq!(signals(&mut codel(false), 10, true, 470), expected);
    }

    #[test]
    fn ecn_marks_instead_of_dropping() {
        let mut codel = codel(true);
        codel.departure(0, 10 * MS, 9000, true);
        assert_eq!(codel.departure(100 * MS, 10 * MS, 9000, true), Action::Signal);
        assert_eq!(codel.departure(200 * MS, 10 * MS, 9000, false), Action::Drop);
    }

    #[test]
    fn a_delay_below_the_target_is_left_alone() {
        assert_eq!(signals(&mut codel(true), 4, false, 1000), [0u64; 0]);
    }

    #[test]
    fn one_packet_below_the_target_ends_the_dropping() {
        let mut codel = codel(false);
        signals(&mut codel, 10, false, 300);
        assert_eq!(codel.departure(300 * MS, MS, 9000, false), Action::Pass);
        assert!(!codel.dropping);
        // It has to be above for an interval again.
        assert_eq!(codel.departure(301 * MS, 10 * MS, 9000, false), Action::Pass);
        assert_eq!(codel.departure(400 * MS, 10 * MS, 9000, false), Action::Pass);
        assert_eq!(codel.departure(401 * MS, 10 * MS, 9000, false), Action::Drop);
    }

    #[test]
    fn soon_after_it_goes_on_as_often_as_it_dropped_before() {
        let mut codel = codel(false);
        signals(&mut codel, 10, false, 470);
        assert_eq!((codel.count, codel.last_count), (6, 1));
        codel.departure(470 * MS, MS, 9000, false);
        codel.departure(471 * MS, 10 * MS, 9000, false);
        assert_eq!(codel.departure(571 * MS, 10 * MS, 9000, false), Action::Drop);
        assert_eq!((codel.count, codel.last_count), (5, 5));
        // Much later, it starts with one.
        codel.empty();
        codel.departure(9_000 * MS, 10 * MS, 9000, false);
        assert_eq!(codel.departure(9_100 * MS, 10 * MS, 9000, false), Action::Drop);
        assert_eq!(codel.count, 1);
    }

    #[test]
    fn the_last_packets_of_a_queue_are_never_dropped() {
        let mut codel = codel(false);
        assert!((0..1000).all(|n| codel.departure(n * 10 * MS, 10 * MS, 1500, false) == Action::Pass));
    }
}
