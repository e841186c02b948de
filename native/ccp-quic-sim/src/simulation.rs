//! The loop: network, connections and applications in virtual time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ccp_emu::{Error, Network, Result};

use crate::flow::{Begin, Flow, Now, Offered, Pair, Traffic};
use crate::packet::{Datagram, End};
use crate::path::{DATA, DATA_LINK, Path};
use crate::record::Record;
use crate::report::{Application, FlowReport, Report};

/// Steps at one time after which a simulation ends with an error.
const STEPS_MAX: u32 = 1_000_000;

/// Flows over a path, and changes of the path.
pub struct Simulation {
    path: Path,
    flows: Vec<Flow>,
    changes: Vec<(Duration, Path)>,
}

impl Simulation {
    pub fn new(path: Path) -> Self {
        Simulation { path, flows: Vec::new(), changes: Vec::new() }
    }

    #[must_use]
    pub fn flow(mut self, flow: Flow) -> Self {
        self.flows.push(flow);
        self
    }

    /// Changes the data direction to that of another path at a time.
    #[must_use]
    pub fn change(mut self, at: Duration, path: Path) -> Self {
        self.changes.push((at, path));
        self
    }

    /// Runs for this time, from 0, in virtual time. Errors: `emulator.bad_spec` if the path is invalid,
    /// `quic_sim.connection` if a connection fails, `quic_sim.stuck` if time does not advance.
    pub fn run(mut self, duration: Duration) -> Result<Report> {
        self.changes.sort_by_key(|(at, _)| *at);
        let start = Instant::now();
        let path_bytes_per_s = self.path.rate_bytes_per_s();
        let (seed, ack_delay) = (self.path.seed, Duration::from_micros(self.path.acks.delay_us));
        let mut world = World {
            start,
            ack_delay,
            network: Network::new(self.path.spec()?, 0),
            changes: self.changes.into(),
            flows: Vec::new(),
            deliveries: Vec::new(),
            sent: Vec::new(),
        };
        for (index, flow) in self.flows.into_iter().enumerate() {
            world.flows.push(Running::new(index, flow, start, seed));
        }
        world.run(duration)?;
        let flows = world.flows.into_iter().map(|flow| flow.report(duration, path_bytes_per_s)).collect();
        let queue_max = Duration::from_nanos(world.network.take_sojourn_max_ns(DATA_LINK));
        let bottleneck = world.network.sample(DATA_LINK).counters;
        Ok(Report { flows, bottleneck, queue_max, duration, path_bytes_per_s })
    }
}

struct World {
    start: Instant,
    ack_delay: Duration,
    network: Network<Datagram>,
    changes: VecDeque<(Duration, Path)>,
    flows: Vec<Running>,
    deliveries: Vec<ccp_emu::Delivery<Datagram>>,
    sent: Vec<Datagram>,
}

impl World {
    fn run(&mut self, duration: Duration) -> Result<()> {
        let (mut now, mut steps) = (Duration::ZERO, 0);
        while now < duration {
            self.step(now)?;
            let next = self.next().unwrap_or(duration).max(now);
            steps = if next == now { steps + 1 } else { 0 };
            if steps > STEPS_MAX {
                let why = "a connection asks to be called again and again at the same time";
                return Err(Error::new("quic_sim.stuck", format!("time stands still at {now:?}")).why(why));
            }
            now = next;
        }
        Ok(())
    }

    fn step(&mut self, now: Duration) -> Result<()> {
        let now_ns = nanos(now);
        let now = Now { at: now, instant: self.start + now };
        while self.changes.front().is_some_and(|(at, _)| *at <= now.at) {
            let Some((_, path)) = self.changes.pop_front() else { break };
            self.network.set_link(now_ns, DATA, path.data, &mut self.deliveries)?;
        }
        self.network.advance(now_ns, &mut self.deliveries);
        for delivery in self.deliveries.drain(..) {
            let Datagram { flow, from, ecn, data, sent } = delivery.packet;
            let running = &mut self.flows[flow];
            let at = match from {
                End::Sender => End::Receiver,
                End::Receiver => End::Sender,
            };
            if from == End::Sender {
                let rtt = Duration::from_nanos(delivery.at_ns).saturating_sub(sent) + self.ack_delay;
                running.record.rtts.push((now.at, rtt));
            }
            if let Some(pair) = &mut running.pair {
                pair.receive(now, at, ecn, data, &mut running.record)?;
                running.is_due = true;
            }
        }
        for flow in &mut self.flows {
            flow.advance(now, &mut self.sent)?;
            for datagram in self.sent.drain(..) {
                let (from, to) = match datagram.from {
                    End::Sender => (0, 1),
                    End::Receiver => (1, 0),
                };
                if datagram.from == End::Sender {
                    flow.record.sent(now.at, datagram.data.len() as u64);
                }
                self.network.arrive(now_ns, from, to, datagram);
            }
        }
        Ok(())
    }

    /// Time of the next event.
    fn next(&self) -> Option<Duration> {
        let packet = self.network.next_delivery_ns().map(Duration::from_nanos);
        let change = self.changes.front().map(|(at, _)| *at);
        self.flows.iter().filter_map(|flow| flow.next).chain(packet).chain(change).min()
    }
}

/// A flow while it runs.
struct Running {
    index: usize,
    seed: [u8; 32],
    flow: Option<Flow>,
    pair: Option<Box<dyn Pair>>,
    record: Record,
    epoch: Instant,
    is_due: bool,
    next: Option<Duration>,
    traffic: Traffic,
    application: Application,
    offered_bytes: u64,
    next_message: Duration,
    /// Where each message ends that has not arrived, and when it was written.
    messages: VecDeque<(u64, Duration)>,
    /// Last time at which data arrived or nothing waited.
    progress: Duration,
}

impl Running {
    fn new(index: usize, flow: Flow, epoch: Instant, seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[8..16].copy_from_slice(&seed.to_le_bytes());
        bytes[16..24].copy_from_slice(&(index as u64).to_le_bytes());
        Running {
            index,
            seed: bytes,
            pair: None,
            record: Record::default(),
            epoch,
            is_due: true,
            next: Some(flow.start),
            traffic: flow.traffic,
            application: Application {
                name: flow.name.clone(),
                start: flow.start,
                end: Duration::MAX,
                is_complete: false,
                received: Vec::new(),
                message_delays: Vec::new(),
                messages: 0,
                longest_stall: Duration::ZERO,
            },
            offered_bytes: 0,
            next_message: flow.start,
            messages: VecDeque::new(),
            progress: flow.start,
            flow: Some(flow),
        }
    }

    fn advance(&mut self, now: Now, sent: &mut Vec<Datagram>) -> Result<()> {
        if !self.is_due && self.next.is_none_or(|next| next > now.at) {
            return Ok(());
        }
        if let Some(flow) = self.flow.take_if(|flow| flow.start <= now.at) {
            let begin = Begin { flow: self.index, now: now.instant, seed: self.seed };
            self.pair = Some((flow.connect)(begin)?);
        }
        let offered = self.offer(now.at);
        self.is_due = false;
        let Some(pair) = &mut self.pair else { return Ok(()) };
        pair.advance(now, offered, &mut self.record, sent)?;
        let timer = pair.due().map(|due| due.saturating_duration_since(self.epoch));
        let message = matches!(self.traffic, Traffic::Messages { .. }).then_some(self.next_message);
        self.next = timer.into_iter().chain(message).min();
        let (received_bytes, is_complete) = (pair.received_bytes(), pair.is_complete());
        self.note(now.at, received_bytes, is_complete);
        Ok(())
    }

    /// Writes messages that are due.
    fn offer(&mut self, now: Duration) -> Offered {
        match self.traffic {
            Traffic::Bulk => Offered::Endless,
            Traffic::Transfer { bytes } => Offered::Bytes { total: bytes, is_end: true },
            Traffic::Messages { bytes, every } => {
                while self.next_message <= now {
                    if self.messages.is_empty() {
                        self.progress = self.next_message;
                    }
                    self.offered_bytes += bytes;
                    self.messages.push_back((self.offered_bytes, self.next_message));
                    self.application.messages += 1;
                    self.next_message += every.max(Duration::from_nanos(1));
                }
                Offered::Bytes { total: self.offered_bytes, is_end: false }
            }
        }
    }

    fn note(&mut self, now: Duration, received_bytes: u64, is_complete: bool) {
        let before_bytes = self.application.received.last().map_or(0, |(_, bytes)| *bytes);
        let waits = match self.traffic {
            Traffic::Bulk => true,
            Traffic::Transfer { .. } => !self.application.is_complete,
            Traffic::Messages { .. } => !self.messages.is_empty(),
        };
        if waits {
            self.application.longest_stall =
                self.application.longest_stall.max(now.saturating_sub(self.progress));
        }
        if received_bytes > before_bytes {
            self.application.received.push((now, received_bytes));
            while let Some((_, written)) = self.messages.front().filter(|(end, _)| *end <= received_bytes) {
                self.application.message_delays.push(now - *written);
                self.messages.pop_front();
            }
        }
        if received_bytes > before_bytes {
            self.progress = now;
        }
        if is_complete && !self.application.is_complete {
            self.application.is_complete = true;
            self.application.end = now;
        }
    }

    fn report(mut self, end: Duration, path_bytes_per_s: f64) -> FlowReport {
        let received_bytes = self.application.received.last().map_or(0, |(_, bytes)| *bytes);
        self.note(end, received_bytes, false);
        self.application.end = self.application.end.min(end);
        FlowReport::new(self.record, self.application, path_bytes_per_s)
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
