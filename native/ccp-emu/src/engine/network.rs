//! A network of links, hosts and routers, in virtual time.

use ccp_int::FlowKey;

use super::Counters;
use super::agenda::Agenda;
use super::misbehaving::Misbehaving;
use super::pipe::Pipe;
use crate::int::{Hop, Telemetry};
use crate::ip::Extension;
use crate::packet::{Ecn, Judged, Packet};
use crate::spec::{Direction, Spec, Tunnel};
use crate::{Error, Result};

#[derive(Clone, Debug)]
struct Addressed<P> {
    from: usize,
    to: usize,
    /// The tunnel in which it travels.
    tunnel: Option<Tunnel>,
    packet: P,
}

impl<P: Packet> Packet for Addressed<P> {
    fn len_bytes(&self) -> u32 {
        self.packet.len_bytes() + self.tunnel.map_or(0, |tunnel| tunnel.overhead_bytes)
    }

    fn ecn(&self) -> Ecn {
        if self.tunnel.is_some_and(|tunnel| !tunnel.ecn) { Ecn::NotEct } else { self.packet.ecn() }
    }

    fn mark_ce(&mut self) {
        self.packet.mark_ce();
    }

    fn flow_id(&self) -> u64 {
        self.packet.flow_id()
    }

    fn hop(&mut self) -> bool {
        self.packet.hop()
    }

    fn corrupt(&mut self, choice: u64) {
        self.packet.corrupt(choice);
    }

    fn flow(&self) -> Option<FlowKey> {
        self.packet.flow()
    }

    fn tcp_sequence(&self) -> Option<u32> {
        self.packet.tcp_sequence()
    }

    fn is_pure_ack(&self) -> bool {
        self.packet.is_pure_ack()
    }

    fn judge(&self, waiting: &Self) -> Judged {
        self.packet.judge(&waiting.packet)
    }

    fn hop_limit(&self) -> Option<u8> {
        self.packet.hop_limit()
    }

    fn extension_mut(&mut self) -> Option<&mut Option<Box<Extension>>> {
        self.packet.extension_mut()
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Delivery<P> {
    pub node: usize,
    pub at_ns: u64,
    pub packet: P,
}

/// A packet at the end of a tapped link.
#[derive(Clone, Debug)]
pub struct Tapped<P> {
    pub link: usize,
    pub at_ns: u64,
    pub packet: P,
}

#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub queue_bytes: u64,
    pub queue_pkts: u64,
    /// Packets in transmission or propagation.
    pub flying_pkts: u64,
    /// Packets in transmission: 0 or 1.
    pub sending_pkts: u64,
    pub counters: Counters,
}

impl Sample {
    /// Total packets that arrived at the link, left its transmitter, or reached its end.
    pub fn packet_events(&self) -> u64 {
        let c = &self.counters;
        let transmitted_pkts = c.delivered_pkts + self.flying_pkts - self.sending_pkts - c.duplicated_pkts;
        c.arrived_pkts + transmitted_pkts + c.delivered_pkts
    }
}

struct Place<P> {
    name: String,
    to: usize,
    pipe: Pipe<Addressed<P>>,
    tapped: bool,
}

/// A network. Its owner supplies the time, which never goes back.
pub struct Network<P> {
    spec: Spec,
    places: Vec<Place<P>>,
    agenda: Agenda,
    /// Lower bound of the time at which a packet in each link reaches a host.
    arrivals: Agenda,
    /// Minimum delay from each node to a host.
    to_host_ns: Vec<u64>,
    now_ns: u64,
    /// Reports to hosts about packets that were too large for their own link.
    returned: Vec<Delivery<P>>,
    tapped: Vec<Tapped<P>>,
    telemetry: Option<Telemetry>,
    misbehaving: Option<Misbehaving>,
    unroutable_pkts: u64,
    expired_pkts: u64,
}

impl<P: Packet> Network<P> {
    /// An empty network that starts now. The spec must have been checked.
    pub fn new(spec: Spec, now_ns: u64) -> Self {
        let place = |link: &crate::spec::Link| Place {
            name: link.name.clone(),
            to: link.to,
            pipe: Pipe::new(link.direction.clone(), &link.name, spec.seed, spec.mtu_bytes, now_ns),
            tapped: false,
        };
        let places: Vec<_> = spec.links.iter().map(place).collect();
        Network {
            agenda: Agenda::new(places.len()),
            arrivals: Agenda::new(places.len()),
            to_host_ns: min_delays_ns(&spec),
            misbehaving: Misbehaving::new(&spec.nodes),
            places,
            spec,
            now_ns,
            returned: Vec::new(),
            tapped: Vec::new(),
            telemetry: None,
            unroutable_pkts: 0,
            expired_pkts: 0,
        }
    }

    /// Enables telemetry for packets from now on; without this call the spec's telemetry is inactive.
    pub fn set_telemetry(&mut self, telemetry: Telemetry) {
        for (link, place) in self.places.iter_mut().enumerate() {
            if telemetry.ends_at(link) {
                place.pipe.set_sink();
            }
            if telemetry.counts_at(link) {
                place.pipe.set_counting();
            }
        }
        self.telemetry = Some(telemetry);
    }

    pub fn telemetry_mut(&mut self) -> Option<&mut Telemetry> {
        self.telemetry.as_mut()
    }

    pub fn link_names(&self) -> impl Iterator<Item = &str> {
        self.places.iter().map(|place| place.name.as_str())
    }

    /// A host sends a packet to another one. Call `advance` first.
    pub fn arrive(&mut self, now_ns: u64, from: usize, to: usize, packet: P) {
        self.now_ns = self.now_ns.max(now_ns);
        let addressed = |packet| Addressed { from, to, tunnel: None, packet };
        let Some(mut misbehaving) = self.misbehaving.take() else {
            return self.forward(self.now_ns, from, None, addressed(packet));
        };
        misbehaving.change(from, to, packet, |packet| {
            self.forward(self.now_ns, from, None, addressed(packet));
        });
        self.misbehaving = Some(misbehaving);
    }

    /// Counts a sent packet without a destination.
    pub fn count_unroutable(&mut self) {
        self.unroutable_pkts += 1;
    }

    pub fn next_event_ns(&self) -> Option<u64> {
        self.agenda.first().map(|(at_ns, _)| at_ns)
    }

    /// Lower bound of the next delivery: until then `advance` has no visible effect.
    pub fn next_delivery_ns(&self) -> Option<u64> {
        let returned_ns = self.returned.first().map(|returned| returned.at_ns);
        returned_ns.or_else(|| self.arrivals.first().map(|(at_ns, _)| at_ns))
    }

    /// Processes all due events; adds packets that reached their hosts, in order.
    pub fn advance(&mut self, now_ns: u64, deliveries: &mut Vec<Delivery<P>>) {
        deliveries.append(&mut self.returned);
        while let Some((at_ns, link)) = self.agenda.take(now_ns) {
            self.now_ns = at_ns;
            let place = &mut self.places[link];
            let arrived = place.pipe.step(at_ns);
            let to = place.to;
            if let (true, Some(arrived)) = (place.tapped, &arrived) {
                self.tapped.push(Tapped { link, at_ns, packet: arrived.packet.clone() });
            }
            self.schedule(link);
            let Some(mut arrived) = arrived else { continue };
            if arrived.to == to {
                if let Some(telemetry) = &mut self.telemetry {
                    telemetry.delivered(at_ns, to, &mut arrived);
                }
                deliveries.push(Delivery { node: to, at_ns, packet: arrived.packet });
            } else if arrived.hop() {
                self.forward(at_ns, to, Some(link), arrived);
            } else {
                self.expired_pkts += 1;
            }
        }
        self.now_ns = self.now_ns.max(now_ns);
    }

    fn forward(&mut self, now_ns: u64, node: usize, ingress: Option<usize>, mut packet: Addressed<P>) {
        let link = self.spec.routes.get(node).and_then(|row| row.get(packet.to)).copied();
        let Some(link) = link.and_then(|link| usize::try_from(link).ok()) else {
            self.unroutable_pkts += 1;
            return;
        };
        packet.tunnel = self.spec.links[link].direction.tunnel;
        let mtu_bytes = packet.tunnel.and_then(|tunnel| tunnel.mtu_bytes).unwrap_or(u32::MAX);
        if packet.packet.len_bytes() > mtu_bytes {
            self.reject(now_ns, node, link, mtu_bytes, &packet);
            return;
        }
        let pipe = &mut self.places[link].pipe;
        if let Some(telemetry) = &mut self.telemetry {
            let hop = Hop { node, ingress, egress: link };
            telemetry.sends(now_ns, hop, &mut packet, |flow, numbers| pipe.find(now_ns, flow, numbers));
        }
        pipe.arrive(now_ns, packet);
        self.schedule(link);
    }

    /// Drops a packet that is too large for a tunnel, and tells its sender, unless the tunnel is silent.
    fn reject(&mut self, now_ns: u64, node: usize, link: usize, mtu_bytes: u32, packet: &Addressed<P>) {
        self.places[link].pipe.reject(packet);
        let report = packet.tunnel.filter(|t| t.reports).and_then(|_| packet.packet.too_big(mtu_bytes));
        let Some(report) = report else { return };
        if node == packet.from {
            self.returned.push(Delivery { node, at_ns: now_ns, packet: report });
        } else {
            self.forward(
                now_ns,
                node,
                None,
                Addressed { from: node, to: packet.from, tunnel: None, packet: report },
            );
        }
    }

    /// Maximum packet that is not too large for the tunnels on the route between two hosts, of those that
    /// report.
    pub fn path_mtu_bytes(&self, from: usize, to: usize) -> u32 {
        let mut mtu_bytes = self.spec.mtu_bytes;
        let mut node = from;
        // A route passes each node at most once.
        for _ in 0..self.spec.nodes.len() {
            let link = self.spec.routes[node].get(to).and_then(|link| usize::try_from(*link).ok());
            let Some(link) = link.and_then(|link| self.spec.links.get(link)) else { break };
            let tunnel = link.direction.tunnel.filter(|tunnel| tunnel.reports);
            mtu_bytes = mtu_bytes.min(tunnel.and_then(|tunnel| tunnel.mtu_bytes).unwrap_or(u32::MAX));
            node = link.to;
        }
        mtu_bytes
    }

    fn schedule(&mut self, link: usize) {
        let place = &mut self.places[link];
        if let (Some(telemetry), Some(seen)) = (&mut self.telemetry, place.pipe.take_seen()) {
            seen.for_each(|seen| telemetry.seen_at(link, &seen));
        }
        self.agenda.set(link, place.pipe.due_ns());
        let end_ns = place.pipe.earliest_end_ns();
        self.arrivals.set(link, end_ns.map(|end_ns| end_ns.saturating_add(self.to_host_ns[place.to])));
    }

    /// Changes a link direction after processing due events; its packets stay. Errors: `emulator.no_link` or
    /// `emulator.bad_spec`; nothing has changed then.
    pub fn set_link(
        &mut self,
        now_ns: u64,
        name: &str,
        direction: Direction,
        deliveries: &mut Vec<Delivery<P>>,
    ) -> Result<()> {
        direction.check().map_err(|e| e.at(name))?;
        let link = self.link(name)?;
        self.advance(now_ns, deliveries);
        self.spec.links[link].direction = direction.clone();
        self.to_host_ns = min_delays_ns(&self.spec);
        self.places[link].pipe.set(self.now_ns, direction);
        (0..self.places.len()).for_each(|link| self.schedule(link));
        Ok(())
    }

    /// Changes routes; packets in links stay there. Errors: `emulator.bad_spec`; nothing has changed then.
    pub fn set_routes(&mut self, routes: Vec<Vec<i64>>) -> Result<()> {
        self.spec.check_routes(&routes)?;
        self.spec.routes = routes;
        Ok(())
    }

    /// Taps a link: `take_tapped` returns its packets from now on. Errors: `emulator.no_link`.
    pub fn tap(&mut self, name: &str) -> Result<usize> {
        let link = self.link(name)?;
        self.places[link].tapped = true;
        Ok(link)
    }

    /// Returns the packets of tapped links since the last call.
    pub fn take_tapped(&mut self) -> Vec<Tapped<P>> {
        std::mem::take(&mut self.tapped)
    }

    /// State of a link direction. Panics if the index is invalid.
    pub fn sample(&self, link: usize) -> Sample {
        let pipe = &self.places[link].pipe;
        Sample {
            queue_bytes: pipe.queue_bytes(),
            queue_pkts: pipe.queue_pkts(),
            flying_pkts: pipe.flying_pkts(),
            sending_pkts: pipe.sending_pkts(),
            counters: pipe.counters,
        }
    }

    /// Maximum queueing delay of packets that left since the last call. Panics if the index is invalid.
    pub fn take_sojourn_max_ns(&mut self, link: usize) -> u64 {
        self.places[link].pipe.take_sojourn_max_ns()
    }

    pub fn unroutable_pkts(&self) -> u64 {
        self.unroutable_pkts
    }

    pub fn expired_pkts(&self) -> u64 {
        self.expired_pkts
    }

    fn link(&self, name: &str) -> Result<usize> {
        self.places.iter().position(|place| place.name == name).ok_or_else(|| {
            let names: Vec<_> = self.link_names().collect();
            Error::new("emulator.no_link", format!("there is no link direction `{name}`"))
                .why(format!("known directions: {}", names.join(", ")))
        })
    }
}

/// Minimum delay from each node to a host: 0 at hosts. Queueing, transmission and jitter come on top.
fn min_delays_ns(spec: &Spec) -> Vec<u64> {
    let is_router = |node: &crate::spec::Node| node.addresses.is_empty() && node.tun.is_none();
    let mut minimum: Vec<_> = spec.nodes.iter().map(|n| if is_router(n) { u64::MAX } else { 0 }).collect();
    // A path passes each node at most once.
    for _ in 0..spec.nodes.len() {
        for link in &spec.links {
            let way_ns = minimum[link.to].saturating_add(link.direction.delay_us.saturating_mul(1000));
            minimum[link.from] = minimum[link.from].min(way_ns);
        }
    }
    minimum
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
