//! Token bucket: at most B + R t bytes in any time t, or B + R (t + T) if tokens are added once in a period T.

use crate::spec::TokenBucket as Spec;

#[derive(Clone, Debug)]
pub struct Bucket {
    spec: Spec,
    tokens_bytes: f64,
    filled_ns: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// The packet passes; its tokens are taken.
    Pass,
    /// There will be enough tokens at this time.
    Wait(u64),
    /// The packet is larger than the bucket.
    Never,
}

impl Bucket {
    pub fn new(spec: Spec, now_ns: u64) -> Self {
        Bucket { spec, tokens_bytes: spec.bucket_bytes as f64, filled_ns: now_ns }
    }

    pub fn is_shaper(&self) -> bool {
        self.spec.shaper
    }

    pub fn rate_bytes_per_s(&self) -> f64 {
        self.spec.rate_bytes_per_s
    }

    /// Changes rate and size; tokens are kept up to the new size.
    pub fn set(&mut self, spec: Spec, now_ns: u64) {
        self.fill(now_ns);
        self.spec = spec;
        self.tokens_bytes = self.tokens_bytes.min(spec.bucket_bytes as f64);
    }

    pub fn take(&mut self, now_ns: u64, len_bytes: u32) -> Verdict {
        let verdict = self.peek(now_ns, len_bytes);
        if verdict == Verdict::Pass {
            self.tokens_bytes -= f64::from(len_bytes);
        }
        verdict
    }

    /// Like `take`, without taking tokens.
    pub fn peek(&mut self, now_ns: u64, len_bytes: u32) -> Verdict {
        self.fill(now_ns);
        let needed_bytes = f64::from(len_bytes);
        if needed_bytes > self.spec.bucket_bytes as f64 {
            return Verdict::Never;
        }
        if self.tokens_bytes >= needed_bytes {
            return Verdict::Pass;
        }
        let wait_ns = (needed_bytes - self.tokens_bytes) * 1e9 / self.spec.rate_bytes_per_s;
        // At least 1 ns, so that rounding cannot repeat the same time forever.
        let wait_ns = (wait_ns.ceil() as u64).max(1);
        Verdict::Wait(match self.period_ns() {
            0 => now_ns.saturating_add(wait_ns),
            period_ns => self.filled_ns.saturating_add(wait_ns.div_ceil(period_ns).saturating_mul(period_ns)),
        })
    }

    fn period_ns(&self) -> u64 {
        self.spec.refill_us.saturating_mul(1000)
    }

    fn fill(&mut self, now_ns: u64) {
        let mut passed_ns = now_ns.saturating_sub(self.filled_ns);
        if let Some(since_ns) = passed_ns.checked_rem(self.period_ns()) {
            passed_ns -= since_ns;
        }
        let came_bytes = passed_ns as f64 * self.spec.rate_bytes_per_s / 1e9;
        self.tokens_bytes = (self.tokens_bytes + came_bytes).min(self.spec.bucket_bytes as f64);
        self.filled_ns += passed_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bucket(rate_bytes_per_s: f64, bucket_bytes: u64) -> Bucket {
        in_steps(rate_bytes_per_s, bucket_bytes, 0)
    }

    fn in_steps(rate_bytes_per_s: f64, bucket_bytes: u64, refill_us: u64) -> Bucket {
        Bucket::new(Spec { rate_bytes_per_s, bucket_bytes, shaper: false, refill_us }, 0)
    }

    #[test]
    fn a_full_bucket_passes_its_size_and_then_its_rate() {
        let mut bucket = bucket(1e6, 3000);
        assert_eq!(bucket.take(0, 1500), Verdict::Pass);
        assert_eq!(bucket.take(0, 1500), Verdict::Pass);
        // 1500 bytes take 1.5 ms at 1 MB/s.
        assert_eq!(bucket.take(0, 1500), Verdict::Wait(1_500_000));
        assert_eq!(bucket.take(1_000_000, 1500), Verdict::Wait(1_500_000));
        assert_eq!(bucket.take(1_500_000, 1500), Verdict::Pass);
        assert_eq!(bucket.take(1_500_000, 1), Verdict::Wait(1_501_000));
    }

    #[test]
    fn tokens_do_not_pile_up_beyond_the_bucket() {
        let mut bucket = bucket(1e6, 2000);
        assert_eq!(bucket.take(3_600_000_000_000, 2000), Verdict::Pass);
        assert_eq!(bucket.take(3_600_000_000_000, 100), Verdict::Wait(3_600_000_100_000));
    }

    #[test]
    fn tokens_are_added_once_in_a_period() {
        let mut bucket = in_steps(1e6, 3000, 2_000);
        assert_eq!(bucket.take(0, 3000), Verdict::Pass);
        assert_eq!(bucket.take(1_999_999, 1), Verdict::Wait(2_000_000));
        assert_eq!(bucket.take(2_500_000, 1500), Verdict::Pass);
        // 500 bytes are left; the next 2000 come at 4 ms, however often it is asked before.
        assert_eq!(bucket.take(3_900_000, 1500), Verdict::Wait(4_000_000));
        assert_eq!(bucket.take(3_999_999, 500), Verdict::Pass);
        assert_eq!(bucket.take(4_000_000, 2001), Verdict::Wait(6_000_000));
        assert_eq!(bucket.take(4_000_000, 2000), Verdict::Pass);
        assert_eq!(bucket.take(4_000_000, 2001), Verdict::Wait(8_000_000));
    }

    #[test]
    fn tokens_of_a_period_that_do_not_fit_are_lost() {
        let mut bucket = in_steps(1e6, 1500, 10_000);
        assert_eq!(bucket.take(0, 1500), Verdict::Pass);
        assert_eq!(bucket.take(10_000_000, 1500), Verdict::Pass);
        assert_eq!(bucket.take(10_000_000, 1500), Verdict::Wait(20_000_000));
    }

    #[test]
    fn a_packet_larger_than_the_bucket_never_passes() {
        assert_eq!(bucket(1e6, 1499).take(1_000_000_000, 1500), Verdict::Never);
    }

    #[test]
    fn a_change_keeps_the_tokens_that_fit() {
        let mut bucket = bucket(1e6, 10_000);
        assert_eq!(bucket.take(0, 6000), Verdict::Pass);
        bucket.set(Spec { rate_bytes_per_s: 2e6, bucket_bytes: 5000, shaper: false, refill_us: 0 }, 0);
        assert_eq!(bucket.take(0, 4000), Verdict::Pass);
        assert_eq!(bucket.take(0, 1000), Verdict::Wait(500_000));
    }

    proptest! {
        #[test]
        fn never_more_than_bucket_and_rate_allow(
            rate in 1e3..1e9f64,
            size in 1500u64..100_000,
            refill_us in prop_oneof![Just(0u64), 1..200_000u64],
            steps in prop::collection::vec((0u64..5_000_000, 40u32..1501), 1..200),
        ) {
            let mut bucket = in_steps(rate, size, refill_us);
            let mut now_ns = 0;
            let mut passed: Vec<(u64, f64)> = Vec::new();
            for (step_ns, len_bytes) in steps {
                now_ns += step_ns;
                if bucket.take(now_ns, len_bytes) == Verdict::Pass {
                    passed.push((now_ns, f64::from(len_bytes)));
                }
            }
            for (start, (start_ns, _)) in passed.iter().enumerate() {
                let mut sum_bytes = 0.0;
                for (at_ns, len_bytes) in &passed[start..] {
                    sum_bytes += len_bytes;
                    let past_ns = at_ns - start_ns + 1000 * refill_us;
                    let maximum = size as f64 + rate * past_ns as f64 / 1e9;
                    prop_assert!(sum_bytes <= maximum + 1e-6, "{sum_bytes} > {maximum}");
                }
            }
        }

        #[test]
        fn after_the_wait_it_passes(
            rate in 1e3..1e9f64,
            size in 1500u64..100_000,
            refill_us in prop_oneof![Just(0u64), 1..200_000u64],
            len in 40u32..1501,
        ) {
            let mut bucket = in_steps(rate, size, refill_us);
            let step_ns = (1000 * refill_us).max(1);
            let mut now_ns = 0;
            for _ in 0..200 {
                now_ns = match bucket.take(now_ns, len) {
                    Verdict::Pass => now_ns,
                    Verdict::Wait(at_ns) => {
                        prop_assert!(at_ns > now_ns);
                        // Rounding may require one nanosecond, or one period, more.
                        let again = bucket.take(at_ns, len);
                        prop_assert!(again == Verdict::Pass || again == Verdict::Wait(at_ns + step_ns));
                        at_ns
                    }
                    Verdict::Never => unreachable!("no packet is larger than the bucket"),
                };
            }
        }
    }
}
