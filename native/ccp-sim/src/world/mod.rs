//! The discrete-event world: hosts, connections, applications, and the network between them.

mod apps;
mod arrivals;
mod connection;
mod flow;
mod hosts;
mod media;
mod names;
mod offers;
mod probes;
mod rows;
mod telemetry;
mod timers;
mod traffic;

use ccp_emu::spec::{Direction, Spec};
use ccp_emu::{Delivery, Network, Sample, Samples};
use ccp_record::row::tcp_row;
use ccp_tcp::Sender;

use crate::Result;
use crate::agent::{AgentFlow, Shared};
use crate::control::Control;
use crate::features::Offer;
use crate::packet::{SimPacket, Way};
use crate::plan::{self, Plan};
use connection::Connection;
use flow::Flow;
use hosts::Hosts;
use names::Names;
use probes::Probes;
use telemetry::Inband;
use timers::Timers;

pub use arrivals::Arrived;
pub use flow::Outcome;
pub use probes::Echo;

#[derive(Clone, Debug)]
pub struct Options {
    pub start_us: u64,
    /// Maximum IP packet of hosts; `None`: as the network's.
    pub host_mtu_bytes: Option<u32>,
    /// Maximum window set by agents.
    pub max_cwnd_bytes: u64,
    /// Samples sockets and links, at the network's interval.
    pub samples: bool,
    /// Receivers count arrivals.
    pub arrivals: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            start_us: 1_000_000,
            host_mtu_bytes: None,
            max_cwnd_bytes: 1 << 30,
            samples: false,
            arrivals: false,
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stop {
    /// The requested time is reached.
    Time,
    /// A flow sent a record to the agent.
    Agent,
    /// A sink of telemetry produced a summary.
    Telemetry,
}

/// Totals of closed connections.
#[derive(Clone, Copy, Debug, Default)]
struct Endings {
    received_bytes: u64,
    retrans_pkts: u64,
}

/// Counters of packets at hosts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct HostCounters {
    pub sent_pkts: u64,
    /// Packets accepted by hosts.
    pub taken_pkts: u64,
    /// Corrupted packets: wrong checksum.
    pub corrupted_pkts: u64,
    /// Packets of closed connections.
    pub stray_pkts: u64,
}

/// A world. It has no clock and no I/O except files of samples; the same description and calls give the same result.
pub struct World {
    now_ns: u64,
    network: Network<SimPacket>,
    hosts: Hosts,
    deliveries: Vec<Delivery<SimPacket>>,
    connections: Vec<Connection>,
    connection_timers: Timers,
    flows: Vec<Flow>,
    flow_timers: Timers,
    names: Names,
    probes: Probes,
    shared: Shared,
    offers: Vec<Box<dyn Offer>>,
    inband: Option<Inband>,
    samples: Option<Samples>,
    sampled: Option<Sampled>,
    counts_arrivals: bool,
    counters: HostCounters,
}

/// Rows of sockets, at most one per socket and interval.
struct Sampled {
    interval_ns: u64,
    rows: Vec<tcp_row>,
}

impl World {
    /// A world at its start. Errors: `emulator.cannot_write`, or those of telemetry headers.
    pub fn new(spec: Spec, options: &Options) -> Result<Self> {
        let now_ns = options.start_us.saturating_mul(1000);
        let hosts = Hosts::new(&spec, options.host_mtu_bytes);
        let interval_ns = spec.sample_interval_us.saturating_mul(1000);
        let mut network = Network::new(spec.clone(), now_ns);
        let inband = Inband::new(&spec, &mut network)?;
        let names = || network.link_names().map(str::to_owned).collect();
        let samples = spec
            .samples_path
            .as_deref()
            .map(|path| Samples::create(path, names(), spec.sample_interval_us, now_ns))
            .transpose()?;
        let sampled = options.samples.then(|| Sampled { interval_ns, rows: Vec::new() });
        Ok(World {
            now_ns,
            network,
            hosts,
            deliveries: Vec::new(),
            connections: Vec::new(),
            connection_timers: Timers::default(),
            flows: Vec::new(),
            flow_timers: Timers::default(),
            names: Names::default(),
            probes: Probes::default(),
            shared: Shared::new(options.max_cwnd_bytes),
            offers: Vec::new(),
            inband,
            samples,
            sampled,
            counts_arrivals: options.arrivals,
            counters: HostCounters::default(),
        })
    }

    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Adds a flow; returns its index. Errors, which change nothing: `sim.bad_plan`, `sim.no_host`, or
    /// `sim.no_congestion_control`.
    pub fn add(&mut self, plan: Plan) -> Result<usize> {
        plan.check()?;
        if !matches!(plan.app, plan::App::Rtp { .. }) && !self.offers(&plan.congestion) {
            self.names.check(&plan.congestion)?;
        }
        let flow = self.hosts.flow(plan, self.now_ns)?;
        self.flows.push(flow);
        let index = self.flows.len() - 1;
        self.flow_timers.set(index, self.flows[index].due_ns());
        Ok(index)
    }

    /// Runs until that time; stops earlier at a record or summary, unless one is already waiting.
    pub fn run_until(&mut self, at_ns: u64) -> Stop {
        let (reported, said) = (self.shared.has_records(), self.has_summaries());
        loop {
            let next_ns = self.due_ns().min(at_ns);
            self.now_ns = self.now_ns.max(next_ns);
            self.happen();
            if !reported && self.shared.has_records() {
                return Stop::Agent;
            }
            if !said && self.has_summaries() {
                return Stop::Telemetry;
            }
            if self.now_ns >= at_ns && self.due_ns() > at_ns {
                return Stop::Time;
            }
        }
    }

    fn has_summaries(&self) -> bool {
        self.inband.as_ref().is_some_and(Inband::has_said)
    }

    /// No host acts before this time.
    fn due_ns(&mut self) -> u64 {
        let packet_ns = self.network.next_delivery_ns().unwrap_or(u64::MAX);
        let timer_ns = self.connection_timers.next_ns().min(self.flow_timers.next_ns());
        let mut due_ns = packet_ns.min(timer_ns).min(self.probes.next_ns());
        if let Some(samples) = &self.samples {
            due_ns = due_ns.min(samples.due_ns());
        }
        if self.inband.is_some() {
            let telemetry_ns = self.network.telemetry_mut().and_then(|telemetry| telemetry.due_ns());
            due_ns = due_ns.min(telemetry_ns.unwrap_or(u64::MAX));
        }
        due_ns
    }

    fn happen(&mut self) {
        self.network.advance(self.now_ns, &mut self.deliveries);
        self.deliver();
        while let Some(connection) = self.connection_timers.take(self.now_ns) {
            self.on_connection_timer(connection);
        }
        while let Some(flow) = self.flow_timers.take(self.now_ns) {
            self.on_flow_timer(flow);
        }
        self.send_probes();
        if let Some(inband) = &mut self.inband {
            inband.take(self.now_ns, &mut self.network);
        }
        if let Some(samples) = &mut self.samples {
            samples.take(self.now_ns, &mut self.network);
        }
    }

    /// Packets that arrived at ends of transmissions, at ends of links, and at links, since the start: each
    /// is a packet event.
    pub fn packet_events(&self) -> u64 {
        (0..self.hosts.links()).map(|link| self.network.sample(link).packet_events()).sum()
    }

    pub fn counters(&self) -> HostCounters {
        self.counters
    }

    pub fn network(&self) -> &Network<SimPacket> {
        &self.network
    }

    /// Contents of a link direction, by its index in the description. Panics if there is no such link.
    pub fn link(&self, index: usize) -> Sample {
        self.network.sample(index)
    }

    /// Changes a link direction while packets are in it. Errors, which change nothing: `emulator.no_link` or
    /// `emulator.bad_spec`.
    pub fn set_link(&mut self, name: &str, direction: Direction) -> Result<()> {
        self.network.set_link(self.now_ns, name, direction, &mut self.deliveries)?;
        self.deliver();
        Ok(())
    }

    /// Changes routes; packets in links stay there. Errors, which change nothing: `emulator.bad_spec`.
    pub fn set_routes(&mut self, routes: Vec<Vec<i64>>) -> Result<()> {
        self.network.set_routes(routes)
    }

    /// The sender of a flow's connection, by order of opening; `None` unless it is established.
    pub fn sender(&self, plan: usize, nth: usize) -> Option<&Sender<Control>> {
        let connection = *self.flows.get(plan)?.connections.get(nth)?;
        self.connections[connection].data.sender.as_ref()
    }

    /// The mutable sender; call `kick` after a change.
    pub fn sender_mut(&mut self, plan: usize, nth: usize) -> Option<&mut Sender<Control>> {
        let connection = *self.flows.get(plan)?.connections.get(nth)?;
        self.connections[connection].data.sender.as_mut()
    }

    /// Sends what a window or rate changed from outside allows.
    pub fn kick(&mut self, plan: usize, nth: usize) {
        if let Some(connection) = self.flows.get(plan).and_then(|flow| flow.connections.get(nth)).copied() {
            self.pump(connection, Way::Data);
        }
    }

    /// State shared by agent and flows.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Offers a congestion-control name to flows; an existing name is unchanged. Errors: `register.bad_name`
    /// or `register.full`.
    pub fn register(&mut self, cc_name: &str, needs_ecn: bool) -> Result<()> {
        self.names.register(cc_name, needs_ecn)
    }

    /// Withdraws a name; flows that use it keep it. Errors: `register.unknown`.
    pub fn unregister(&mut self, cc_name: &str) -> Result<()> {
        self.names.unregister(cc_name)
    }

    pub fn registered(&self) -> impl Iterator<Item = &str> {
        self.names.registered()
    }

    /// All names ever registered, by index (`ccp_flow_info.cc_id`).
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.all()
    }

    /// The flows that an agent can control.
    pub fn agent_flows(&self) -> impl Iterator<Item = &AgentFlow> {
        self.connections
            .iter()
            .filter_map(|connection| connection.data.sender.as_ref())
            .filter_map(|sender| sender.congestion.agent())
    }

    pub fn agent_flow(&self, flow_id: u64) -> Option<&AgentFlow> {
        let connection = self.connections.get(flow_id as u32 as usize)?;
        connection.data.sender.as_ref()?.congestion.agent().filter(|flow| flow.flow_id() == flow_id)
    }

    /// A mutable agent flow.
    pub fn agent_flow_mut(&mut self, flow_id: u64) -> Option<&mut AgentFlow> {
        let connection = self.connections.get_mut(flow_id as u32 as usize)?;
        let flow = connection.data.sender.as_mut()?.congestion.agent_mut();
        flow.filter(|flow| flow.flow_id() == flow_id)
    }

    /// Outcomes of flows, in the order in which they were added.
    pub fn outcomes(&self) -> impl Iterator<Item = Outcome> {
        self.flows.iter().map(|flow| flow.outcome(&self.endings(flow)))
    }

    fn endings(&self, flow: &Flow) -> Endings {
        let mut endings = Endings::default();
        for connection in flow.connections.iter().map(|index| &self.connections[*index]) {
            let retrans_pkts = match &connection.data.sender {
                Some(sender) => sender.sock.total_retrans,
                None => connection.retrans_pkts,
            };
            endings.received_bytes += connection.in_order_bytes().saturating_sub(flow.app.overhead_bytes());
            endings.retrans_pkts += u64::from(retrans_pkts);
        }
        endings
    }

    pub fn is_finished(&self) -> bool {
        self.flows.iter().all(|flow| flow.state == flow::State::Over)
    }

    /// Writes the last samples, and closes files. Errors: `emulator.cannot_write`.
    pub fn close(&mut self) -> Result<()> {
        if let Some(samples) = self.samples.take() {
            samples.close(self.now_ns, &mut self.network)?;
        }
        self.inband.take().map_or(Ok(()), |inband| inband.close(&mut self.network))
    }
}

#[cfg(test)]
mod tests;
