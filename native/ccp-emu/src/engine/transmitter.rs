//! Transmission time: at a constant rate, or at the opportunities of a Mahimahi trace.

/// Bytes per opportunity of a trace (Netravali et al., "Mahimahi", USENIX ATC 2015, section 4).
const OPPORTUNITY_BYTES: u32 = 1500;

#[derive(Clone, Debug)]
pub enum Transmitter {
    Unlimited,
    Rate(Constant),
    Trace(Trace),
}

impl Transmitter {
    pub fn new(rate_bytes_per_s: Option<f64>, trace_ms: Option<&[u64]>, start_ns: u64) -> Self {
        match (rate_bytes_per_s, trace_ms) {
            (_, Some(trace_ms)) => Transmitter::Trace(Trace::new(trace_ms, start_ns)),
            (Some(rate), None) => Transmitter::Rate(Constant { rate_bytes_per_s: rate, rest_ns: 0.0 }),
            (None, None) => Transmitter::Unlimited,
        }
    }

    /// End of a transmission that starts now. `busy`: the previous packet has just left.
    pub fn send(&mut self, now_ns: u64, len_bytes: u32, busy: bool) -> u64 {
        match self {
            Transmitter::Unlimited => now_ns,
            Transmitter::Rate(constant) => constant.send(now_ns, f64::from(len_bytes), busy),
            Transmitter::Trace(trace) => trace.send(now_ns, len_bytes, busy),
        }
    }

    /// Mean rate; infinite without a limit.
    pub fn mean_bytes_per_s(&self) -> f64 {
        match self {
            Transmitter::Unlimited => f64::INFINITY,
            Transmitter::Rate(constant) => constant.rate_bytes_per_s,
            Transmitter::Trace(trace) => {
                trace.offsets_ns.len() as f64 * f64::from(OPPORTUNITY_BYTES) * 1e9 / trace.period_ns as f64
            }
        }
    }
}

/// A constant rate. Rounding errors are carried to the next packet, so that they do not accumulate in a busy period.
#[derive(Clone, Debug)]
pub struct Constant {
    pub rate_bytes_per_s: f64,
    rest_ns: f64,
}

impl Constant {
    fn send(&mut self, now_ns: u64, bytes: f64, busy: bool) -> u64 {
        let rest_ns = if busy { self.rest_ns } else { 0.0 };
        let exact_ns = bytes * 1e9 / self.rate_bytes_per_s + rest_ns;
        // Rounded up, with a negative rest: a packet never leaves early.
        let whole_ns = exact_ns.ceil();
        self.rest_ns = exact_ns - whole_ns;
        now_ns.saturating_add(whole_ns as u64)
    }
}

/// Opportunities of 1,500 bytes at given times, repeated.
#[derive(Clone, Debug)]
pub struct Trace {
    start_ns: u64,
    /// Offset of each opportunity from the start of the period.
    offsets_ns: Vec<u64>,
    period_ns: u64,
    next: u64,
    /// Rest of the last opportunity, for packets that were waiting at its time.
    left_bytes: u32,
    last_ns: u64,
}

impl Trace {
    fn new(trace_ms: &[u64], start_ns: u64) -> Self {
        let offsets_ns: Vec<_> = trace_ms.iter().map(|ms| ms.saturating_mul(1_000_000)).collect();
        let period_ns = offsets_ns.last().copied().unwrap_or(0).max(1);
        Trace { start_ns, offsets_ns, period_ns, next: 0, left_bytes: 0, last_ns: start_ns }
    }

    fn at_ns(&self, number: u64) -> u64 {
        let n = self.offsets_ns.len() as u64;
        let offset_ns = self.offsets_ns.get((number % n) as usize).copied().unwrap_or(0);
        self.start_ns.saturating_add((number / n).saturating_mul(self.period_ns)).saturating_add(offset_ns)
    }

    fn first_from(&self, now_ns: u64) -> u64 {
        let passed_ns = now_ns.saturating_sub(self.start_ns);
        // At the end of a period its last opportunities coincide with the start of the next one.
        let period = passed_ns.div_ceil(self.period_ns).saturating_sub(1);
        let offset_ns = passed_ns - period * self.period_ns;
        let index = self.offsets_ns.partition_point(|at| *at < offset_ns);
        period * self.offsets_ns.len() as u64 + index as u64
    }

    fn send(&mut self, now_ns: u64, len_bytes: u32, busy: bool) -> u64 {
        // Only packets that waited at the time of an opportunity may use its rest.
        if !busy || now_ns != self.last_ns {
            self.left_bytes = 0;
            self.next = self.next.max(self.first_from(now_ns));
        }
        let mut needed_bytes = len_bytes;
        while needed_bytes > self.left_bytes {
            needed_bytes -= self.left_bytes;
            self.left_bytes = OPPORTUNITY_BYTES;
            self.last_ns = self.at_ns(self.next);
            self.next += 1;
        }
        self.left_bytes -= needed_bytes;
        self.last_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(rate_bytes_per_s: f64) -> Transmitter {
        Transmitter::new(Some(rate_bytes_per_s), None, 0)
    }

    fn trace(trace_ms: &[u64]) -> Transmitter {
        Transmitter::new(None, Some(trace_ms), 0)
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn a_packet_of_1500_bytes_takes_120_us_at_100_mbit() {
        let mut at = rate(12.5e6);
        assert_eq!(at.send(0, 1500, false), 120_000);
        assert_eq!(at.send(120_000, 1500, true), 240_000);
        assert_eq!(at.send(500_000, 40, false), 503_200);
    }

    #[test]
    fn rounding_does_not_add_up() {
        // 1000 bytes at 3 MB/s take 333,333 1/3 ns: 3,000 packets per second.
        let mut at = rate(3e6);
        let mut now_ns = 0;
        for number in 0..3_000_000 {
            now_ns = at.send(now_ns, 1000, number > 0);
        }
        assert_eq!(now_ns, 1_000_000_000_000);
    }

    #[test]
    fn without_a_limit_it_takes_no_time() {
        assert_eq!(Transmitter::new(None, None, 0).send(17, 65_535, false), 17);
    }

    #[test]
    fn an_opportunity_takes_small_packets_together_and_large_ones_need_several() {
        let mut at = trace(&[1, 3, 3, 10]);
        assert_eq!(at.send(0, 500, false), MS);
        assert_eq!(at.send(MS, 500, true), MS);
        assert_eq!(at.send(MS, 1500, true), 3 * MS); // 500 left, 1000 of the next
        assert_eq!(at.send(3 * MS, 500, true), 3 * MS);
        assert_eq!(at.send(3 * MS, 1500, true), 3 * MS);
        assert_eq!(at.send(3 * MS, 1500, true), 10 * MS);
        assert_eq!(at.send(10 * MS, 3000, true), 13 * MS); // again from its beginning: 11, 13
    }

    #[test]
    fn opportunities_that_none_used_are_gone() {
        let mut at = trace(&[1, 2, 10]);
        assert_eq!(at.send(5 * MS, 40, false), 10 * MS);
        assert_eq!(at.send(20 * MS, 40, false), 20 * MS);
        assert_eq!(at.send(20 * MS + 1, 40, false), 21 * MS);
        // The rest of an opportunity is not for later packets.
        assert_eq!(at.send(21 * MS + 5, 40, false), 22 * MS);
    }

    #[test]
    fn the_last_opportunity_of_a_period_is_at_the_same_time_as_the_zeroth() {
        let mut at = trace(&[0, 5]);
        let times: Vec<_> = (0..5)
            .scan(0, |now, n| {
                *now = at.send(*now, 1500, n > 0);
                Some(*now / MS)
            })
            .collect();
        assert_eq!(times, [0, 5, 5, 10, 10]);
    }

    #[test]
    fn the_mean_of_a_trace_is_its_bytes_by_its_period() {
        assert_eq!(trace(&[0, 1, 2, 4]).mean_bytes_per_s(), 4.0 * 1500.0 / 0.004);
    }

    proptest! {
        #[test]
        fn the_rate_is_never_exceeded_and_always_reached_while_busy(
            rate_bytes_per_s in 1e3..1e10f64, sizes in prop::collection::vec(20u32..65_536, 1..200),
        ) {
            let mut at = rate(rate_bytes_per_s);
            let (mut now_ns, mut sum_bytes) = (0, 0.0);
            for (number, len) in sizes.into_iter().enumerate() {
                now_ns = at.send(now_ns, len, number > 0);
                sum_bytes += f64::from(len);
                let exact_ns = sum_bytes * 1e9 / rate_bytes_per_s;
                prop_assert!(now_ns as f64 >= exact_ns - 1e-3 - exact_ns * 1e-12);
                prop_assert!(now_ns as f64 <= exact_ns + 1.001 + exact_ns * 1e-12);
            }
        }

        #[test]
        fn a_trace_never_carries_more_than_its_opportunities(
            steps in prop::collection::vec(0u64..4, 1..20),
            packets in prop::collection::vec((20u32..4000, 0u64..6_000_000), 1..100),
        ) {
            let mut times = Vec::new();
            let mut at_ms = 0;
            for step in steps {
                at_ms += step;
                times.push(at_ms);
            }
            times.push(at_ms + 1);
            let mut at = trace(&times);
            let period = (at_ms + 1) * MS;
            let (mut now_ns, mut sum_bytes, mut free_ns) = (0u64, 0u64, 0u64);
            for (len, wait_ns) in packets {
                let busy = wait_ns < 3 * MS && free_ns > 0;
                now_ns = if busy { free_ns } else { free_ns + wait_ns };
                let left_ns = at.send(now_ns, len, busy);
                prop_assert!(left_ns >= now_ns);
                free_ns = left_ns;
                sum_bytes += u64::from(len);
            }
            let rounds = free_ns / period;
            let in_last = times.iter().filter(|t| **t * MS <= free_ns % period).count() as u64;
            // At the end of a period the zeroth opportunities of the next one are counted by `in_last`.
            let maximum = (rounds * times.len() as u64 + in_last) * 1500;
            prop_assert!(sum_bytes <= maximum, "{sum_bytes} > {maximum}");
            prop_assert!(now_ns <= free_ns);
        }
    }
}
