//! PIE, proportional integral controller enhanced.
//!
//! Source: RFC 8033, sections 4 and 5 with ECN (5.1), derandomization (5.4) and the cap of a step (5.5). The delay is
//! that of the packet that left last (4.3), so no departure rate is estimated (5.2); PIE is always active (5.3).

use super::Action;
use super::pi::{Updates, step};
use crate::rng::Stream;
use crate::spec::Pie as Spec;

/// Alpha and beta (section 4.2).
const GAINS_HZ: (f64, f64) = (0.125, 1.25);
/// Steps are divided by this at drop ratios below the bound (section 4.2).
const SCALES: [(f64, f64); 6] =
    [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (0.1, 2.0)];
/// Maximum step at a ratio of 0.1 or more (section 5.5).
const STEP_CAP: f64 = 0.02;
const CAPPED_FROM: f64 = 0.1;
/// Factor of a ratio without congestion (section 4.2).
const DECAY: f64 = 0.98;
/// Below this ratio, packets pass while the delay is short (section 4.1).
const SPARED_BELOW: f64 = 0.2;
/// Sums of ratios that exclude and force a drop (section 5.4).
const SUM_MIN: f64 = 0.85;
const SUM_MAX: f64 = 8.5;

#[derive(Clone, Debug)]
pub struct Pie {
    spec: Spec,
    target_ns: u64,
    mtu_bytes: u64,
    updates: Updates,
    ratio: f64,
    /// Sum of ratios since the last signal.
    sum: f64,
    delay_ns: u64,
    before_ns: u64,
    /// Time that bursts may still last.
    burst_ns: u64,
}

impl Pie {
    pub fn new(spec: Spec, mtu_bytes: u64) -> Self {
        Pie {
            spec,
            target_ns: spec.target_us.saturating_mul(1000),
            mtu_bytes,
            updates: Updates::new(spec.update_us),
            ratio: 0.0,
            sum: 0.0,
            delay_ns: 0,
            before_ns: 0,
            burst_ns: spec.burst_us.saturating_mul(1000),
        }
    }

    pub fn ecn(&self) -> bool {
        self.spec.ecn
    }

    /// A packet was dropped because the buffer is full.
    pub fn overflow(&mut self) {
        self.sum = 0.0;
    }

    /// Decides about a packet that finds `queue_bytes` in the queue.
    pub fn arrival(&mut self, now_ns: u64, queue_bytes: u64, random: &mut Stream) -> Action {
        self.advance(now_ns);
        if self.burst_ns > 0 || !self.chooses(queue_bytes, random) {
            return Action::Pass;
        }
        self.sum = 0.0;
        if self.ratio <= self.spec.mark_max_ratio { Action::Signal } else { Action::Drop }
    }

    /// A packet leaves, and `left_bytes` wait after it.
    pub fn departure(&mut self, now_ns: u64, sojourn_ns: u64, left_bytes: u64) {
        self.advance(now_ns);
        self.delay_ns = if left_bytes == 0 { 0 } else { sojourn_ns };
    }

    fn chooses(&mut self, queue_bytes: u64, random: &mut Stream) -> bool {
        let is_short = self.before_ns < self.target_ns / 2 && self.ratio < SPARED_BELOW;
        if is_short || queue_bytes <= 2 * self.mtu_bytes {
            return false;
        }
        if self.ratio == 0.0 {
            self.sum = 0.0;
        }
        self.sum += self.ratio;
        self.sum >= SUM_MAX || self.sum >= SUM_MIN && random.happens(self.ratio)
    }

    fn advance(&mut self, now_ns: u64) {
        while self.updates.due(now_ns).is_some() {
            self.update();
            let at_rest = self.ratio == 0.0 && self.delay_ns == 0 && self.before_ns == 0;
            if at_rest && self.burst_ns == self.spec.burst_us.saturating_mul(1000) {
                self.updates.skip(now_ns);
            }
        }
    }

    fn update(&mut self) {
        let scale = SCALES.iter().find(|(bound, _)| self.ratio < *bound).map_or(1.0, |(_, scale)| *scale);
        let mut change = step(GAINS_HZ, self.delay_ns, self.before_ns, self.target_ns) / scale;
        if self.ratio >= CAPPED_FROM {
            change = change.min(STEP_CAP);
        }
        self.ratio += change;
        if self.delay_ns == 0 && self.before_ns == 0 {
            self.ratio *= DECAY;
        }
        self.ratio = self.ratio.clamp(0.0, 1.0);
        self.burst_ns = self.burst_ns.saturating_sub(self.updates.every_ns());
        let is_short = self.delay_ns < self.target_ns / 2 && self.before_ns < self.target_ns / 2;
        if is_short && self.ratio == 0.0 {
            self.burst_ns = self.spec.burst_us.saturating_mul(1000);
        }
        self.before_ns = self.delay_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn pie() -> Pie {
        Pie::new(Spec::default(), 1500)
    }

    /// A ratio after one update.
    fn updated(ratio: f64, delay_ms: u64, before_ms: u64) -> f64 {
        let mut pie = Pie { ratio, delay_ns: delay_ms * MS, before_ns: before_ms * MS, ..pie() };
        pie.update();
        pie.ratio
    }

    #[test]
    fn the_ratio_moves_by_gains_that_shrink_with_it() {
        // 0.125 * 5 ms + 1.25 * 10 ms = 0.013125.
        for (ratio, scale) in
            [(0.0, 2048.0), (2e-6, 512.0), (2e-5, 128.0), (2e-4, 32.0), (2e-3, 8.0), (2e-2, 2.0), (0.2, 1.0)]
        {
            let change = updated(ratio, 20, 10) - ratio;
            assert!((change - 0.013_125 / scale).abs() < 1e-12, "{ratio}: {change}");
        }
        // 0.125 * 85 ms + 1.25 * 90 ms = 0.123: capped only from 0.1 on.
        assert!((updated(0.05, 100, 10) - 0.05 - 0.123_125 / 2.0).abs() < 1e-12);
        assert!((updated(0.1, 100, 10) - 0.12).abs() < 1e-12);
        // Falling delay: 0.125 * 1 ms - 1.25 * 4 ms.
        assert!((updated(0.2, 16, 20) - 0.2 + 0.004_875).abs() < 1e-12);
    }

    #[test]
    fn the_ratio_decays_when_the_queue_is_empty() {
        // 0.125 * -15 ms = -0.001875, and then 2 % less.
        assert!((updated(0.2, 0, 0) - (0.2 - 0.001_875) * 0.98).abs() < 1e-12);
        assert!((updated(0.2, 7, 7) - 0.199).abs() < 1e-12);
        assert_eq!(updated(1e-7, 0, 0), 0.0);
    }

    #[test]
    fn a_burst_of_150_ms_passes_and_its_allowance_returns() {
        let mut random = Stream::new(1, "l>", "queue");
        let mut pie = Pie { ratio: 1.0, before_ns: 50 * MS, delay_ns: 50 * MS, ..pie() };
        let first_ms = (0..400).find(|ms| pie.arrival(ms * MS, 90_000, &mut random) != Action::Pass).unwrap();
        assert_eq!(first_ms, 150);
        // Without congestion the ratio falls to 0, and then bursts may last as long again.
        pie.departure(400 * MS, 0, 0);
        pie.advance(20_000 * MS);
        assert_eq!((pie.ratio, pie.burst_ns), (0.0, 150 * MS));
    }

    #[test]
    fn updates_are_computed_at_packets_as_if_by_a_timer() {
        let (mut often, mut seldom) = (pie(), pie());
        for pie in [&mut often, &mut seldom] {
            pie.departure(0, 40 * MS, 9000);
        }
        (0..=500).for_each(|ms| often.advance(ms * MS));
        seldom.advance(500 * MS);
        assert!(often.ratio > 0.0);
        assert_eq!((often.ratio, often.burst_ns), (seldom.ratio, seldom.burst_ns));
        // At rest, a year costs no more than a moment.
        let mut idle = pie();
        idle.advance(0);
        idle.advance(365 * 86_400_000 * MS);
        assert_eq!(idle.updates.due(365 * 86_400_000 * MS), None);
    }

    #[test]
    fn signals_are_neither_too_close_nor_too_far_apart() {
        let mut random = Stream::new(1, "l>", "queue");
        let mut pie = Pie { ratio: 1.0 / 16.0, before_ns: 15 * MS, burst_ns: 0, ..pie() };
        pie.updates.due(0);
        let (mut distances, mut last) = (Vec::new(), None);
        for number in 0..200_000u64 {
            if pie.arrival(0, 90_000, &mut random) == Action::Signal {
                distances.extend(last.map(|last| number - last));
                last = Some(number);
            }
        }
        // Never while the sum is below 0.85 (13 packets), always at 8.5 (136).
        assert!(distances.iter().all(|d| (14..=136).contains(d)));
        // Equal chance from the 14th: 13 + 16.
        let mean = distances.iter().sum::<u64>() as f64 / distances.len() as f64;
        assert!((mean - 29.0).abs() < 0.5, "{mean}");
    }

    #[test]
    fn above_a_tenth_packets_are_dropped_and_short_queues_are_spared() {
        let mut random = Stream::new(1, "l>", "queue");
        let mut arrives = |ratio: f64, before_ms: u64, queue_bytes: u64| {
            let before_ns = before_ms * MS;
            let mut pie = Pie { ratio, sum: 8.5, before_ns, burst_ns: 0, ..pie() };
            pie.updates.due(0);
            pie.arrival(0, queue_bytes, &mut random)
        };
        assert_eq!(arrives(0.1, 20, 90_000), Action::Signal);
        assert_eq!(arrives(0.11, 20, 90_000), Action::Drop);
        assert_eq!(arrives(0.11, 7, 90_000), Action::Pass);
        assert_eq!(arrives(0.2, 7, 90_000), Action::Drop);
        assert_eq!(arrives(0.2, 20, 3_000), Action::Pass);
    }
}
