//! Settings of sources.

use ccp_ioam::{
    EdgeToEdge, Error, IoamOption, NewHeaders, Node, Snapshot, State, TcpState, TraceOption, TraceType,
};
use serde::Deserialize;

use crate::Result;

/// A node's default fields.
pub const DEFAULT_TRACE_TYPE: TraceType = TraceType(
    TraceType::NODE
        | TraceType::INTERFACES
        | TraceType::TIMESTAMP_S
        | TraceType::TIMESTAMP_FRACTION
        | TraceType::TRANSIT_DELAY
        | TraceType::QUEUE_DEPTH
        | TraceType::SNAPSHOT,
);
/// 64-bit sequence numbers, which never repeat, and the time.
const E2E_TYPE: u16 = EdgeToEdge::SEQUENCE_64 | EdgeToEdge::TIMESTAMP_S | EdgeToEdge::TIMESTAMP_FRACTION;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SourceSpec {
    pub namespace_id: u16,
    pub trace_type: TraceType,
    /// Number of nodes for which there is room.
    pub max_nodes: u8,
    /// One in this many packets of a flow carries telemetry, starting with the first; a super-packet counts once.
    pub every_pkts: u32,
    /// Whether to reserve room for data of wireless nodes.
    pub wireless_nodes: bool,
    pub tcp_state: bool,
    /// Whether each packet on the wire has own headers; otherwise a super-packet has one, which its segments copy.
    pub per_packet: bool,
    /// Whether to request echoes of the path in ACKs; the sending host must remove them.
    pub echo: bool,
}

impl Default for SourceSpec {
    fn default() -> Self {
        SourceSpec {
            namespace_id: 0,
            trace_type: DEFAULT_TRACE_TYPE,
            max_nodes: 3,
            every_pkts: 1,
            wireless_nodes: false,
            tcp_state: true,
            per_packet: false,
            echo: false,
        }
    }
}

impl SourceSpec {
    /// Errors: `ioam.cannot_write` if a value is invalid.
    pub fn check(&self) -> Result<()> {
        self.headers().map(drop)
    }

    /// Additional length of packets with telemetry. Errors: those of [`SourceSpec::check`].
    pub fn overhead_bytes(&self) -> Result<usize> {
        let headers = self.headers()?;
        Ok(headers.hop_by_hop.len() + headers.destination.len())
    }

    /// Headers without number, time and window, which a source fills in. Errors: those of
    /// [`SourceSpec::check`].
    pub fn headers(&self) -> Result<NewHeaders> {
        if self.every_pkts == 0 || self.max_nodes == 0 {
            return Err(Error::new("ioam.cannot_write", "a source with these settings would write nothing")
                .at("every_pkts, max_nodes")
                .fix("set every_pkts and max_nodes to at least 1"));
        }
        if self.echo && self.per_packet && !self.tcp_state {
            return Err(Error::new(
                "ioam.cannot_write",
                "a source cannot request echoes without the TCP state",
            )
            .at("echo, tcp_state")
            .fix("enable tcp_state: tcp_state contains the flag that requests echoes"));
        }
        // A node with all optional data; the values do not matter.
        let rssi_dbm = self.wireless_nodes.then_some(0.0);
        let largest = Node {
            snapshot: Some(Snapshot::Ccplane(State { rssi_dbm, ..State::default() })),
            ..Node::default()
        };
        let words = largest.size(self.trace_type) / 4 * usize::from(self.max_nodes);
        let trace = TraceOption {
            namespace_id: self.namespace_id,
            trace_type: self.trace_type,
            // Too many words are rejected below.
            remaining_words: u8::try_from(words).unwrap_or(u8::MAX),
            ..TraceOption::default()
        };
        let mut options = vec![IoamOption::Trace(trace)];
        // With the options of a super-packet.
        let tcp = TcpState { first_sequence: (!self.per_packet).then_some(0), ..TcpState::default() };
        options.extend(self.end_to_end(0, 0, tcp));
        ccp_ioam::build(&options, 0)
    }

    /// The source's own options, in the order of the packet.
    pub(crate) fn end_to_end(
        &self,
        sequence: u64,
        wall_ns: u64,
        tcp: TcpState,
    ) -> impl Iterator<Item = IoamOption> {
        let edge = EdgeToEdge {
            namespace_id: self.namespace_id,
            e2e_type: E2E_TYPE,
            sequence: Some(sequence),
            timestamp_s: u32::try_from(wall_ns / 1_000_000_000).ok(),
            timestamp_fraction: Some((wall_ns / 1000 % 1_000_000) as u32),
        };
        let edge = Some(IoamOption::EdgeToEdge(edge));
        let tcp = TcpState { wants_echo: self.echo, ..tcp };
        let tcp = (self.tcp_state || !self.per_packet).then_some(IoamOption::TcpState(tcp));
        // The longer option of super-packets replaces padding, so it takes no extra room.
        let options = if self.per_packet { [edge, tcp] } else { [tcp, edge] };
        options.into_iter().flatten()
    }
}
