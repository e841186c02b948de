//! A sink: statistics of flows.

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

/// Time after the last packet until a flow is forgotten.
const KEEP_NS: u64 = 60_000_000_000;
/// An hour.
const MAX_INTERVAL_US: u64 = 3_600_000_000;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SinkSpec {
    /// Interval of summaries.
    pub interval_us: u64,
    pub nodes: NodeTable,
    /// Whether packets are also recorded.
    pub records: bool,
    /// Whether ACKs carry echoes of the path, for senders that ask for them.
    pub echo: bool,
}

impl Default for SinkSpec {
    fn default() -> Self {
        SinkSpec { interval_us: 10_000, nodes: NodeTable::default(), records: false, echo: false }
    }
}

/// A packet's telemetry.
#[derive(Debug, Default)]
struct Carried {
    edge: Option<EdgeToEdge>,
    tcp: Option<TcpState>,
    nodes: Vec<Node>,
    overflow: bool,
}

impl Carried {
    /// Parses extension headers; returns whether they contain telemetry.
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

    /// Time since the source; `None` if the source wrote no time, or its clock is ahead.
    fn latency_us(&self, wall_ns: u64) -> Option<u64> {
        let edge = self.edge?;
        let sent_us = u64::from(edge.timestamp_s?) * 1_000_000 + u64::from(edge.timestamp_fraction?);
        (wall_ns / 1000).checked_sub(sent_us)
    }
}

/// A packet, or super-packet, at a sink.
#[derive(Clone, Copy, Debug)]
pub struct Came<'a> {
    pub flow: &'a FlowKey,
    pub len_bytes: u32,
    pub pkts: u32,
    pub hop_limit: Option<u8>,
    pub tcp_sequence: Option<u32>,
    /// Packets of its flow without telemetry so far, if counted elsewhere.
    pub plain_pkts: Option<u64>,
    /// Its extension headers, and the type of the first.
    pub extension: Option<(&'a [u8], u8)>,
}

/// Makes summaries, and records if enabled.
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
    /// Errors: `ioam.cannot_write` if the interval is 0, or longer than an hour.
    pub fn new(spec: SinkSpec) -> Result<Self> {
        if !(1..=MAX_INTERVAL_US).contains(&spec.interval_us) {
            return Err(Error::new("ioam.cannot_write", "the interval of a sink is out of range")
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

    /// A single packet reached the sink; like [`Sink::came`].
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

    /// A packet reached the sink, at this monotonic and wall-clock time. Pass all packets of a flow, also
    /// those without telemetry (individually, or as a total), because otherwise they count as lost. Flows
    /// without any telemetry are ignored.
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

    /// Sets the total of a flow's packets without telemetry, and the time of the last one.
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

    /// Extension headers, followed by TCP, for a pure ACK of this flow: the path's telemetry, if its source
    /// wants echoes and there is news.
    pub fn echo(&mut self, mono_ns: u64, ack: &FlowKey) -> Option<Vec<u8>> {
        if !self.spec.echo {
            return None;
        }
        self.flows.seen_again(&ack.reversed(), mono_ns)?.echo.take()
    }

    /// Time of the next summary; `None` if there is none.
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

    pub fn take_records(&mut self) -> Vec<RecordRow> {
        std::mem::take(&mut self.records)
    }

    /// Packets with malformed telemetry; they count as packets without any.
    pub fn malformed_pkts(&self) -> u64 {
        self.malformed_pkts
    }
}
