//! How the agent waits for reports: woken by each, or looking by itself when they come too fast for that.
//!
//! Waking a sleeping process costs more than taking a report. Below [`EAGER_PER_S`] wake-ups a second each report
//! wakes the agent at once; above, the agent looks every [`PERIOD_US`] and tells the kernel side not to wake it
//! meanwhile. A writer that was kept from its processor may take that for true too long: when the agent is to be woken
//! again, its first waits are short ones, each twice as long as the one before.

/// Wake-ups a second above which the agent looks by itself [1/s]: about a tenth of a processor's time.
const EAGER_PER_S: u64 = 2_000;

/// Time between two looks [us].
pub(crate) const PERIOD_US: u64 = 1_000;

/// The first wait after the agent looked by itself [ms].
const SHORTEST_WAIT_MS: u64 = 1;

/// Time over which wake-ups are counted [us].
const WINDOW_US: u64 = 10_000;

/// Counts wake-ups and decides.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    since_us: u64,
    wakes: u64,
    periodic: bool,
    /// How long the next wait may be at most [ms], while it is short.
    wait_ms: u64,
}

impl Pace {
    /// Whether to look by itself instead of being woken.
    pub fn periodic(&self) -> bool {
        self.periodic
    }

    /// How long to wait to be woken, where it might be as long as `longest_ms`.
    pub fn wait_ms(&mut self, longest_ms: u64) -> u64 {
        let wait_ms = self.wait_ms.clamp(SHORTEST_WAIT_MS, longest_ms);
        self.wait_ms = wait_ms * 2;
        wait_ms
    }

    /// The agent looked, after a wait or without one, and so many records were there.
    pub fn looked(&mut self, now_us: u64, waited: bool, records: usize) {
        // While nobody is woken, every record counts as the wake-up that it would have been.
        self.wakes += if self.periodic { records as u64 } else { u64::from(waited && records > 0) };
        let elapsed_us = now_us.saturating_sub(self.since_us);
        if elapsed_us >= WINDOW_US {
            self.periodic = self.wakes * 1_000_000 >= EAGER_PER_S * elapsed_us;
            (self.since_us, self.wakes) = (now_us, 0);
        }
        if self.periodic {
            self.wait_ms = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits of `gap_us` with `records` after each; returns how it waits at their end.
    fn after(pace: &mut Pace, start_us: u64, n: u64, gap_us: u64, records: usize) -> bool {
        (1..=n).for_each(|i| pace.looked(start_us + i * gap_us, true, records));
        pace.periodic()
    }

    #[test]
    fn few_reports_wake_at_once_and_many_do_not() {
        let mut pace = Pace::default();
        pace.looked(1_000_000, true, 0);
        assert!(!after(&mut pace, 1_000_000, 100, 1_000, 1), "1000 a second");
        assert!(after(&mut pace, 2_000_000, 100, 200, 1), "5000 a second");
        assert!(after(&mut pace, 2_020_000, 30, PERIOD_US, 5), "5000 a second, looked at every ms");
        assert!(!after(&mut pace, 2_050_000, 30, PERIOD_US, 1), "1000 a second again");
    }

    #[test]
    fn batches_are_one_wake_up() {
        let mut pace = Pace::default();
        pace.looked(1_000_000, true, 0);
        assert!(!after(&mut pace, 1_000_000, 100, 1_000, 50), "the ring batches by itself under load");
    }

    #[test]
    fn a_record_that_woke_nobody_is_found_about_as_late_as_its_writer_was() {
        let mut pace = Pace::default();
        pace.looked(1_000_000, true, 0);
        assert!(after(&mut pace, 1_000_000, 100, 200, 1));
        assert!(!after(&mut pace, 1_020_000, 20, PERIOD_US, 0));
        let waits: Vec<_> = (0..8).map(|_| pace.wait_ms(50)).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 50, 50]);
    }

    #[test]
    fn silence_ends_looking() {
        let mut pace = Pace::default();
        pace.looked(1_000_000, true, 0);
        assert!(after(&mut pace, 1_000_000, 100, 200, 1));
        assert!(!after(&mut pace, 1_020_000, 20, PERIOD_US, 0));
    }
}
