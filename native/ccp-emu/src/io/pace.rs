//! When and how long to sleep.
//!
//! The kernel wakes a sleeper late, by a time that depends on machine and load. Sleeps therefore end earlier by the
//! typical lateness, and the rest is waited for actively.

use std::time::Duration;

use super::clock::now_ns;

/// Maximum by which a sleep is shortened.
const MAX_EARLY_NS: f64 = 100_000.0;
/// Change of the estimated lateness per sleep.
const STEP_NS: f64 = 2_000.0;
/// Minimum length of a sleep.
const MIN_SLEEP_NS: u64 = 2_000;

/// The kernel stops real-time processes that leave other ones less than 5 % of a processor: for 50 ms, once
/// per second. Own pauses leave more, and delay packets less: this much active time per unit of rest. That is
/// well above 5 %, because interrupts take part of every pause.
const AWAKE_PER_REST: u64 = 6;
/// Rest is taken in pieces of this length.
const REST_NS: u64 = 100_000;

/// State of the loop's sleeps.
#[derive(Debug, Default)]
pub struct Pace {
    /// Whether to rest even if there is work.
    pub must_rest: bool,
    early_ns: f64,
    awake_since_ns: u64,
    /// Rest owed for the past.
    owed_ns: u64,
}

impl Pace {
    pub fn new(now_ns: u64) -> Self {
        Pace { awake_since_ns: now_ns, ..Pace::default() }
    }

    /// How long to sleep until the next work; 0: not at all.
    pub fn sleep_ns(&self, now_ns: u64, until_ns: u64) -> u64 {
        let left_ns = until_ns.saturating_sub(now_ns).saturating_sub(self.early_ns as u64);
        if left_ns < MIN_SLEEP_NS { 0 } else { left_ns }
    }

    /// A sleep has ended; `asked_ns`: its intended end, unless an event ended it.
    pub fn woke(&mut self, slept_at_ns: u64, now_ns: u64, asked_ns: Option<u64>) {
        self.rested(slept_at_ns, now_ns);
        if let Some(asked_ns) = asked_ns {
            let late_ns = now_ns.saturating_sub(asked_ns) as f64;
            // As often up as down: half of the sleeps are later than the estimate. A larger estimate would
            // make more of them punctual, and cost more active waiting.
            let step_ns = if late_ns > self.early_ns { STEP_NS } else { -STEP_NS };
            self.early_ns = (self.early_ns + step_ns).clamp(0.0, MAX_EARLY_NS);
        }
    }

    /// Rests, if rest is owed.
    pub fn rest(&mut self, now: u64) {
        if self.must_rest && self.owes_ns(now) >= REST_NS {
            std::thread::sleep(Duration::from_nanos(REST_NS));
            self.rested(now, now_ns());
        }
    }

    fn owes_ns(&self, now_ns: u64) -> u64 {
        self.owed_ns + now_ns.saturating_sub(self.awake_since_ns) / AWAKE_PER_REST
    }

    /// Accounts for rest between these times; excess rest is not credited.
    fn rested(&mut self, from_ns: u64, until_ns: u64) {
        self.owed_ns = self.owes_ns(from_ns).saturating_sub(until_ns.saturating_sub(from_ns));
        self.awake_since_ns = until_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_are_shortened_by_what_they_usually_were_too_long() {
        let mut pace = Pace::default();
        assert_eq!(pace.sleep_ns(0, 1_000_000), 1_000_000);
        // Three of four sleeps are 10 us too long, one is 60 us.
        for number in 0..4000u64 {
            pace.woke(0, if number % 4 == 3 { 60_000 } else { 10_000 }, Some(0));
        }
        let early_ns = 1_000_000 - pace.sleep_ns(0, 1_000_000);
        assert!((8_000..=14_000).contains(&early_ns), "{early_ns}");
        assert_eq!(pace.sleep_ns(0, early_ns + 1_000), 0);
        assert_eq!(pace.sleep_ns(5_000, 1_000), 0);
    }

    #[test]
    fn what_is_believed_is_bounded() {
        let mut pace = Pace::default();
        (0..1000).for_each(|_| pace.woke(0, 50_000_000, Some(0)));
        assert_eq!(pace.sleep_ns(0, 1_000_000), 900_000);
        (0..1000).for_each(|_| pace.woke(0, 50_000_000, None));
        assert_eq!(pace.sleep_ns(0, 1_000_000), 900_000);
    }

    #[test]
    fn rest_is_owed_for_time_awake_and_short_sleeps_pay_only_what_they_are() {
        let mut pace = Pace::new(1_000_000);
        let mut now_ns = 1_000_000 + AWAKE_PER_REST * 100_000;
        assert_eq!(pace.owes_ns(now_ns), 100_000);
        pace.woke(now_ns, now_ns + 10_000, None);
        now_ns += 10_000;
        assert_eq!(pace.owes_ns(now_ns), 90_000);
        now_ns += AWAKE_PER_REST * 20_000;
        assert_eq!(pace.owes_ns(now_ns), 110_000);
        // A long sleep pays all owed rest, and nothing in advance.
        pace.woke(now_ns, now_ns + 7_000_000, None);
        now_ns += 7_000_000;
        assert_eq!(pace.owes_ns(now_ns), 0);
        assert_eq!(pace.owes_ns(now_ns + AWAKE_PER_REST * 10_000), 10_000);
    }

    #[test]
    fn rest_is_taken_when_it_must_and_is_owed() {
        let start_ns = now_ns();
        let mut pace = Pace::new(start_ns.saturating_sub(AWAKE_PER_REST * REST_NS));
        pace.rest(start_ns);
        assert_eq!(pace.owes_ns(start_ns), REST_NS);
        pace.must_rest = true;
        pace.rest(start_ns);
        assert!(pace.awake_since_ns >= start_ns + REST_NS);
        assert_eq!(pace.owed_ns, 0);
    }
}
