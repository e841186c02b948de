//! A transit node's telemetry for packets that it sends over a link.

use ccp_int::{FlowCount, FlowKey, Meter};
use ccp_ioam::{Node, Snapshot, State, TraceType};

use super::spec::{IntNode, Radio};
use crate::Result;

/// Counts of a packet's flow when it arrives at a link.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// As known at that time.
    pub count: FlowCount,
    /// Drops of waiting packets so far: there may be more when the packet leaves.
    pub late_pkts: u64,
}

/// The link's state when a packet arrives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    pub queue_pkts: u64,
    /// Free room in full-size packets; `None` if unlimited.
    pub free_pkts: Option<u64>,
    pub lost_pkts: u64,
    /// Drain rate of the busy queue; infinite without a limit.
    pub link_rate_bytes_per_s: f64,
    /// Counts of its flow; `None` if it has no number.
    pub flow_count: Option<Counted>,
}

#[derive(Debug)]
pub struct Egress {
    node_id: u32,
    egress_if: Option<u16>,
    radio: Radio,
    meter: Meter,
}

impl Egress {
    pub fn new(node: &IntNode, link: usize) -> Self {
        Egress {
            node_id: node.node_id,
            egress_if: interface(link),
            radio: node.radio.unwrap_or_default(),
            meter: Meter::new(),
        }
    }

    /// Checks that its constant data can be written. Errors: `ioam.cannot_write`.
    pub fn check(&self) -> Result<()> {
        let trace_type = TraceType(TraceType::NODE | TraceType::SNAPSHOT);
        let node = self.node(0, 0, None, None, &Found::default());
        node.write(trace_type, &mut vec![0; node.size(trace_type)])
    }

    pub fn arrived(&mut self, now_ns: u64, flow: Option<&FlowKey>) {
        self.meter.arrived(now_ns, flow);
    }

    /// Data for the packet that arrived last.
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
            // A hop limit of all ones, only possible at the source, means unknown.
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

/// Interface numbers are those of links, from 1; `None` if too large.
fn interface(link: usize) -> Option<u16> {
    u16::try_from(link + 1).ok().filter(|number| *number != u16::MAX)
}

fn room(free_pkts: Option<u64>) -> u32 {
    free_pkts.map_or(State::UNLIMITED_PKTS, |free| counted(free).min(State::UNLIMITED_PKTS - 1))
}

fn rate(bytes_per_s: f64) -> Option<u32> {
    bytes_per_s.is_finite().then_some(bytes_per_s.min(State::MAX_BYTES_PER_S.into()) as u32)
}

/// Missing packets; negative while packets without numbers were overtaken, then written as 0.
fn missing(pkts: i64) -> u64 {
    pkts.rem_euclid(State::FLOW_MODULUS as i64) as u64
}

/// All ones mean unknown.
fn counted(pkts: u64) -> u32 {
    pkts.min(u64::from(u32::MAX - 1)) as u32
}
