//! In-band telemetry of a network: which nodes insert headers, write into them, and remove them.

mod egress;
mod seen;
mod spec;

use ccp_int::{Came, FlowKey, Protocol, RecordRow, Sink, Source, Summary};
use ccp_ioam::{Numbers, TcpState, fill_headers};
use serde::Serialize;

pub use egress::{Counted, Found};
pub use seen::Seen;
pub use spec::{Int, IntNode, Radio, Role};

use crate::Result;
use crate::ip::{DESTINATION, Dropped, Extension, HOP_BY_HOP, Later};
use crate::packet::Packet;
use crate::spec::{Link, Spec};
use egress::Egress;

/// Returns the state of a flow's sending TCP.
pub type Windows = Box<dyn FnMut(&FlowKey) -> Option<TcpState> + Send>;

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct IntCounters {
    pub inserted_pkts: u64,
    /// Packets that would have exceeded the MTU with headers.
    pub no_room_pkts: u64,
    /// Packets that a node wrote into.
    pub filled_pkts: u64,
    /// Packets in which a node found no room.
    pub overflowed_pkts: u64,
    /// ACKs that got an echo of the path.
    pub reflected_pkts: u64,
    pub removed_pkts: u64,
    /// Packets with headers that a node could not read; they pass unchanged.
    pub unreadable_pkts: u64,
    /// Packets whose headers a sink could not parse.
    pub malformed_pkts: u64,
}

/// A packet's way through a node.
#[derive(Clone, Copy, Debug)]
pub struct Hop {
    pub node: usize,
    /// The incoming link; `None` at the sending host.
    pub ingress: Option<usize>,
    pub egress: usize,
}

/// The participating nodes of a network.
pub struct Telemetry {
    namespace_id: u16,
    mtu_bytes: u32,
    sources: Vec<Option<Source>>,
    egresses: Vec<Option<Egress>>,
    sinks: Vec<Option<Sink>>,
    /// By link: the sink at which telemetry ends, if any.
    ends: Vec<Option<usize>>,
    windows: Option<Windows>,
    /// Cached answer for one time: segments of a super-packet share it.
    window: Option<(u64, FlowKey, Option<TcpState>)>,
    real_offset_ns: u64,
    counters: IntCounters,
}

impl Telemetry {
    /// `windows` returns the state of senders' TCP. Errors: what is wrong with the sources' headers.
    pub fn new(network: &Spec, spec: &Int, windows: Option<Windows>) -> Result<Self> {
        let nodes = 0..network.nodes.len();
        let with_role = |node: usize, role| {
            spec.nodes.iter().find(|described| described.node == node && described.roles.contains(&role))
        };
        let source =
            |node| with_role(node, Role::Source).map(|_| Source::new(spec.source.clone())).transpose();
        let sink = |node| with_role(node, Role::Sink).map(|_| Sink::new(spec.sink.clone())).transpose();
        let egress = |(index, link): (usize, &Link)| {
            with_role(link.from, Role::Transit).map(|node| Egress::new(node, index))
        };
        let takes_part = |node| spec.nodes.iter().any(|described| described.node == node);
        let end = |link: &Link| {
            with_role(link.from, Role::Sink).filter(|_| !takes_part(link.to)).map(|node| node.node)
        };
        Ok(Telemetry {
            namespace_id: spec.source.namespace_id,
            mtu_bytes: network.mtu_bytes,
            sources: nodes.clone().map(source).collect::<Result<_>>()?,
            egresses: network.links.iter().enumerate().map(egress).collect(),
            sinks: nodes.map(sink).collect::<Result<_>>()?,
            ends: network.links.iter().map(end).collect(),
            windows,
            window: None,
            real_offset_ns: 0,
            counters: IntCounters::default(),
        })
    }

    /// Sets the offset from this clock to the time of day.
    pub fn set_real_offset_ns(&mut self, real_offset_ns: u64) {
        self.real_offset_ns = real_offset_ns;
    }

    pub fn due_ns(&self) -> Option<u64> {
        self.sinks.iter().flatten().filter_map(Sink::due_ns).min()
    }

    /// Appends the due summaries.
    pub fn take(&mut self, now_ns: u64, summaries: &mut Vec<Summary>) {
        self.sinks.iter_mut().flatten().for_each(|sink| sink.take(now_ns, summaries));
    }

    /// Records of packets since the last call, if enabled.
    pub fn take_records(&mut self) -> impl Iterator<Item = RecordRow> {
        self.sinks.iter_mut().flatten().flat_map(Sink::take_records)
    }

    pub fn counters(&self) -> IntCounters {
        let malformed_pkts: u64 = self.sinks.iter().flatten().map(Sink::malformed_pkts).sum();
        IntCounters { malformed_pkts, ..self.counters }
    }

    /// Whether a node writes telemetry for a link.
    pub fn counts_at(&self, link: usize) -> bool {
        self.egresses[link].is_some()
    }

    /// Whether telemetry is removed before transmission on a link.
    pub fn ends_at(&self, link: usize) -> bool {
        self.ends[link].is_some()
    }

    pub fn delivered<P: Packet>(&mut self, now_ns: u64, node: usize, packet: &mut P) {
        if self.sinks[node].is_none() {
            return;
        }
        // An echo is for the host, which removes it.
        let echo = packet.extension_mut().and_then(|place| place.take_if(|carried| carried.is_echo()));
        if let Some(seen) = Seen::off(now_ns, packet) {
            self.take_in(node, &seen);
        }
        if let (Some(place), Some(_)) = (packet.extension_mut(), &echo) {
            *place = echo;
        }
    }

    /// Handles telemetry that was removed before transmission on a link.
    pub fn seen_at(&mut self, link: usize, seen: &Seen) {
        if let Some(node) = self.ends[link] {
            self.take_in(node, seen);
        }
    }

    fn take_in(&mut self, node: usize, seen: &Seen) {
        self.counters.removed_pkts += u64::from(seen.removed);
        let Some(sink) = &mut self.sinks[node] else { return };
        let Seen { at_ns, flow, len_bytes, hop_limit, tcp_sequence, extension, .. } = seen;
        let wall_ns = at_ns.saturating_add(self.real_offset_ns);
        let extension = extension.as_ref().map(|extension| (&extension.raw[..], extension.first));
        let came = Came {
            flow,
            len_bytes: *len_bytes,
            pkts: 1,
            hop_limit: *hop_limit,
            tcp_sequence: *tcp_sequence,
            plain_pkts: None,
            extension,
        };
        sink.came(*at_ns, wall_ns, &came);
    }

    /// A node sends a packet over a link. `find` returns the link's state for a flow and numbers.
    pub fn sends<P: Packet>(
        &mut self,
        now_ns: u64,
        hop: Hop,
        packet: &mut P,
        find: impl FnOnce(Option<&FlowKey>, Option<Numbers>) -> Found,
    ) {
        let is_source = self.sources[hop.node].is_some();
        if !is_source && self.egresses[hop.egress].is_none() && self.sinks[hop.node].is_none() {
            return;
        }
        let flow = packet.flow();
        if let Some(flow) = flow {
            self.reflect(now_ns, hop.node, &flow, packet);
        }
        if let Some(flow) = flow.filter(|_| is_source) {
            self.insert(now_ns, hop.node, &flow, packet);
        }
        if let Some(egress) = &mut self.egresses[hop.egress] {
            egress.arrived(now_ns, flow.as_ref());
            let found = find(flow.as_ref(), numbers(packet));
            self.fill(now_ns, hop, packet, &found);
        }
    }

    /// Inserts the sink's path telemetry into an ACK.
    fn reflect<P: Packet>(&mut self, now_ns: u64, node: usize, flow: &FlowKey, packet: &mut P) {
        let Some(sink) = self.sinks[node].as_mut().filter(|_| packet.is_pure_ack()) else { return };
        let Some(place @ None) = packet.extension_mut() else { return };
        if let Some(raw) = sink.echo(now_ns, flow) {
            *place = Some(Box::new(Extension { first: DESTINATION, raw, later: None }));
            self.counters.reflected_pkts += 1;
        }
    }

    fn insert<P: Packet>(&mut self, now_ns: u64, node: usize, flow: &FlowKey, packet: &mut P) {
        let len_bytes = packet.len_bytes();
        let (Some(place), Some(source)) = (packet.extension_mut(), &mut self.sources[node]) else { return };
        let has_echo = place.as_ref().is_some_and(|carried| carried.is_echo());
        if place.is_some() && !has_echo {
            return;
        }
        let wall_ns = now_ns.saturating_add(self.real_offset_ns);
        let (window, windows) = (&mut self.window, &mut self.windows);
        let headers = source.headers(flow, wall_ns, flow.protocol.number(), || {
            if flow.protocol != Protocol::Tcp {
                return None;
            }
            match window {
                Some((at_ns, of, state)) if *at_ns == now_ns && of == flow => *state,
                _ => {
                    let state = windows.as_mut()?(flow);
                    *window = Some((now_ns, *flow, state));
                    state
                }
            }
        });
        let Some(headers) = headers.filter(|_| !has_echo) else { return };
        if len_bytes as usize + headers.len() > self.mtu_bytes as usize {
            self.counters.no_room_pkts += 1;
            return;
        }
        let extension = Extension { first: HOP_BY_HOP, raw: headers.to_vec(), later: None };
        *place = Some(Box::new(extension));
        self.counters.inserted_pkts += 1;
    }

    fn fill<P: Packet>(&mut self, now_ns: u64, hop: Hop, packet: &mut P, found: &Found) {
        let hop_limit = packet.hop_limit();
        let (Some(Some(extension)), Some(egress)) = (packet.extension_mut(), &self.egresses[hop.egress])
        else {
            return;
        };
        let wall_ns = now_ns.saturating_add(self.real_offset_ns);
        let node = egress.node(now_ns, wall_ns, hop_limit, hop.ingress, found);
        match fill_headers(&mut extension.raw, extension.first, self.namespace_id, &node) {
            Ok(filled) => {
                let dropped = filled.flow_dropped_at.zip(found.flow_count);
                extension.later = Some(Later {
                    from_ns: now_ns,
                    delay_at: filled.transit_delay_at,
                    dropped: dropped.map(|(at, counted)| Dropped {
                        at,
                        early_pkts: counted.count.dropped_pkts - counted.late_pkts,
                    }),
                });
                self.counters.filled_pkts += u64::from(filled.filled > 0);
                self.counters.overflowed_pkts += u64::from(filled.overflowed > 0);
            }
            Err(_) => self.counters.unreadable_pkts += 1,
        }
    }
}

fn numbers<P: Packet>(packet: &mut P) -> Option<Numbers> {
    let tcp_sequence = packet.tcp_sequence();
    let extension = packet.extension_mut()?.as_ref()?;
    Numbers::read(&extension.raw, extension.first, tcp_sequence, 1)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

#[cfg(test)]
mod accuracy;
#[cfg(test)]
mod echo_tests;
#[cfg(test)]
pub mod samples;
