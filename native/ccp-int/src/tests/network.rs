//! A network in virtual time with telemetry in its packets, and what is true of it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use ccp_ioam::{Node, Numbers, Snapshot, State, fill_headers, set_transit_delay};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::meter::flow;
use crate::{Came, FlowCounts, FlowKey, Meter, RecordRow, Sink, SinkSpec, Source, SourceSpec, Summary};

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;
const WALL_NS: u64 = 1_700_000_000 * S;
const PKT_BYTES: u32 = 1500;
const HOP_LIMIT: u8 = 64;
/// From the sink back to the sender.
const BACK_NS: u64 = 5 * MS;

/// What a link is: packets are lost at random, wait, are sent, and travel.
#[derive(Clone, Copy, Debug)]
pub struct LinkSpec {
    pub service_ns: u64,
    pub limit_pkts: usize,
    pub loss: f64,
    /// Whether packets are lost behind the queue, and not in front of it.
    pub loses_sent: bool,
    /// Whether the node writes nothing at all.
    pub silent: bool,
}

/// When a flow sends.
pub enum Traffic {
    /// At given times.
    At(Vec<u64>),
    /// So many packets as a window allows, which halves when a queue overflows.
    Window { from_ns: u64, until_ns: u64 },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    Wireless,
    Overflow,
}

struct Packet {
    flow: usize,
    number: u64,
    headers: Option<Vec<u8>>,
    came_ns: u64,
    delay_at: Option<usize>,
}

struct Link {
    spec: LinkSpec,
    queue: VecDeque<Packet>,
    sending: Option<Packet>,
    meter: Meter,
    counts: FlowCounts,
    lost_pkts: u64,
    last_ns: u64,
    truth: Truth,
}

/// Sums at a node over time, and of each packet that came the sums then.
#[derive(Default)]
pub struct Truth {
    pub arrived_pkts: u64,
    pub waited_ns: u64,
    pub at: BTreeMap<u64, (u64, u64)>,
}

struct Window {
    pkts: f64,
    threshold_pkts: f64,
    in_flight: u64,
    recover: u64,
    last_ack_ns: u64,
    until_ns: u64,
}

/// Outcome of a run.
pub struct Run {
    pub links: Vec<Truth>,
    pub summaries: Vec<Summary>,
    pub records: Vec<RecordRow>,
    /// What became of lost packets of the first flow, by number.
    pub lost: BTreeMap<u64, Cause>,
}

enum Event {
    Send(usize),
    Arrive(usize, Packet),
    Sent(usize),
    Reach(Packet),
    Ack { flow: usize, number: u64 },
    Timeout(usize),
}

/// Events by time, and at the same time in the order in which they were made.
#[derive(Default)]
struct Agenda {
    order: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    made: u64,
}

impl Agenda {
    fn put(&mut self, at_ns: u64, event: Event) {
        self.order.push(Reverse((at_ns, self.made)));
        self.events.insert(self.made, event);
        self.made += 1;
    }

    fn next(&mut self) -> Option<(u64, Event)> {
        let Reverse((at_ns, key)) = self.order.pop()?;
        self.events.remove(&key).map(|event| (at_ns, event))
    }
}

pub struct Network {
    links: Vec<Link>,
    windows: BTreeMap<usize, Window>,
    numbers: BTreeMap<usize, u64>,
    agenda: Agenda,
    source: Source,
    sink: Sink,
    random: Xoshiro256PlusPlus,
    delay_ns: u64,
    run: Run,
}

/// Lets flows send through links; the first flow has telemetry, and all take all links.
pub fn run(seed: u64, source: SourceSpec, links: &[LinkSpec], traffic: Vec<Traffic>) -> Run {
    let source = Source::new(SourceSpec { max_nodes: links.len() as u8, ..source }).unwrap();
    let sink = Sink::new(SinkSpec { records: true, ..SinkSpec::default() }).unwrap();
    let link = |spec: &LinkSpec| Link {
        spec: *spec,
        queue: VecDeque::new(),
        sending: None,
        meter: Meter::new(),
        counts: FlowCounts::default(),
        lost_pkts: 0,
        last_ns: 0,
        truth: Truth::default(),
    };
    let mut network = Network {
        links: links.iter().map(link).collect(),
        windows: BTreeMap::new(),
        numbers: BTreeMap::new(),
        agenda: Agenda::default(),
        source,
        sink,
        random: Xoshiro256PlusPlus::seed_from_u64(seed),
        delay_ns: 2 * MS,
        run: Run { links: vec![], summaries: vec![], records: vec![], lost: BTreeMap::new() },
    };
    for (flow, traffic) in traffic.into_iter().enumerate() {
        match traffic {
            Traffic::At(times_ns) => {
                times_ns.into_iter().for_each(|at_ns| network.agenda.put(at_ns, Event::Send(flow)));
            }
            Traffic::Window { from_ns, until_ns } => {
                let window = Window {
                    pkts: 10.0,
                    threshold_pkts: f64::INFINITY,
                    in_flight: 0,
                    recover: 0,
                    last_ack_ns: from_ns,
                    until_ns,
                };
                network.windows.insert(flow, window);
                network.agenda.put(from_ns, Event::Timeout(flow));
            }
        }
    }
    network.go()
}

pub fn key(index: usize) -> FlowKey {
    flow(1000 + index as u16)
}

impl Network {
    fn go(mut self) -> Run {
        while let Some((now_ns, event)) = self.agenda.next() {
            self.sink.take(now_ns, &mut self.run.summaries);
            match event {
                Event::Send(flow) => self.send(now_ns, flow),
                Event::Arrive(link, packet) => self.arrive(now_ns, link, packet),
                Event::Sent(link) => self.sent(now_ns, link),
                Event::Reach(packet) => self.reach(now_ns, &packet),
                Event::Ack { flow, number } => self.ack(now_ns, flow, number),
                Event::Timeout(flow) => self.timeout(now_ns, flow),
            }
        }
        self.sink.take(u64::MAX, &mut self.run.summaries);
        self.run.records = self.sink.take_records();
        self.run.links = self.links.into_iter().map(|link| link.truth).collect();
        self.run
    }

    fn send(&mut self, now_ns: u64, flow: usize) {
        let next = self.numbers.entry(flow).or_default();
        let number = *next;
        *next += 1;
        let headers = if flow == 0 {
            self.source.headers(&key(0), WALL_NS + now_ns, 6, || None).map(<[u8]>::to_vec)
        } else {
            None
        };
        let packet = Packet { flow, number, headers, came_ns: 0, delay_at: None };
        self.agenda.put(now_ns, Event::Arrive(0, packet));
    }

    fn arrive(&mut self, now_ns: u64, at: usize, mut packet: Packet) {
        let link = &mut self.links[at];
        link.pass(now_ns);
        link.meter.arrived(now_ns, Some(&key(packet.flow)));
        link.truth.arrived_pkts += 1;
        let numbers = packet.headers.as_ref().map(|_| Numbers { first: packet.number, pkts: 1 });
        let count = numbers.map(|numbers| link.counts.came(now_ns, &key(packet.flow), numbers));
        if numbers.is_none() {
            link.counts.plain(now_ns, &key(packet.flow), 1);
        }
        link.truth.at.insert(now_ns / 1000, (link.truth.arrived_pkts, link.truth.waited_ns));
        if !link.spec.loses_sent && self.random.random::<f64>() < link.spec.loss {
            link.lost_pkts += 1;
            return self.lose(&packet, Cause::Wireless);
        }
        if link.queue.len() >= link.spec.limit_pkts {
            link.counts.dropped(now_ns, &key(packet.flow), false);
            return self.lose(&packet, Cause::Overflow);
        }
        let state = State {
            queue_free_pkts: Some((link.spec.limit_pkts - link.queue.len()) as u32),
            arrival_pkts_per_s: link.meter.arrival_pkts_per_s(now_ns),
            flow_count: Some(link.meter.flow_count(now_ns)),
            lost_pkts: Some(link.lost_pkts),
            flow_missing_pkts: count.map(|count| count.missing_pkts as u64),
            flow_dropped_pkts: count.map(|count| count.dropped_pkts),
            ..State::default()
        };
        let node = Node {
            hop_limit: Some(HOP_LIMIT - at as u8),
            node_id: Some(at as u32 + 1),
            timestamp_s: Some(((WALL_NS + now_ns) / S) as u32),
            timestamp_fraction: Some((now_ns % S / 1000) as u32),
            queue_depth: Some(link.queue.len() as u32),
            snapshot: Some(Snapshot::Ccplane(state)),
            ..Node::default()
        };
        if let Some(headers) = packet.headers.as_mut().filter(|_| !link.spec.silent) {
            packet.delay_at = fill_headers(headers, 0, 0, &node).unwrap().transit_delay_at;
        }
        packet.came_ns = now_ns;
        if link.spec.silent {
            packet.delay_at = None;
        }
        link.queue.push_back(packet);
        self.start(now_ns, at);
    }

    fn start(&mut self, now_ns: u64, at: usize) {
        let link = &mut self.links[at];
        if link.sending.is_some() {
            return;
        }
        let Some(mut packet) = link.queue.pop_front() else { return };
        if let (Some(headers), Some(delay_at)) = (&mut packet.headers, packet.delay_at) {
            set_transit_delay(headers, delay_at, now_ns - packet.came_ns);
        }
        link.sending = Some(packet);
        self.agenda.put(now_ns + link.spec.service_ns, Event::Sent(at));
    }

    fn sent(&mut self, now_ns: u64, at: usize) {
        let link = &mut self.links[at];
        link.pass(now_ns);
        let packet = link.sending.take().unwrap();
        if link.spec.loses_sent && self.random.random::<f64>() < link.spec.loss {
            link.lost_pkts += 1;
            self.lose(&packet, Cause::Wireless);
        } else {
            let last = at + 1 == self.links.len();
            let event = if last { Event::Reach(packet) } else { Event::Arrive(at + 1, packet) };
            self.agenda.put(now_ns + self.delay_ns, event);
        }
        self.start(now_ns, at);
    }

    fn lose(&mut self, packet: &Packet, cause: Cause) {
        if packet.flow == 0 {
            self.run.lost.insert(packet.number, cause);
        }
        // A window halves only for what it can do something about, as with the paper's New L1.
        if let Some(window) = self.windows.get_mut(&packet.flow) {
            window.in_flight -= 1;
            if cause == Cause::Overflow && packet.number >= window.recover {
                window.pkts = (window.pkts * 0.7).max(2.0);
                window.threshold_pkts = window.pkts;
                window.recover = self.numbers[&packet.flow];
            }
        }
    }

    fn reach(&mut self, now_ns: u64, packet: &Packet) {
        let extension = packet.headers.as_deref().map(|headers| (headers, 0));
        let came = Came {
            flow: &key(packet.flow),
            len_bytes: PKT_BYTES,
            pkts: 1,
            hop_limit: Some(HOP_LIMIT + 1 - self.links.len() as u8),
            tcp_sequence: None,
            plain_pkts: None,
            extension,
        };
        self.sink.came(now_ns, WALL_NS + now_ns, &came);
        let ack = Event::Ack { flow: packet.flow, number: packet.number };
        self.agenda.put(now_ns + BACK_NS, ack);
    }

    fn ack(&mut self, now_ns: u64, flow: usize, number: u64) {
        let Some(window) = self.windows.get_mut(&flow) else { return };
        window.last_ack_ns = now_ns;
        window.in_flight -= 1;
        if number >= window.recover {
            let slow_start = window.pkts < window.threshold_pkts;
            window.pkts += if slow_start { 1.0 } else { 1.0 / window.pkts };
        }
        self.fill(now_ns, flow);
    }

    /// Sends what the window allows, and looks again later in case nothing comes back.
    fn timeout(&mut self, now_ns: u64, flow: usize) {
        self.fill(now_ns, flow);
        if now_ns < self.windows[&flow].until_ns {
            self.agenda.put(now_ns + 50 * MS, Event::Timeout(flow));
        }
    }

    fn fill(&mut self, now_ns: u64, flow: usize) {
        let window = self.windows.get_mut(&flow).unwrap();
        let room = (window.pkts as u64).saturating_sub(window.in_flight);
        if now_ns < window.until_ns {
            window.in_flight += room;
            (0..room).for_each(|_| self.agenda.put(now_ns, Event::Send(flow)));
        }
    }
}

impl Link {
    fn pass(&mut self, now_ns: u64) {
        self.truth.waited_ns += self.queue.len() as u64 * (now_ns - self.last_ns);
        self.last_ns = now_ns;
    }
}
