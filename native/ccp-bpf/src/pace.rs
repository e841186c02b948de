//! How the agent waits for reports: woken by each one, or by polling if they arrive too fast for that.
//!
//! Waking a process costs more than handling a report. Below [`EAGER_PER_S`] wake-ups per second each report wakes the
//! agent immediately; above, the agent polls every [`PERIOD_US`] and tells the kernel side not to wake it. A delayed
//! writer may believe that too long, so the first waits after polling are short and double each time.

/// Wake-ups per second above which the agent polls [1/s]: about a tenth of a processor's time.
const EAGER_PER_S: u64 = 2_000;

/// Polling interval [us].
pub(crate) const PERIOD_US: u64 = 1_000;

/// The first wait after polling [ms].
const SHORTEST_WAIT_MS: u64 = 1;

/// Window over which wake-ups are counted [us].
const WINDOW_US: u64 = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Pace {
    since_us: u64,
    wakes: u64,
    periodic: bool,
    /// Maximum length of the next wait while waits are short [ms].
    wait_ms: u64,
}

impl Pace {
    /// Whether to poll instead of being woken.
    pub fn periodic(&self) -> bool {
        self.periodic
    }

    /// Length of the next wait, at most `longest_ms`.
    pub fn wait_ms(&mut self, longest_ms: u64) -> u64 {
        let wait_ms = self.wait_ms.clamp(SHORTEST_WAIT_MS, longest_ms);
        self.wait_ms = wait_ms * 2;
        wait_ms
    }

    /// Records that the agent looked, after a wait or without one, and found `records`.
    pub fn looked(&mut self, now_us: u64, waited: bool, records: usize) {
        // While polling, every record counts as the wake-up that it would have caused.
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
    fn a_record_that_woke_none_is_found_about_as_late_as_its_writer_was() {
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
