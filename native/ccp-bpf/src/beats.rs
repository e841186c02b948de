//! Silences of the agent between two heartbeats.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Upper bounds of the counted silences [us]; the last one counts longer ones.
pub const BOUNDS_US: [u64; 7] = [1_000, 10_000, 50_000, 100_000, 200_000, 1_000_000, u64::MAX];

/// Counts silences by length. Several threads may beat.
#[derive(Debug, Default)]
pub(crate) struct Beats {
    last_us: AtomicU64,
    counts: [AtomicU64; BOUNDS_US.len()],
    silent_us: AtomicU64,
}

impl Beats {
    pub fn beat(&self, now_us: u64) {
        let last_us = self.last_us.swap(now_us, Relaxed);
        if last_us != 0 {
            let silence_us = now_us.saturating_sub(last_us);
            let index = BOUNDS_US.iter().position(|bound| silence_us <= *bound).unwrap_or_default();
            self.counts[index].fetch_add(1, Relaxed);
            self.silent_us.fetch_add(silence_us, Relaxed);
        }
    }

    /// The number of silences by bound, and their total length [us].
    pub fn counted(&self) -> ([u64; BOUNDS_US.len()], u64) {
        (self.counts.each_ref().map(|count| count.load(Relaxed)), self.silent_us.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silences_are_counted_by_their_length() {
        let beats = Beats::default();
        for now_us in [5_000_000, 5_000_900, 5_050_900, 8_050_900] {
            beats.beat(now_us);
        }
        assert_eq!(beats.counted(), ([1, 0, 1, 0, 0, 0, 1], 3_050_900));
    }
}
