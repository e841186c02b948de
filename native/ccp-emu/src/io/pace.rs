//! When to sleep, and for how long.
//!
//! The kernel wakes a sleeper later than asked for, by a time that depends on the machine and on what else it
//! does. So sleeps are asked to end earlier by what that usually was, and the rest is waited for awake.

use std::time::Duration;

use super::clock::now_ns;

/// Most by which a sleep is shortened.
const MOST_EARLY_NS: f64 = 100_000.0;
/// How far one sleep moves what is believed of the next.
const STEP_NS: f64 = 2_000.0;
/// Less is not worth a sleep.
const LEAST_SLEEP_NS: u64 = 2_000;

/// The kernel stops real-time processes that leave an ordinary one no time: for 50 ms every second, if they
/// use more than 95 %. Small pauses, often, leave more than that, and delay packets less.
const AWAKE_NS: u64 = 1_000_000;
const BREATH: Duration = Duration::from_micros(60);

/// What the loop knows of its sleeps.
#[derive(Debug, Default)]
pub struct Pace {
    /// Whether to pause even when there is something to do.
    pub must_breathe: bool,
    early_ns: f64,
    awake_since_ns: u64,
}

impl Pace {
    /// For how long to sleep until something is to be done; 0 for not at all.
    pub fn sleep_ns(&self, now_ns: u64, until_ns: u64) -> u64 {
        let left_ns = until_ns.saturating_sub(now_ns).saturating_sub(self.early_ns as u64);
        if left_ns < LEAST_SLEEP_NS { 0 } else { left_ns }
    }

    /// A sleep has ended; `asked_ns`: when it should have, if nothing else ended it.
    pub fn woke(&mut self, now_ns: u64, asked_ns: Option<u64>) {
        self.awake_since_ns = now_ns;
        if let Some(asked_ns) = asked_ns {
            let late_ns = now_ns.saturating_sub(asked_ns) as f64;
            // Up as often as down: half of the sleeps are longer than is believed. More would be in time if
            // more was believed, and more time spent awake.
            let step_ns = if late_ns > self.early_ns { STEP_NS } else { -STEP_NS };
            self.early_ns = (self.early_ns + step_ns).clamp(0.0, MOST_EARLY_NS);
        }
    }

    /// Pauses, if there was no sleep for long.
    pub fn breathe(&mut self, now: u64) {
        if self.must_breathe && now.saturating_sub(self.awake_since_ns) > AWAKE_NS {
            std::thread::sleep(BREATH);
            self.awake_since_ns = now_ns();
        }
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
            pace.woke(if number % 4 == 3 { 60_000 } else { 10_000 }, Some(0));
        }
        let early_ns = 1_000_000 - pace.sleep_ns(0, 1_000_000);
        assert!((8_000..=14_000).contains(&early_ns), "{early_ns}");
        assert_eq!(pace.sleep_ns(0, early_ns + 1_000), 0);
        assert_eq!(pace.sleep_ns(5_000, 1_000), 0);
    }

    #[test]
    fn what_is_believed_is_bounded() {
        let mut pace = Pace::default();
        (0..1000).for_each(|_| pace.woke(50_000_000, Some(0)));
        assert_eq!(pace.sleep_ns(0, 1_000_000), 900_000);
        (0..1000).for_each(|_| pace.woke(50_000_000, None));
        assert_eq!(pace.sleep_ns(0, 1_000_000), 900_000);
    }
}
