//! A node's measurements of one direction of a link.

use crate::FlowKey;
use crate::recent::Recent;

/// Time constant of the arrival rate: an arrival this long ago counts 1/e. Sinks compute with it, so it may
/// be long compared with the time between two packets: then the times of others in between do not matter.
pub const RATE_TIME_NS: u64 = 100_000_000;
/// Time for which a flow counts after its last packet.
pub const FLOW_WINDOW_NS: u64 = 1_000_000_000;

/// Arrival rate and number of flows. An arriving packet is counted before its data is read, so it counts
/// itself: neither is ever 0 in a packet. / The rate r is an exponential mean: each arrival adds 1/T, and
/// between arrivals r falls as exp(-t/T), where T is [`RATE_TIME_NS`]. From r at two times [`crate::Sink`]
/// computes the arrivals in between, so a mean over an interval is not affected by the smoothing.
#[derive(Debug)]
pub struct Meter {
    /// After the last packet [1/T].
    weight: f64,
    last_ns: Option<u64>,
    flows: Recent<()>,
}

impl Default for Meter {
    fn default() -> Self {
        Meter::new()
    }
}

impl Meter {
    pub fn new() -> Self {
        Meter { weight: 0.0, last_ns: None, flows: Recent::new(FLOW_WINDOW_NS) }
    }

    /// A packet arrives at the link; it has no flow if it has no ports.
    pub fn arrived(&mut self, mono_ns: u64, flow: Option<&FlowKey>) {
        self.weight = self.weight_at(mono_ns) + 1.0;
        self.last_ns = self.last_ns.max(Some(mono_ns));
        if let Some(flow) = flow {
            self.flows.seen(flow, mono_ns, || ());
        }
    }

    /// Arriving packets per second; `None` before the first.
    pub fn arrival_pkts_per_s(&self, mono_ns: u64) -> Option<u32> {
        self.last_ns.map(|_| (self.weight_at(mono_ns) * 1e9 / RATE_TIME_NS as f64).round() as u32)
    }

    /// Flows with a packet within [`FLOW_WINDOW_NS`].
    pub fn flow_count(&self, mono_ns: u64) -> u32 {
        self.flows.count(mono_ns) as u32
    }

    fn weight_at(&self, mono_ns: u64) -> f64 {
        let age_ns = self.last_ns.map_or(0, |last_ns| mono_ns.saturating_sub(last_ns));
        self.weight * (-(age_ns as f64) / RATE_TIME_NS as f64).exp()
    }
}
