//! A node's counts per flow, from which a sink derives where packets were lost.

use ccp_ioam::Numbers;

use crate::FlowKey;
use crate::recent::Recent;
use crate::rules::Count;

/// Time after the last packet until a flow is forgotten.
const KEEP_NS: u64 = 60_000_000_000;

/// A node's counts for a packet's flow. They only grow, except after late packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCount {
    /// Packets missing at the node when this packet arrived.
    pub missing_pkts: i64,
    /// Earlier packets dropped by the node's own queue.
    pub dropped_pkts: u64,
}

#[derive(Clone, Debug, Default)]
struct Counted {
    count: Count,
    /// Drops of packets that were waiting.
    dropped_late_pkts: u64,
}

#[derive(Clone, Debug)]
pub struct FlowCounts {
    flows: Recent<Counted>,
}

impl Default for FlowCounts {
    fn default() -> Self {
        FlowCounts { flows: Recent::new(KEEP_NS) }
    }
}

impl FlowCounts {
    /// A numbered packet arrives at the queue. Returns its counts, if no waiting packet is dropped before it leaves.
    pub fn came(&mut self, mono_ns: u64, flow: &FlowKey, numbers: Numbers) -> FlowCount {
        let Counted { count, .. } = self.flows.seen(flow, mono_ns, Counted::default);
        count.came(numbers);
        FlowCount { missing_pkts: count.missing as i64, dropped_pkts: count.dropped }
    }

    /// A packet without a number arrives at the queue.
    pub fn plain(&mut self, mono_ns: u64, flow: &FlowKey, pkts: u32) {
        if let Some(counted) = self.flows.seen_again(flow, mono_ns) {
            counted.count.plain(pkts);
        }
    }

    /// The queue drops a packet: the last arrival, or, if `waited`, its head.
    pub fn dropped(&mut self, mono_ns: u64, flow: &FlowKey, waited: bool) {
        if let Some(counted) = self.flows.seen_again(flow, mono_ns) {
            counted.count.dropped += 1;
            counted.dropped_late_pkts += u64::from(waited);
        }
    }

    /// Drops of waiting packets of the flow so far. A packet's leaving adds the growth since its arrival:
    /// those were before it, as later arrivals are not.
    pub fn dropped_late_pkts(&self, flow: &FlowKey) -> u64 {
        self.flows.get(flow).map_or(0, |counted| counted.dropped_late_pkts)
    }
}
