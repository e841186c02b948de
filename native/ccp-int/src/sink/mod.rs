//! What a sink does: it keeps statistics of flows.

mod echo;
mod flow;
mod hop;
mod ledger;
mod mean;
mod queue;
mod record;
mod summary;

use ccp_ioam::{EdgeToEdge, Error, Node, Parsed, TcpState, read_headers};
use serde::Deserialize;

pub use record::RecordRow;
pub use summary::{FlowId, Hop, LossCause, Summary};

use crate::recent::Recent;
use crate::{FlowKey, NodeTable, Result};
use flow::FlowState;

/// Flows are forgotten so long after their last packet.
const KEEP_NS: u64 = 60_000_000_000;
/// An hour.
const MAX_INTERVAL_US: u64 = 3_600_000_000;

/// What a sink makes of packets.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SinkSpec {
    /// How long packets are gathered for a summary.
    pub interval_us: u64,
    /// What nodes mean by their numbers.
    pub nodes: NodeTable,
    /// Whether each packet is kept, too.
    pub records: bool,
    /// Whether ACKs tell the sender of the path, if it asks for that.
    pub echo: bool,
}

impl Default for SinkSpec {
    fn default() -> Self {
        SinkSpec { interval_us: 10_000, nodes: NodeTable::default(), records: false, echo: false }
    }
}

/// What a packet carried.
#[derive(Debug, Default)]
struct Carried {
    edge: Option<EdgeToEdge>,
    tcp: Option<TcpState>,
    /// In the order of the path.
    nodes: Vec<Node>,
    /// A node found no room.
    overflow: bool,
}

impl Carried {
    /// Reads extension headers; whether there was anything of ours.
    fn read(&mut self, extension: &[u8], first: u8) -> Result<bool> {
        (self.edge, self.tcp, self.overflow) = (None, None, false);
        self.nodes.clear();
        let mut traced = false;
        for found in read_headers(extension, first) {
            match found?.option {
                Parsed::EdgeToEdge(edge) => self.edge = Some(edge),
                Parsed::TcpState(state) => self.tcp = Some(state),
                Parsed::Trace(trace) if !traced => {
                    traced = true;
                    self.overflow = trace.overflow;
                    for node in trace.nodes() {
                        self.nodes.push(node?);
                    }
                    self.nodes.reverse();
                }
                Parsed::Trace(_) | Parsed::PathEcho(_) | Parsed::Other(..) => {}
            }
        }
        Ok(traced || self.edge.is_some())
    }

    /// From the source to now; `None` if the source did not say when, or its clock is ahead.
    fn latency_us(&self, wall_ns: u64) -> Option<u64> {
        let edge = self.edge?;
        let sent_us = u64::from(edge.timestamp_s?) * 1_000_000 + u64::from(edge.timestamp_fraction?);
        (wall_ns / 1000).checked_sub(sent_us)
    }
}

/// A packet that came to a sink; a super-packet is one, too.
#[derive(Clone, Copy, Debug)]
pub struct Came<'a> {
    /// Whose it is.
    pub flow: &'a FlowKey,
    /// Its length without telemetry.
    pub len_bytes: u32,
    /// It is so many on the wire.
    pub pkts: u32,
    /// Its hop limit.
    pub hop_limit: Option<u8>,
    /// Its TCP sequence number.
    pub tcp_sequence: Option<u32>,
    /// How many packets of its flow came without telemetry so far, if that is counted elsewhere.
    pub plain_pkts: Option<u64>,
    /// Its extension headers, and the number of the first of them.
    pub extension: Option<(&'a [u8], u8)>,
}

/// Makes summaries, and records where they are wanted.
#[derive(Debug)]
pub struct Sink {
    spec: SinkSpec,
    flows: Recent<FlowState>,
    due_ns: Option<u64>,
    carried: Carried,
    records: Vec<RecordRow>,
    malformed_pkts: u64,
}

impl Sink {
    /// A sink that has seen nothing.
    ///
    /// # Errors
    ///
    /// `ioam.cannot_write`: the interval is 0, or longer than an hour.
    pub fn new(spec: SinkSpec) -> Result<Self> {
        if !(1..=MAX_INTERVAL_US).contains(&spec.interval_us) {
            return Err(Error::new("ioam.cannot_write", "a sink cannot write so often, or so seldom")
                .at("interval_us")
                .why(format!("{} is not from 1 to {MAX_INTERVAL_US}", spec.interval_us)));
        }
        Ok(Sink {
            spec,
            flows: Recent::new(KEEP_NS),
            due_ns: None,
            carried: Carried::default(),
            records: Vec::new(),
            malformed_pkts: 0,
        })
    }

    /// A packet of a flow, one on the wire, reached the sink: as [`Sink::came`].
    pub fn packet(
        &mut self,
        mono_ns: u64,
        wall_ns: u64,
        flow: &FlowKey,
        len_bytes: u32,
        extension: Option<(&[u8], u8)>,
    ) {
        let (hop_limit, tcp_sequence, plain_pkts) = (None, None, None);
        let came = Came { flow, len_bytes, pkts: 1, hop_limit, tcp_sequence, plain_pkts, extension };
        self.came(mono_ns, wall_ns, &came);
    }

    /// A packet reached the sink: at this time of the monotonic clock, and by the wall clock.
    ///
    /// All packets of a flow are told, also those without telemetry, since they are not lost: one by one, or how many
    /// there were.
    /// Flows of which no packet ever had telemetry are passed over.
    pub fn came(&mut self, mono_ns: u64, wall_ns: u64, came: &Came<'_>) {
        let read = came.extension.map(|(extension, first)| self.carried.read(extension, first));
        if let Some(Err(_)) = read {
            self.malformed_pkts += 1;
        }
        let Some(Ok(true)) = read else { return self.plain(mono_ns, came.flow, came.pkts.into()) };
        let interval_ns = self.spec.interval_us * 1000;
        let state = self.flows.seen(came.flow, mono_ns, FlowState::default);
        let is_first = state.came(mono_ns, came.pkts.into(), interval_ns);
        if let Some(plain_pkts) = came.plain_pkts {
            state.plain_so_far(plain_pkts);
        }
        state.packet(wall_ns, came, &self.carried, &self.spec.nodes);
        if self.spec.echo {
            state.echo(came, &self.carried);
        }
        if self.spec.records {
            RecordRow::gather(&mut self.records, mono_ns, wall_ns, came, state.losses(), &self.carried);
        }
        self.due(mono_ns, is_first);
    }

    /// So many packets of a flow came without telemetry so far, the last of them at this time.
    pub fn plain_so_far(&mut self, mono_ns: u64, flow: &FlowKey, plain_pkts: u64) {
        let interval_ns = self.spec.interval_us * 1000;
        let Some(state) = self.flows.seen_again(flow, mono_ns) else { return };
        if state.plain_so_far(plain_pkts) > 0 {
            let is_first = state.came(mono_ns, 0, interval_ns);
            self.due(mono_ns, is_first);
        }
    }

    fn plain(&mut self, mono_ns: u64, flow: &FlowKey, pkts: u64) {
        let interval_ns = self.spec.interval_us * 1000;
        let Some(state) = self.flows.seen_again(flow, mono_ns) else { return };
        let is_first = state.came(mono_ns, pkts, interval_ns);
        state.plain(pkts);
        self.due(mono_ns, is_first);
    }

    fn due(&mut self, mono_ns: u64, is_first: bool) {
        if is_first {
            let interval_ns = self.spec.interval_us * 1000;
            self.due_ns.get_or_insert(mono_ns.saturating_add(interval_ns));
        }
    }

    /// Extension headers for a pure ACK of this flow: what the packets that it acknowledges found on their way, if
    /// their source wants to hear of that, and no ACK has brought it yet. They lead to TCP.
    pub fn echo(&mut self, mono_ns: u64, ack: &FlowKey) -> Option<Vec<u8>> {
        if !self.spec.echo {
            return None;
        }
        self.flows.seen_again(&ack.reversed(), mono_ns)?.echo.take()
    }

    /// When summaries are to be taken; `None` if there are none.
    pub fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }

    /// Appends a summary of each flow that had packets, if it is time.
    pub fn take(&mut self, mono_ns: u64, out: &mut Vec<Summary>) {
        if self.due_ns.is_none_or(|due_ns| mono_ns < due_ns) {
            return;
        }
        self.due_ns = None;
        let active = self.flows.iter_mut().filter(|(_, state)| state.is_active());
        out.extend(active.map(|(flow, state)| state.take(flow)));
    }

    /// The records since they were last taken.
    pub fn take_records(&mut self) -> Vec<RecordRow> {
        std::mem::take(&mut self.records)
    }

    /// Packets with telemetry that could not be read; they count as packets without any.
    pub fn malformed_pkts(&self) -> u64 {
        self.malformed_pkts
    }
}
