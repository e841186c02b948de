//! What a node counts of each flow, so that a sink can tell where its packets were lost.

use ccp_ioam::Numbers;

use crate::FlowKey;
use crate::recent::Recent;
use crate::rules::Count;

/// A flow is forgotten so long after its last packet.
const KEEP_NS: u64 = 60_000_000_000;

/// What a node tells in a packet of the packet's flow. Counters only grow, but for packets that come late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCount {
    /// Packets that had not come to the node when this one came.
    pub missing_pkts: i64,
    /// Packets, sent before this one, that the node's own queue dropped.
    pub dropped_pkts: u64,
}

#[derive(Clone, Debug, Default)]
struct Counted {
    count: Count,
    /// Of the packets that the queue dropped, those that were dropped while they waited.
    dropped_late_pkts: u64,
}

/// The flows of one direction of a link.
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
    /// A packet with these numbers comes to the queue. What it is to tell if nothing that waits is dropped before it
    /// leaves.
    pub fn came(&mut self, mono_ns: u64, flow: &FlowKey, numbers: Numbers) -> FlowCount {
        let Counted { count, .. } = self.flows.seen(flow, mono_ns, Counted::default);
        count.came(numbers);
        FlowCount { missing_pkts: count.missing as i64, dropped_pkts: count.dropped }
    }

    /// A packet without a number comes to the queue.
    pub fn plain(&mut self, mono_ns: u64, flow: &FlowKey, pkts: u32) {
        if let Some(counted) = self.flows.seen_again(flow, mono_ns) {
            counted.count.plain(pkts);
        }
    }

    /// The queue drops a packet: one that came last, or, if `waited`, one from its head.
    pub fn dropped(&mut self, mono_ns: u64, flow: &FlowKey, waited: bool) {
        if let Some(counted) = self.flows.seen_again(flow, mono_ns) {
            counted.count.dropped += 1;
            counted.dropped_late_pkts += u64::from(waited);
        }
    }

    /// Packets of the flow that were dropped while they waited, so far. What a packet adds when it leaves is how much this
    /// has grown since it came: those were in front of it, which what came after it was not.
    pub fn dropped_late_pkts(&self, flow: &FlowKey) -> u64 {
        self.flows.get(flow).map_or(0, |counted| counted.dropped_late_pkts)
    }
}
