//! What a node writes into the packets that it sends over a link.

use ccp_int::{FlowCount, FlowKey, Meter};
use ccp_ioam::{Node, Snapshot, State, TraceType};

use super::spec::{IntNode, Radio};
use crate::Result;

/// What is counted of a packet's flow when it comes to a link.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// As far as it is known then.
    pub count: FlowCount,
    /// Of those that were dropped, how many had waited: when the packet leaves, there may be more.
    pub late_pkts: u64,
}

/// What a packet finds at a link when it comes there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    /// Packets that wait.
    pub queue_pkts: u64,
    /// Full-size packets for which the buffer has room; `None` if it has no end.
    pub free_pkts: Option<u64>,
    /// Packets lost on the link so far.
    pub lost_pkts: u64,
    /// What the queue drains at while it is busy; infinite where nothing limits it.
    pub link_rate_bytes_per_s: f64,
    /// Counts of its flow; `None` if it has no number.
    pub flow_count: Option<Counted>,
}

/// A link direction that begins at a transit node.
#[derive(Debug)]
pub struct Egress {
    node_id: u32,
    egress_if: Option<u16>,
    radio: Radio,
    meter: Meter,
}

impl Egress {
    /// Of the link with this index.
    pub fn new(node: &IntNode, link: usize) -> Self {
        Egress {
            node_id: node.node_id,
            egress_if: interface(link),
            radio: node.radio.unwrap_or_default(),
            meter: Meter::new(),
        }
    }

    /// Whether what it always says can be written.
    ///
    /// # Errors
    ///
    /// `ioam.cannot_write`.
    pub fn check(&self) -> Result<()> {
        let trace_type = TraceType(TraceType::NODE | TraceType::SNAPSHOT);
        let node = self.node(0, 0, None, None, &Found::default());
        node.write(trace_type, &mut vec![0; node.size(trace_type)])
    }

    /// A packet comes to the link.
    pub fn arrived(&mut self, now_ns: u64, flow: Option<&FlowKey>) {
        self.meter.arrived(now_ns, flow);
    }

    /// What to write into the packet that came last.
    pub fn node(
        &self,
        now_ns: u64,
        wall_ns: u64,
        hop_limit: Option<u8>,
        ingress: Option<usize>,
        found: &Found,
    ) -> Node {
        let queue_pkts = Some(counted(found.queue_pkts));
        let count = found.flow_count.map(|counted| counted.count);
        Node {
            // A hop limit with all bits set, right at its source, cannot be told from none.
            hop_limit: hop_limit.filter(|hops| *hops != u8::MAX),
            node_id: Some(self.node_id),
            ingress_if: ingress.and_then(interface),
            egress_if: self.egress_if,
            timestamp_s: u32::try_from(wall_ns / 1_000_000_000).ok(),
            timestamp_fraction: Some((wall_ns / 1000 % 1_000_000) as u32),
            queue_depth: queue_pkts,
            buffer_occupancy: queue_pkts,
            snapshot: Some(Snapshot::Ccplane(State {
                queue_free_pkts: Some(room(found.free_pkts)),
                arrival_pkts_per_s: self.meter.arrival_pkts_per_s(now_ns),
                flow_count: Some(self.meter.flow_count(now_ns)),
                lost_pkts: Some(found.lost_pkts),
                link_rate_bytes_per_s: rate(found.link_rate_bytes_per_s),
                flow_missing_pkts: count.map(|count| missing(count.missing_pkts)),
                flow_dropped_pkts: count.map(|count| count.dropped_pkts),
                rssi_dbm: self.radio.rssi_dbm,
                snr_db: self.radio.snr_db,
                data_rate_bytes_per_s: self.radio.data_rate_bytes_per_s,
                mcs: self.radio.mcs,
            })),
            ..Node::default()
        }
    }
}

/// Numbers of interfaces are those of links, from 1; `None` where there are more than fit.
fn interface(link: usize) -> Option<u16> {
    u16::try_from(link + 1).ok().filter(|number| *number != u16::MAX)
}

/// What to write of a buffer's room.
fn room(free_pkts: Option<u64>) -> u32 {
    free_pkts.map_or(State::UNLIMITED_PKTS, |free| counted(free).min(State::UNLIMITED_PKTS - 1))
}

/// What to write of a link's rate; nothing of one without a limit.
fn rate(bytes_per_s: f64) -> Option<u32> {
    bytes_per_s.is_finite().then_some(bytes_per_s.min(State::MOST_BYTES_PER_S.into()) as u32)
}

/// What to write of packets that are missing; less than none are while some without numbers were overtaken.
fn missing(pkts: i64) -> u64 {
    pkts.rem_euclid(State::FLOW_MODULUS as i64) as u64
}

/// All bits set mean that a number is missing.
fn counted(pkts: u64) -> u32 {
    pkts.min(u64::from(u32::MAX - 1)) as u32
}
