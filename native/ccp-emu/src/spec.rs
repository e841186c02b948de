//! A network as data: what `experiments/netlab/spec.py` describes, with names resolved to indices.
//!
//! Values that cannot be are refused here, so that the engine computes with sound ones only.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::Deserialize;

use crate::int::Int;
use crate::{Error, Result};

/// A whole network and what to record of it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// All random numbers follow from it.
    pub seed: u64,
    /// Largest IP packet.
    pub mtu_bytes: u32,
    /// Hosts and routers.
    pub nodes: Vec<Node>,
    /// Directions of links.
    pub links: Vec<Link>,
    /// For each node and each destination the index of the link to take; -1 for none.
    pub routes: Vec<Vec<i64>>,
    pub sample_interval_us: u64,
    /// The file to which samples are written.
    #[serde(default)]
    pub samples_path: Option<PathBuf>,
    /// By name of a link direction, the file to which its packets are written.
    #[serde(default)]
    pub pcap: Option<BTreeMap<String, PathBuf>>,
    /// In-band telemetry.
    #[serde(default)]
    pub int: Option<Int>,
}

/// A host, or a router: a node that has neither addresses nor a device.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Node {
    pub name: String,
    /// Its addresses; routers have none.
    pub addresses: Vec<IpAddr>,
    /// Index of its TUN device, if it is a host.
    #[serde(default)]
    pub tun: Option<usize>,
}

/// One direction of a link.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Its name, such as `bottleneck>`.
    pub name: String,
    /// Index of the node at which it begins.
    pub from: usize,
    /// Index of the node at which it ends.
    pub to: usize,
    /// What it does to packets.
    pub direction: Direction,
}

/// What one direction of a link does to packets.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Direction {
    /// Rate of transmission; none: not limited.
    pub rate_bytes_per_s: Option<f64>,
    /// Instead of a rate, times at which 1,500 bytes can be sent, from the start; they repeat.
    pub trace_ms: Option<Vec<u64>>,
    /// Propagation delay.
    pub delay_us: u64,
    /// Most that is added to it.
    pub jitter_us: u64,
    /// What waits in front of the transmitter at most.
    pub buffer: Option<Buffer>,
    /// The discipline of the queue.
    pub queue: Queue,
    /// Loss at random or by number.
    pub loss: Option<Loss>,
    /// A rate limiter in front.
    pub token_bucket: Option<TokenBucket>,
    /// Probability that a packet arrives twice.
    pub duplicate_ratio: f64,
    /// Probability that a bit of a packet is flipped.
    pub corrupt_ratio: f64,
}

/// How much waits in front of a link at most.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Buffer {
    Packets(u64),
    Bytes(u64),
}

/// Which packets are lost.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Loss {
    /// Each with the same probability.
    Bernoulli { ratio: f64 },
    /// In bursts: a good and a bad state.
    GilbertElliott {
        /// Probability to enter the bad state, a packet.
        good_to_bad: f64,
        /// Probability to leave it, a packet.
        bad_to_good: f64,
        /// Probability of loss in the bad state.
        #[serde(default = "one")]
        loss_bad: f64,
        /// Probability of loss in the good state.
        #[serde(default)]
        loss_good: f64,
    },
    /// Those with these numbers, from 0.
    Pattern {
        /// Numbers, ascending.
        drop: Vec<u64>,
        /// After so many packets the count starts anew.
        #[serde(default)]
        repeat_every_pkts: Option<u64>,
    },
}

/// The discipline of a queue.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Queue {
    /// What does not fit is dropped.
    DropTail {
        /// Packets that waited longer are marked.
        #[serde(default)]
        ce_threshold_us: Option<u64>,
        /// Packets that find more in the queue are marked.
        #[serde(default)]
        ce_threshold_bytes: Option<u64>,
    },
    /// Random early detection, gentle.
    Red {
        /// Averaged queue above which packets are marked or dropped.
        min_bytes: u64,
        /// Averaged queue at which that has probability `max_ratio`.
        max_bytes: u64,
        /// See `max_bytes`.
        #[serde(default = "red_max_ratio")]
        max_ratio: f64,
        /// Weight of the newest queue length in the average.
        #[serde(default = "red_weight")]
        weight: f64,
        /// Mark instead of dropping where the packet allows it.
        #[serde(default = "yes")]
        ecn: bool,
    },
    /// Controlled delay.
    #[serde(rename = "codel")]
    CoDel {
        /// Standing queueing delay that is accepted.
        #[serde(default = "codel_target_us")]
        target_us: u64,
        /// For how long it may be exceeded.
        #[serde(default = "codel_interval_us")]
        interval_us: u64,
        /// Mark instead of dropping where the packet allows it.
        #[serde(default = "yes")]
        ecn: bool,
    },
}

impl Default for Queue {
    fn default() -> Self {
        Queue::DropTail { ce_threshold_us: None, ce_threshold_bytes: None }
    }
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TokenBucket {
    /// Rate at which tokens come.
    pub rate_bytes_per_s: f64,
    /// Most tokens there are.
    pub bucket_bytes: u64,
    /// Packets without tokens wait instead of being dropped.
    #[serde(default)]
    pub shaper: bool,
}

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
    /// Reads a network from JSON.
    /// Errors: `emulator.bad_spec` if it is no such JSON, or describes what cannot be.
    pub fn from_json(json: &[u8]) -> Result<Self> {
        let spec: Spec = serde_json::from_slice(json)
            .map_err(|e| bad("the description of the network cannot be read").why(e))?;
        spec.check()?;
        Ok(spec)
    }

    fn check(&self) -> Result<()> {
        for (index, link) in self.links.iter().enumerate() {
            let place = format!("links[{index}] ({})", link.name);
            if link.from >= self.nodes.len() || link.to >= self.nodes.len() {
                return Err(bad("a link begins or ends at a node that is not there").at(place));
            }
            if self.links[..index].iter().any(|l| l.name == link.name) {
                return Err(bad("two links have the same name").at(place));
            }
            link.direction.check().map_err(|e| e.at(place))?;
        }
        for path in self.pcap.iter().flatten() {
            if !self.links.iter().any(|l| l.name == *path.0) {
                return Err(bad(format!("there is no link `{}`", path.0)).at("pcap"));
            }
        }
        if self.sample_interval_us == 0 {
            return Err(bad("the interval of samples is 0").at("sample_interval_us"));
        }
        if let Some(int) = &self.int {
            int.check(self.nodes.len())?;
        }
        self.check_routes(&self.routes)
    }

    /// Whether routes fit the nodes and links.
    /// Errors: `emulator.bad_spec` if they do not.
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
    /// Whether its values can be.
    /// Errors: `emulator.bad_spec` if they cannot.
    pub fn check(&self) -> Result<()> {
        if self.rate_bytes_per_s.is_some_and(|rate| !is_rate(rate)) {
            return Err(bad("rate_bytes_per_s must be above 0"));
        }
        if let Some(trace) = &self.trace_ms {
            if self.rate_bytes_per_s.is_some() {
                return Err(bad("a direction has a rate or a trace, not both"));
            }
            if !trace.is_sorted() || trace.last().is_none_or(|end| *end == 0) {
                return Err(bad("a trace has ascending times, the last above 0"));
            }
        }
        if self.buffer.is_some_and(|b| matches!(b, Buffer::Packets(0) | Buffer::Bytes(0))) {
            return Err(bad("a buffer holds at least 1 packet or byte"));
        }
        if let Some(bucket) = &self.token_bucket
            && (!is_rate(bucket.rate_bytes_per_s) || bucket.bucket_bytes == 0)
        {
            return Err(bad("a token bucket has a rate and a size above 0"));
        }
        let mut ratios = vec![self.duplicate_ratio, self.corrupt_ratio];
        match &self.loss {
            Some(Loss::Bernoulli { ratio }) => ratios.push(*ratio),
            Some(Loss::GilbertElliott { good_to_bad, bad_to_good, loss_bad, loss_good }) => {
                ratios.extend([good_to_bad, bad_to_good, loss_bad, loss_good]);
            }
            Some(Loss::Pattern { drop, repeat_every_pkts }) => {
                let end = repeat_every_pkts.unwrap_or(u64::MAX);
                if !drop.is_sorted_by(|a, b| a < b) || drop.last().is_some_and(|last| *last >= end) {
                    return Err(bad("a loss pattern ascends, and stays below repeat_every_pkts"));
                }
            }
            None => (),
        }
        if let Queue::Red { min_bytes, max_bytes, max_ratio, weight, .. } = self.queue {
            ratios.extend([max_ratio, weight]);
            if min_bytes >= max_bytes {
                return Err(bad("min_bytes of RED must be below max_bytes"));
            }
        }
        if let Some(ratio) = ratios.into_iter().find(|r| !(0.0..=1.0).contains(r)) {
            return Err(bad(format!("{ratio} is no probability")));
        }
        Ok(())
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
