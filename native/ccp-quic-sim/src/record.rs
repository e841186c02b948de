//! What a sender did, read from its connection and its packets while the simulation runs.

use std::time::Duration;

/// A reduction of the window by a congestion event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduction {
    /// Time since the start of the simulation.
    pub at: Duration,
    pub before_bytes: u64,
    pub after_bytes: u64,
}

impl Reduction {
    /// Window after the event relative to the window before it.
    pub fn ratio(&self) -> f64 {
        self.after_bytes as f64 / self.before_bytes as f64
    }
}

/// Counters and window of a sender's connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Observed {
    pub window_bytes: u64,
    pub congestion_events: u64,
    pub lost_bytes: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub last: Observed,
    pub windows: Vec<(Duration, u64)>,
    pub reductions: Vec<Reduction>,
    /// Round-trip times of delivered packets.
    pub rtts: Vec<(Duration, Duration)>,
    pub sent_bytes: u64,
    pub burst_max_bytes: u64,
    burst: (Duration, u64),
}

impl Record {
    pub fn observe(&mut self, at: Duration, now: Observed) {
        let before = std::mem::replace(&mut self.last, now);
        if now.window_bytes == before.window_bytes {
            return;
        }
        self.windows.push((at, now.window_bytes));
        if now.congestion_events > before.congestion_events && now.window_bytes < before.window_bytes {
            let (before_bytes, after_bytes) = (before.window_bytes, now.window_bytes);
            self.reductions.push(Reduction { at, before_bytes, after_bytes });
        }
    }

    pub fn sent(&mut self, at: Duration, bytes: u64) {
        let before_bytes = if self.burst.0 == at { self.burst.1 } else { 0 };
        self.burst = (at, before_bytes + bytes);
        self.burst_max_bytes = self.burst_max_bytes.max(self.burst.1);
        self.sent_bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(window_bytes: u64, congestion_events: u64) -> Observed {
        Observed { window_bytes, congestion_events, lost_bytes: 0 }
    }

    #[test]
    fn a_smaller_window_is_a_reduction_only_after_a_congestion_event() {
        let mut record = Record::default();
        let at = Duration::from_millis;
        for (ms, window, events) in [(1, 100, 0), (2, 100, 1), (3, 80, 1), (4, 56, 2), (5, 60, 3)] {
            record.observe(at(ms), observed(window, events));
        }
        assert_eq!(record.windows, [(at(1), 100), (at(3), 80), (at(4), 56), (at(5), 60)]);
        let [reduction] = record.reductions[..] else { panic!("{:?}", record.reductions) };
        assert_eq!((reduction.at, reduction.ratio()), (at(4), 0.7));
    }

    #[test]
    fn a_burst_is_everything_sent_at_one_time() {
        let mut record = Record::default();
        for (ms, bytes) in [(0, 10), (0, 20), (1, 25), (2, 5), (2, 6)] {
            record.sent(Duration::from_millis(ms), bytes);
        }
        assert_eq!((record.burst_max_bytes, record.sent_bytes), (30, 66));
    }
}
