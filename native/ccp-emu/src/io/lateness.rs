//! Lateness of packets: the emulator's own error.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Range and resolution of the histogram.
const MAX_NS: u64 = 60_000_000_000;
const FIGURES: u8 = 3;

/// Delay from a packet's due time to its write.
#[derive(Debug)]
pub struct Lateness(Option<Histogram<u64>>);

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Summary {
    p50: f64,
    p99: f64,
    max: f64,
}

impl Lateness {
    pub fn new() -> Self {
        Lateness(Histogram::new_with_bounds(1, MAX_NS, FIGURES).ok())
    }

    pub fn record(&mut self, due_ns: u64, written_ns: u64) {
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record(written_ns.saturating_sub(due_ns));
        }
    }

    pub fn summary(&self) -> Summary {
        let Some(histogram) = &self.0 else { return Summary::default() };
        let us = |ns: u64| ns as f64 / 1000.0;
        Summary {
            p50: us(histogram.value_at_quantile(0.5)),
            p99: us(histogram.value_at_quantile(0.99)),
            max: us(histogram.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_what_was_recorded() {
        let mut lateness = Lateness::new();
        for us in 1..=100 {
            lateness.record(1_000_000, 1_000_000 + us * 1000);
        }
        let Summary { p50, p99, max } = lateness.summary();
        assert!((p50 - 50.0).abs() < 0.1, "{p50}");
        assert!((p99 - 99.0).abs() < 0.1, "{p99}");
        assert!((max - 100.0).abs() < 0.1, "{max}");
    }
}
