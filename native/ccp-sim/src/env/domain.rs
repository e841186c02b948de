//! The paths of a learner: drawn at random for each episode, from ranges.

use ccp_emu::Stream;
use ccp_emu::spec::{Queue, TokenBucket};
use serde::Deserialize;

use crate::Result;
use crate::env::bad;

/// IP packet of a full segment.
pub const MTU_BYTES: u32 = 1500;
/// Minimum size of a buffer, as of Ethernet drivers.
const BUFFER_MIN_BYTES: f64 = 8.0 * MTU_BYTES as f64;
/// Cross traffic with pauses: mean phases, as shares of an episode.
const PHASE_SHARE: [f64; 2] = [0.05, 0.25];
/// For how long CoDel accepts more than its target: RFC 8289.
const CODEL_INTERVAL_US: u64 = 100_000;
/// RED's upper threshold, as a multiple of the lower one.
const RED_MAX_BY_MIN: u64 = 3;

/// Minimum and maximum.
pub type Range = [f64; 2];

/// Distribution of paths. Ranges are logarithmic: a factor of 2 is equally probable everywhere.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    pub rate_bytes_per_s: Range,
    /// Propagation RTT.
    pub rtt_us: Range,
    /// Buffer of the bottleneck, in bandwidth-delay products.
    pub buffer_bdp: Range,
    /// Random loss, on paths with loss.
    pub loss_ratio: Range,
    /// Share of paths with random loss.
    pub lossy_share: f64,
    /// Maximum number of connections besides the learner's.
    pub cross_flows_max: u64,
    /// Share of paths with such connections.
    pub crossed_share: f64,
    /// Share of paths whose rate follows a trace.
    pub traced_share: f64,
    /// The traces: times at which 1,500 bytes can be sent, ascending; repeated.
    pub traces_ms: Vec<Vec<u64>>,
    /// Share of paths where CUBIC does nothing between actions.
    pub steered_share: f64,
    /// Monitoring time period.
    pub mtp_us: Range,
    pub episode_us: u64,
    /// Share of paths with a managed queue.
    pub aqm_share: f64,
    /// Its target queueing delay.
    pub aqm_target_us: Range,
    /// Share of paths with a policer.
    pub policed_share: f64,
    /// Its rate, relative to the bottleneck's.
    pub policed_ratio: Range,
    /// Its bucket, as time at its rate.
    pub policer_us: Range,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Capacity {
    /// Constant.
    Rate(f64),
    /// Times at which 1,500 bytes can be sent, repeating.
    Trace(Vec<u64>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Cross {
    /// Start, since the start of the episode.
    pub start_us: u64,
    /// Alternating times of sending and pausing; empty: it always sends.
    pub phases_us: Vec<(u64, u64)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    pub capacity: Capacity,
    pub rate_bytes_per_s: f64,
    pub rtt_us: u64,
    pub buffer_bytes: u64,
    pub loss_ratio: f64,
    pub queue: Queue,
    pub policer: Option<TokenBucket>,
    pub cross: Vec<Cross>,
    /// Nothing changes the window between actions.
    pub steered: bool,
    pub mtp_us: u64,
    /// Seed of all random numbers of the episode.
    pub seed: u64,
}

impl Path {
    /// Mean rate, including the policer.
    #[must_use]
    pub fn limit_bytes_per_s(&self) -> f64 {
        self.policer.map_or(self.rate_bytes_per_s, |policer| policer.rate_bytes_per_s)
    }

    /// Mean capacity between two times since the start, in bytes of IP packets.
    #[must_use]
    pub fn mean_bytes_per_s(&self, from_us: u64, to_us: u64) -> f64 {
        let max_bytes_per_s = self.policer.map_or(f64::INFINITY, |policer| policer.rate_bytes_per_s);
        self.bottleneck_bytes_per_s(from_us, to_us).min(max_bytes_per_s)
    }

    fn bottleneck_bytes_per_s(&self, from_us: u64, to_us: u64) -> f64 {
        let Capacity::Trace(times_ms) = &self.capacity else { return self.rate_bytes_per_s };
        let end_us = 1000 * times_ms.last().copied().unwrap_or(1);
        let until = |at_us: u64| {
            let rest_ms = at_us % end_us / 1000;
            at_us / end_us * times_ms.len() as u64 + times_ms.partition_point(|t| *t <= rest_ms) as u64
        };
        let opportunities = until(to_us) - until(from_us);
        f64::from(MTU_BYTES) * opportunities as f64 * 1e6 / to_us.saturating_sub(from_us).max(1) as f64
    }
}

impl Domain {
    /// Validates the values. Errors: `learning.bad_domain`.
    pub fn check(&self) -> Result<()> {
        let ranges = [
            ("rate_bytes_per_s", self.rate_bytes_per_s),
            ("rtt_us", self.rtt_us),
            ("buffer_bdp", self.buffer_bdp),
            ("loss_ratio", self.loss_ratio),
            ("mtp_us", self.mtp_us),
            ("aqm_target_us", self.aqm_target_us),
            ("policed_ratio", self.policed_ratio),
            ("policer_us", self.policer_us),
        ];
        for (name, [low, high]) in ranges {
            if !(low > 0.0 && low <= high && high.is_finite()) {
                return Err(bad("a range is [low, high] with 0 < low <= high").at(name));
            }
        }
        let shares = [
            ("lossy_share", self.lossy_share),
            ("crossed_share", self.crossed_share),
            ("traced_share", self.traced_share),
            ("steered_share", self.steered_share),
            ("aqm_share", self.aqm_share),
            ("policed_share", self.policed_share),
        ];
        if let Some((name, share)) = shares.into_iter().find(|(_, share)| !(0.0..=1.0).contains(share)) {
            return Err(bad(format!("{share} is not between 0 and 1")).at(name));
        }
        if self.loss_ratio[1] > 0.5 {
            return Err(bad("a path loses at most every second packet").at("loss_ratio"));
        }
        if self.traced_share > 0.0 && self.traces_ms.is_empty() {
            return Err(bad("some paths follow traces, but there are no traces").at("traces_ms"));
        }
        if self.traces_ms.iter().any(|t| !t.is_sorted() || t.last().is_none_or(|end| *end == 0)) {
            return Err(bad("the times of a trace ascend, and the last is above 0").at("traces_ms"));
        }
        if self.policed_ratio[1] > 1.0 {
            return Err(bad("the rate of a policer is at most that of the bottleneck").at("policed_ratio"));
        }
        if (self.episode_us as f64) < self.mtp_us[1] {
            return Err(bad("an episode has at least one interval").at("episode_us"));
        }
        Ok(())
    }

    /// Draws the next path. The same stream gives the same paths; each property has its own stream, so that
    /// changing the range of one leaves the others as they were.
    pub fn draw(&self, stream: &mut Stream) -> Path {
        let seed = stream.up_to(u64::MAX);
        let of = |property| Stream::new(seed, "path", property);
        let (capacity, rate_bytes_per_s) = self.capacity(&mut of("rate"));
        let rtt_us = within(self.rtt_us, &mut of("rtt"));
        let bdp_bytes = rate_bytes_per_s * rtt_us / 1e6;
        let buffer_bytes = (within(self.buffer_bdp, &mut of("buffer")) * bdp_bytes).max(BUFFER_MIN_BYTES);
        let lossy = &mut of("lossy");
        Path {
            capacity,
            rate_bytes_per_s,
            rtt_us: rtt_us as u64,
            buffer_bytes: buffer_bytes as u64,
            loss_ratio: if lossy.happens(self.lossy_share) { within(self.loss_ratio, lossy) } else { 0.0 },
            queue: self.queue(rate_bytes_per_s, &mut of("aqm")),
            policer: self.policer(rate_bytes_per_s, &mut of("policer")),
            cross: self.cross(&mut of("cross")),
            steered: of("steered").happens(self.steered_share),
            mtp_us: within(self.mtp_us, &mut of("mtp")) as u64,
            seed,
        }
    }

    fn capacity(&self, stream: &mut Stream) -> (Capacity, f64) {
        let rate_bytes_per_s = within(self.rate_bytes_per_s, stream);
        if !stream.happens(self.traced_share) {
            return (Capacity::Rate(rate_bytes_per_s), rate_bytes_per_s);
        }
        let times_ms = &self.traces_ms[stream.up_to(self.traces_ms.len() as u64 - 1) as usize];
        // A random beginning makes many of few traces.
        let first = stream.up_to(times_ms.len() as u64 - 1) as usize;
        let (before, after) = times_ms.split_at(first);
        let (offset_ms, end_ms) = (before.last().copied().unwrap_or(0), times_ms[times_ms.len() - 1]);
        let rotated =
            after.iter().map(|t| t - offset_ms).chain(before.iter().map(|t| t + end_ms - offset_ms));
        let mean_bytes_per_s = f64::from(MTU_BYTES) * times_ms.len() as f64 * 1e3 / end_ms as f64;
        (Capacity::Trace(rotated.collect()), mean_bytes_per_s)
    }

    fn queue(&self, rate_bytes_per_s: f64, stream: &mut Stream) -> Queue {
        if !stream.happens(self.aqm_share) {
            return Queue::default();
        }
        let target_us = within(self.aqm_target_us, stream);
        if stream.happens(0.5) {
            return Queue::CoDel { target_us: target_us as u64, interval_us: CODEL_INTERVAL_US, ecn: true };
        }
        let min_bytes = ((target_us * rate_bytes_per_s / 1e6) as u64).max(u64::from(MTU_BYTES));
        let max_bytes = RED_MAX_BY_MIN * min_bytes;
        Queue::Red { min_bytes, max_bytes, max_ratio: 0.1, weight: 0.002, ecn: true }
    }

    fn policer(&self, rate_bytes_per_s: f64, stream: &mut Stream) -> Option<TokenBucket> {
        if !stream.happens(self.policed_share) {
            return None;
        }
        let rate_bytes_per_s = within(self.policed_ratio, stream) * rate_bytes_per_s;
        let bucket_bytes = (within(self.policer_us, stream) * rate_bytes_per_s / 1e6).max(BUFFER_MIN_BYTES);
        Some(TokenBucket { rate_bytes_per_s, bucket_bytes: bucket_bytes as u64, shaper: false, refill_us: 0 })
    }

    fn cross(&self, stream: &mut Stream) -> Vec<Cross> {
        if self.cross_flows_max == 0 || !stream.happens(self.crossed_share) {
            return Vec::new();
        }
        let n = stream.up_to(self.cross_flows_max - 1);
        (0..=n).map(|_| self.cross_flow(stream)).collect()
    }

    fn cross_flow(&self, stream: &mut Stream) -> Cross {
        let start_us = stream.up_to(self.episode_us / 2);
        if stream.happens(0.5) {
            return Cross { start_us, phases_us: Vec::new() };
        }
        let mean_us = PHASE_SHARE.map(|share| share * self.episode_us as f64);
        let (on_us, off_us) = (within(mean_us, stream), within(mean_us, stream));
        let (mut phases_us, mut end_us) = (Vec::new(), start_us);
        while end_us < self.episode_us {
            let phase_us = (exponential_us(on_us, stream), exponential_us(off_us, stream));
            end_us += phase_us.0 + phase_us.1;
            phases_us.push(phase_us);
        }
        Cross { start_us, phases_us }
    }
}

/// An exponentially distributed time, at least 1 ms.
fn exponential_us(mean_us: f64, stream: &mut Stream) -> u64 {
    (-mean_us * (1.0 - stream.unit()).ln()).max(1e3) as u64
}

/// Logarithmically uniform in the range.
fn within([low, high]: Range, stream: &mut Stream) -> f64 {
    low * (high / low).powf(stream.unit())
}

#[cfg(test)]
#[path = "domain_tests.rs"]
mod tests;
