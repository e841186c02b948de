//! RED, random early detection.
//!
//! Source: S. Floyd and V. Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM ToN
//! 1(4), 1993, figure 2; gentle form: S. Floyd, "Recommendation on using the gentle variant of RED", 2000.
//! The probability does not depend on the packet size, as RFC 7141 recommends.

use super::Action;
use crate::rng::Stream;

/// Packet size for ageing the average while the queue is idle: "a typical transmission time".
const TYPICAL_BYTES: f64 = 500.0;

#[derive(Clone, Debug)]
pub struct Red {
    min_bytes: f64,
    max_bytes: f64,
    max_ratio: f64,
    weight: f64,
    ecn: bool,
    average_bytes: f64,
    /// Packets since the last signal; None while the average is below `min_bytes`.
    count: Option<u64>,
    idle_since_ns: Option<u64>,
}

impl Red {
    pub fn new(min_bytes: f64, max_bytes: f64, max_ratio: f64, weight: f64, ecn: bool) -> Self {
        let idle_since_ns = Some(0);
        Red { min_bytes, max_bytes, max_ratio, weight, ecn, average_bytes: 0.0, count: None, idle_since_ns }
    }

    pub fn ecn(&self) -> bool {
        self.ecn
    }

    /// The transmitter becomes idle.
    pub fn idle(&mut self, now_ns: u64) {
        self.idle_since_ns = Some(now_ns);
    }

    /// A packet was dropped because the buffer is full.
    pub fn overflow(&mut self) {
        self.count = Some(0);
    }

    /// Decides about a packet that finds `queue_bytes` in the queue.
    pub fn arrival(
        &mut self,
        now_ns: u64,
        queue_bytes: u64,
        rate_bytes_per_s: f64,
        random: &mut Stream,
    ) -> Action {
        if let Some(since_ns) = self.idle_since_ns.take() {
            // As if this many small packets had found the queue empty.
            let idle_s = now_ns.saturating_sub(since_ns) as f64 / 1e9;
            self.average_bytes *= (1.0 - self.weight).powf(idle_s * rate_bytes_per_s / TYPICAL_BYTES);
        }
        self.average_bytes += self.weight * (queue_bytes as f64 - self.average_bytes);
        let ratio = self.ratio();
        if ratio == 0.0 {
            self.count = None;
            return Action::Pass;
        }
        if ratio >= 1.0 {
            self.count = Some(0);
            return Action::Drop;
        }
        let count = self.count.map_or(0, |count| count + 1);
        self.count = Some(count);
        // Spreads signals evenly: the distance between two is uniform, not geometric.
        let spread = 1.0 - count as f64 * ratio;
        if spread <= 0.0 || random.happens(ratio / spread) {
            self.count = Some(0);
            return Action::Signal;
        }
        Action::Pass
    }

    /// Probability at the average queue: 0 up to `min_bytes`, `max_ratio` at `max_bytes`, 1 at twice that.
    fn ratio(&self) -> f64 {
        let average_bytes = self.average_bytes;
        if average_bytes < self.min_bytes {
            0.0
        } else if average_bytes < self.max_bytes {
            self.max_ratio * (average_bytes - self.min_bytes) / (self.max_bytes - self.min_bytes)
        } else {
            let beyond = (average_bytes - self.max_bytes) / self.max_bytes;
            (self.max_ratio + (1.0 - self.max_ratio) * beyond).min(1.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn red(weight: f64) -> Red {
        Red::new(10_000.0, 30_000.0, 0.1, weight, true)
    }

    fn at(average_bytes: f64) -> f64 {
        let mut red = red(0.002);
        red.average_bytes = average_bytes;
        red.ratio()
    }

    #[test]
    fn the_probability_is_the_gentle_curve() {
        assert_eq!(at(9_999.0), 0.0);
        assert_eq!(at(10_000.0), 0.0);
        assert!((at(20_000.0) - 0.05).abs() < 1e-12);
        assert!((at(30_000.0) - 0.1).abs() < 1e-12);
        assert!((at(45_000.0) - 0.55).abs() < 1e-12);
        assert_eq!(at(60_000.0), 1.0);
        assert_eq!(at(90_000.0), 1.0);
    }

    #[test]
    fn the_average_moves_by_its_weight() {
        let mut red = red(0.25);
        let mut random = Stream::new(1, "l>", "red");
        red.arrival(0, 0, 1e6, &mut random);
        red.arrival(0, 8_000, 1e6, &mut random);
        assert_eq!(red.average_bytes, 2_000.0);
        red.arrival(0, 8_000, 1e6, &mut random);
        assert_eq!(red.average_bytes, 3_500.0);
    }

    #[test]
    fn idle_time_counts_as_small_packets_that_found_nothing() {
        let mut red = red(0.5);
        red.average_bytes = 8_000.0;
        red.idle(1_000_000);
        // 1 ms at 1 MB/s: two packets of 500 bytes, then the arrival itself: 8000 / 2^3.
        red.arrival(2_000_000, 0, 1e6, &mut Stream::new(1, "l>", "red"));
        assert!((red.average_bytes - 1_000.0).abs() < 1e-9);
    }

    #[test]
    fn signals_are_spread_evenly() {
        // With p_b = 0.05 the distance between signals is uniform from 1 to 19 (figure 2 counts the packet itself):
        // mean 10.
        let mut red = red(0.0);
        red.idle_since_ns = None;
        red.average_bytes = 20_000.0;
        let mut random = Stream::new(1, "l>", "red");
        let (mut distances, mut last) = (Vec::new(), None);
        for number in 0..100_000u64 {
            if red.arrival(0, 0, 1e6, &mut random) == Action::Signal {
                distances.extend(last.map(|last| number - last));
                last = Some(number);
            }
        }
        assert!(distances.iter().all(|d| (1..=19).contains(d)));
        let mean = distances.iter().sum::<u64>() as f64 / distances.len() as f64;
        assert!((mean - 10.0).abs() < 0.3, "{mean}");
    }

    #[test]
    fn beyond_twice_the_upper_threshold_everything_is_dropped() {
        let mut red = red(0.0);
        red.idle_since_ns = None;
        red.average_bytes = 60_000.0;
        assert_eq!(red.arrival(0, 0, 1e6, &mut Stream::new(1, "l>", "red")), Action::Drop);
    }
}
