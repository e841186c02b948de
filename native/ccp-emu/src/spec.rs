//! A network as data, described by `experiments/netlab/spec.py`, with names resolved to indices. Invalid
//! values are rejected here, so that the engine can rely on them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::Deserialize;

use crate::int::Int;
use crate::{Error, Result};

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    pub seed: u64,
    pub mtu_bytes: u32,
    pub nodes: Vec<Node>,
    pub links: Vec<Link>,
    /// Per node and destination, the index of the outgoing link; -1: none.
    pub routes: Vec<Vec<i64>>,
    pub sample_interval_us: u64,
    #[serde(default)]
    pub samples_path: Option<PathBuf>,
    /// Files for captures, by name of the link direction.
    #[serde(default)]
    pub pcap: Option<BTreeMap<String, PathBuf>>,
    #[serde(default)]
    pub int: Option<Int>,
}

/// A host, or a router, which has neither addresses nor a device.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Node {
    pub name: String,
    pub addresses: Vec<IpAddr>,
    /// Index of a host's TUN device.
    #[serde(default)]
    pub tun: Option<usize>,
    /// How its acknowledgments misbehave; None: not at all.
    #[serde(default)]
    pub misbehaves: Option<Misbehaviour>,
}

/// How a host's acknowledgments deviate from TCP's.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Misbehaviour {
    /// ACKs sent instead of one, each of a part of its bytes.
    pub ack_division: u32,
    /// Acknowledges all that the sender has sent.
    pub optimistic: bool,
    /// Never reports ECN marks.
    pub hides_marks: bool,
}

impl Default for Misbehaviour {
    fn default() -> Self {
        Misbehaviour { ack_division: 1, optimistic: false, hides_marks: false }
    }
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Name, such as `bottleneck>`.
    pub name: String,
    /// Index of the first node.
    pub from: usize,
    /// Index of the last node.
    pub to: usize,
    pub direction: Direction,
}

/// Parameters of a link direction.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Direction {
    /// Transmission rate; None: unlimited.
    pub rate_bytes_per_s: Option<f64>,
    /// Instead of a rate, times from the start at which 1,500 bytes can be sent; they repeat.
    pub trace_ms: Option<Vec<u64>>,
    pub delay_us: u64,
    pub jitter_us: u64,
    /// Maximum queue before the transmitter.
    pub buffer: Option<Buffer>,
    pub queue: Queue,
    pub loss: Option<Loss>,
    /// Rate limiter before the queue.
    pub token_bucket: Option<TokenBucket>,
    /// Probability that a packet is duplicated.
    pub duplicate_ratio: f64,
    /// Probability that a bit of a packet is flipped.
    pub corrupt_ratio: f64,
    /// Packets that take a longer way.
    pub reorder: Option<Reorder>,
    /// Waiting ACKs are dropped that a later one makes superfluous.
    pub ack_filter: bool,
    /// Packets travel inside others.
    pub tunnel: Option<Tunnel>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Reorder {
    /// Probability that a packet takes the longer way.
    pub ratio: f64,
    /// Its additional delay.
    pub late_us: u64,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Tunnel {
    /// Headers around each packet.
    pub overhead_bytes: u32,
    /// Maximum packet inside; None: as the network's.
    #[serde(default)]
    pub mtu_bytes: Option<u32>,
    /// The senders of larger packets are told.
    #[serde(default = "yes")]
    pub reports: bool,
    /// The outer header is as ECN-capable as the inner one, and marks are copied inwards.
    #[serde(default = "yes")]
    pub ecn: bool,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Buffer {
    Packets(u64),
    Bytes(u64),
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Loss {
    /// Independent, with equal probability.
    Bernoulli { ratio: f64 },
    /// Bursts, with a good and a bad state.
    GilbertElliott {
        /// Probability to enter the bad state, per packet.
        good_to_bad: f64,
        /// Probability to leave it, per packet.
        bad_to_good: f64,
        /// Probability of loss in the bad state.
        #[serde(default = "one")]
        loss_bad: f64,
        /// Probability of loss in the good state.
        #[serde(default)]
        loss_good: f64,
    },
    /// Packets with given numbers, from 0.
    Pattern {
        drop: Vec<u64>,
        /// Period after which the count restarts.
        #[serde(default)]
        repeat_every_pkts: Option<u64>,
    },
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Queue {
    /// Drops what does not fit.
    DropTail {
        /// Mark packets that waited longer.
        #[serde(default)]
        ce_threshold_us: Option<u64>,
        /// Mark packets that find a longer queue.
        #[serde(default)]
        ce_threshold_bytes: Option<u64>,
    },
    /// Random early detection, gentle.
    Red {
        /// Average queue from which packets are marked or dropped.
        min_bytes: u64,
        /// Average queue at which the probability is `max_ratio`.
        max_bytes: u64,
        #[serde(default = "red_max_ratio")]
        max_ratio: f64,
        /// Weight of the newest queue length in the average.
        #[serde(default = "red_weight")]
        weight: f64,
        /// Mark packets that allow it, instead of dropping them.
        #[serde(default = "yes")]
        ecn: bool,
    },
    #[serde(rename = "codel")]
    CoDel {
        /// Accepted standing queueing delay.
        #[serde(default = "codel_target_us")]
        target_us: u64,
        /// Time for which it may be exceeded.
        #[serde(default = "codel_interval_us")]
        interval_us: u64,
        #[serde(default = "yes")]
        ecn: bool,
    },
    Pie(Pie),
    #[serde(rename = "fq_codel")]
    FqCoDel(FqCoDel),
    #[serde(rename = "dualpi2")]
    DualPi2(DualPi2),
}

/// RFC 8033; defaults of its sections 4.2, 4.4 and 5.1.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Pie {
    /// Queueing delay that it aims at.
    pub target_us: u64,
    /// Interval of its decisions.
    pub update_us: u64,
    /// Time for which a burst passes.
    pub burst_us: u64,
    pub ecn: bool,
    /// Probability above which packets are dropped instead of marked.
    pub mark_max_ratio: f64,
}

impl Default for Pie {
    fn default() -> Self {
        Pie { target_us: 15_000, update_us: 15_000, burst_us: 150_000, ecn: true, mark_max_ratio: 0.1 }
    }
}

/// RFC 8290; defaults of its section 5.2.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct FqCoDel {
    pub target_us: u64,
    pub interval_us: u64,
    /// Bytes that a flow may send per turn.
    pub quantum_bytes: u32,
    /// Number of queues, to which flows are hashed.
    pub flows: u32,
    pub ecn: bool,
}

impl Default for FqCoDel {
    fn default() -> Self {
        let (target_us, interval_us) = (codel_target_us(), codel_interval_us());
        FqCoDel { target_us, interval_us, quantum_bytes: 1514, flows: 1024, ecn: true }
    }
}

/// RFC 9332; defaults of its appendix A.1, except `step_us` (the middle of the RFC's ramp from 0.8 to 1.2 ms, and
/// Linux' default) and `classic_share`, which the RFC leaves open.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct DualPi2 {
    /// Queueing delay that the classic queue aims at.
    pub target_us: u64,
    /// Longest RTT for which it is tuned.
    pub rtt_max_us: u64,
    /// Factor k between the probability of the low-latency queue and the root of the classic one.
    pub coupling: f64,
    /// Queueing time above which packets of the low-latency queue are marked.
    pub step_us: u64,
    /// Share of the classic queue while both have packets.
    pub classic_share: f64,
    /// Packets of all ECN-capable transports use the low-latency queue, not only those with ECT(1).
    pub any_ect: bool,
}

impl Default for DualPi2 {
    fn default() -> Self {
        DualPi2 {
            target_us: 15_000,
            rtt_max_us: 100_000,
            coupling: 2.0,
            step_us: 1_000,
            classic_share: 1.0 / 16.0,
            any_ect: false,
        }
    }
}

impl Default for Queue {
    fn default() -> Self {
        Queue::DropTail { ce_threshold_us: None, ce_threshold_bytes: None }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TokenBucket {
    pub rate_bytes_per_s: f64,
    pub bucket_bytes: u64,
    /// Packets without tokens wait instead of being dropped.
    #[serde(default)]
    pub shaper: bool,
    /// Period after which the tokens of that time are added; 0: continuously.
    #[serde(default)]
    pub refill_us: u64,
}

/// Maximum number of queues of FQ-CoDel, as in Linux.
const FLOWS_MAX: u32 = 65_536;

fn one() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

fn red_max_ratio() -> f64 {
    0.1
}

fn red_weight() -> f64 {
    0.002
}

fn codel_target_us() -> u64 {
    5_000
}

fn codel_interval_us() -> u64 {
    100_000
}

impl Spec {
    /// Parses a network from JSON. Errors: `emulator.bad_spec` if the JSON or a value is invalid.
    pub fn from_json(json: &[u8]) -> Result<Self> {
        let spec: Spec = serde_json::from_slice(json)
            .map_err(|e| bad("cannot parse the description of the network").why(e))?;
        spec.check()?;
        Ok(spec)
    }

    fn check(&self) -> Result<()> {
        for (index, link) in self.links.iter().enumerate() {
            let place = format!("links[{index}] ({})", link.name);
            if link.from >= self.nodes.len() || link.to >= self.nodes.len() {
                return Err(bad("a link begins or ends at an unknown node").at(place));
            }
            if self.links[..index].iter().any(|l| l.name == link.name) {
                return Err(bad("two links have the same name").at(place));
            }
            link.direction.check().map_err(|e| e.at(place))?;
        }
        for (index, node) in self.nodes.iter().enumerate() {
            if node.misbehaves.is_some_and(|how| how.ack_division == 0) {
                let place = format!("nodes[{index}] ({})", node.name);
                return Err(bad("ack_division must be above 0").at(place));
            }
        }
        for path in self.pcap.iter().flatten() {
            if !self.links.iter().any(|l| l.name == *path.0) {
                return Err(bad(format!("there is no link `{}`", path.0)).at("pcap"));
            }
        }
        if self.sample_interval_us == 0 {
            return Err(bad("the sample interval must be above 0").at("sample_interval_us"));
        }
        if let Some(int) = &self.int {
            int.check(self.nodes.len())?;
        }
        self.check_routes(&self.routes)
    }

    /// Checks that routes fit the nodes and links. Errors: `emulator.bad_spec`.
    pub fn check_routes(&self, routes: &[Vec<i64>]) -> Result<()> {
        let n = self.nodes.len();
        if routes.len() != n || routes.iter().any(|row| row.len() != n) {
            return Err(bad(format!("routes must be {n} rows of {n} links")).at("routes"));
        }
        for (node, row) in routes.iter().enumerate() {
            for (to, index) in row.iter().enumerate() {
                let Ok(index) = usize::try_from(*index) else { continue };
                if self.links.get(index).is_none_or(|link| link.from != node) {
                    let message = format!("link {index} does not begin at node {node}");
                    return Err(bad(message).at(format!("routes[{node}][{to}]")));
                }
            }
        }
        Ok(())
    }
}

impl Direction {
    /// Checks the values. Errors: `emulator.bad_spec`.
    pub fn check(&self) -> Result<()> {
        if self.rate_bytes_per_s.is_some_and(|rate| !is_rate(rate)) {
            return Err(bad("rate_bytes_per_s must be above 0"));
        }
        if let Some(trace) = &self.trace_ms {
            if self.rate_bytes_per_s.is_some() {
                return Err(bad("a direction must have a rate or a trace, not both"));
            }
            if !trace.is_sorted() || trace.last().is_none_or(|end| *end == 0) {
                return Err(bad("a trace must have ascending times, the last above 0"));
            }
        }
        if self.buffer.is_some_and(|b| matches!(b, Buffer::Packets(0) | Buffer::Bytes(0))) {
            return Err(bad("a buffer must hold at least 1 packet or byte"));
        }
        if let Some(bucket) = &self.token_bucket
            && (!is_rate(bucket.rate_bytes_per_s) || bucket.bucket_bytes == 0)
        {
            return Err(bad("a token bucket must have a rate and a size above 0"));
        }
        let mut ratios = vec![self.duplicate_ratio, self.corrupt_ratio];
        ratios.extend(self.reorder.map(|reorder| reorder.ratio));
        match &self.loss {
            Some(Loss::Bernoulli { ratio }) => ratios.push(*ratio),
            Some(Loss::GilbertElliott { good_to_bad, bad_to_good, loss_bad, loss_good }) => {
                ratios.extend([good_to_bad, bad_to_good, loss_bad, loss_good]);
            }
            Some(Loss::Pattern { drop, repeat_every_pkts }) => {
                let end = repeat_every_pkts.unwrap_or(u64::MAX);
                if !drop.is_sorted_by(|a, b| a < b) || drop.last().is_some_and(|last| *last >= end) {
                    return Err(bad(
                        "the numbers of a loss pattern must ascend and be below repeat_every_pkts",
                    ));
                }
            }
            None => (),
        }
        ratios.extend(self.queue.check()?);
        if let Some(ratio) = ratios.into_iter().find(|r| !(0.0..=1.0).contains(r)) {
            return Err(bad(format!("{ratio} is not a probability")));
        }
        Ok(())
    }
}

impl Queue {
    /// Checks the values except probabilities, which are returned. Errors: `emulator.bad_spec`.
    fn check(&self) -> Result<Vec<f64>> {
        let positive = |name: &str, is_positive: bool| {
            if is_positive { Ok(()) } else { Err(bad(format!("{name} must be above 0"))) }
        };
        match self {
            Queue::Red { min_bytes, max_bytes, .. } if min_bytes >= max_bytes => {
                Err(bad("min_bytes of RED must be below max_bytes"))
            }
            Queue::Red { max_ratio, weight, .. } => Ok(vec![*max_ratio, *weight]),
            Queue::Pie(pie) => {
                positive("update_us of PIE", pie.update_us > 0)?;
                Ok(vec![pie.mark_max_ratio])
            }
            Queue::FqCoDel(fair) => {
                positive("quantum_bytes of FQ-CoDel", fair.quantum_bytes > 0)?;
                if (1..=FLOWS_MAX).contains(&fair.flows) {
                    Ok(Vec::new())
                } else {
                    Err(bad(format!("flows of FQ-CoDel must be from 1 to {FLOWS_MAX}")))
                }
            }
            Queue::DualPi2(dual) => {
                positive("target_us of DualPI2", dual.target_us > 0)?;
                positive("rtt_max_us of DualPI2", dual.rtt_max_us > 2)?;
                positive("coupling of DualPI2", is_rate(dual.coupling))?;
                Ok(vec![dual.classic_share])
            }
            Queue::DropTail { .. } | Queue::CoDel { .. } => Ok(Vec::new()),
        }
    }
}

fn is_rate(rate: f64) -> bool {
    rate.is_finite() && rate > 0.0
}

pub(crate) fn bad(message: impl Into<String>) -> Error {
    Error::new("emulator.bad_spec", message)
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
