//! What sources and sinks are told to do.

use ccp_ioam::{
    EdgeToEdge, Error, IoamOption, NewHeaders, Node, Snapshot, State, TcpState, TraceOption, TraceType,
};
use serde::Deserialize;

use crate::Result;

/// What a node writes by default.
pub const DEFAULT_TRACE_TYPE: TraceType = TraceType(
    TraceType::NODE
        | TraceType::INTERFACES
        | TraceType::TIMESTAMP_S
        | TraceType::TIMESTAMP_FRACTION
        | TraceType::TRANSIT_DELAY
        | TraceType::QUEUE_DEPTH
        | TraceType::SNAPSHOT,
);
/// Sequence numbers that never come again, and the time.
const E2E_TYPE: u16 = EdgeToEdge::SEQUENCE_64 | EdgeToEdge::TIMESTAMP_S | EdgeToEdge::TIMESTAMP_FRACTION;

/// What a source puts into packets.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SourceSpec {
    /// In which namespace the trace is.
    pub namespace_id: u16,
    /// What nodes are to write.
    pub trace_type: TraceType,
    /// For how many nodes there is room.
    pub max_nodes: u8,
    /// Each so many packets of a flow one carries telemetry, the first included; a super-packet is one.
    pub every_pkts: u32,
    /// Whether nodes may have wireless links, of which there is more to say.
    pub wireless_nodes: bool,
    /// Whether packets carry the window of the sender's TCP.
    pub tcp_state: bool,
    /// Whether each packet on the wire has headers of its own; else a super-packet has one, of which its segments get
    /// copies.
    pub per_packet: bool,
    /// Whether it asks for echoes of the path in ACKs, since the sender's host takes them out.
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
    /// Looks at the values.
    ///
    /// # Errors
    ///
    /// `ioam.cannot_write`.
    pub fn check(&self) -> Result<()> {
        self.headers().map(drop)
    }

    /// Octets by which packets with telemetry get longer.
    ///
    /// # Errors
    ///
    /// Those of [`SourceSpec::check`].
    pub fn overhead_bytes(&self) -> Result<usize> {
        let headers = self.headers()?;
        Ok(headers.hop_by_hop.len() + headers.destination.len())
    }

    /// Headers with number, time and window of nobody: what a source patches.
    ///
    /// # Errors
    ///
    /// Those of [`SourceSpec::check`].
    pub fn headers(&self) -> Result<NewHeaders> {
        if self.every_pkts == 0 || self.max_nodes == 0 {
            return Err(Error::new("ioam.cannot_write", "a source would write nothing")
                .at("every_pkts, max_nodes")
                .fix("give at least 1 for both"));
        }
        if self.echo && self.per_packet && !self.tcp_state {
            return Err(Error::new("ioam.cannot_write", "a source cannot ask for echoes so")
                .at("echo, tcp_state")
                .fix("let packets carry the TCP state: it has the flag that asks"));
        }
        // A node with all that it may have to say; which numbers does not matter.
        let rssi_dbm = self.wireless_nodes.then_some(0.0);
        let largest = Node {
            snapshot: Some(Snapshot::Ccplane(State { rssi_dbm, ..State::default() })),
            ..Node::default()
        };
        let words = largest.size(self.trace_type) / 4 * usize::from(self.max_nodes);
        let trace = TraceOption {
            namespace_id: self.namespace_id,
            trace_type: self.trace_type,
            // What has no room is refused below, whatever its number of words.
            remaining_words: u8::try_from(words).unwrap_or(u8::MAX),
            ..TraceOption::default()
        };
        let mut options = vec![IoamOption::Trace(trace)];
        // With all that a super-packet has to say.
        let tcp = TcpState { first_sequence: (!self.per_packet).then_some(0), ..TcpState::default() };
        options.extend(self.end_to_end(0, 0, tcp));
        ccp_ioam::build(&options, 0)
    }

    /// What the source itself says, in the order in which it lies in the packet.
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
        // What is longer for super-packets lies where else padding would, so it takes no room.
        let options = if self.per_packet { [edge, tcp] } else { [tcp, edge] };
        options.into_iter().flatten()
    }
}
