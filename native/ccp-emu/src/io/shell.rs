//! The loop: packets in, time passes, packets out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use rustix::event::epoll;
use rustix::io::Errno;
use serde_json::{Value, json};

use super::capture::Captures;
use super::clock::{now_ns, real_offset_ns, timespec};
use super::control::{Control, Request};
use super::lateness::Lateness;
use super::pace::Pace;
use super::priority::Urgent;
use super::reports::Reports;
use super::tun::{Buffer, Read, Tun};
use crate::engine::{Delivery, Network};
use crate::int::{Telemetry, Windows};
use crate::ip::{Group, IpPacket, segments};
use crate::record::{Samples, link_stats};
use crate::spec::Spec;
use crate::{Error, Result};

/// Maximum time for reading one device before packets are written again.
const READ_NS: u64 = 100_000;
/// Interval between checks whether the process has been asked to end.
const LOOK_NS: u64 = 1_000_000_000;

const CONTROL: u64 = u64::MAX;
const MAX_EVENTS: usize = 64;

#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    pub tuns: &'a [BorrowedFd<'a>],
    pub control: BorrowedFd<'a>,
    pub summaries: Option<BorrowedFd<'a>>,
}

/// Runs a network until it is stopped, or the peer of the control channel has closed. `windows` returns the
/// state of senders' TCP, for sources of telemetry. `interrupted` is called periodically, and after every
/// signal; it returns whether to end. Errors: `emulator.bad_spec`, `emulator.bad_tun`,
/// `emulator.cannot_write`, or `emulator.kernel_refused`.
pub fn emulate(
    spec: Spec,
    files: Files<'_>,
    windows: Option<Windows>,
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<()> {
    let mut shell = Shell::new(spec, files, windows)?;
    // After the start of the threads that write files, which are not urgent.
    let urgent = Urgent::ask();
    shell.pace.must_rest = urgent.is_real_time();
    shell.control.send(&json!({ "ready": true }));
    shell.run(interrupted)?;
    drop(urgent);
    shell.close()
}

struct Port<'a> {
    tun: Tun<'a>,
    node: usize,
    group: Option<Group>,
    due_ns: Vec<u64>,
}

struct Shell<'a> {
    network: Network<IpPacket>,
    node_of: HashMap<IpAddr, usize>,
    ports: Vec<Port<'a>>,
    port_of: Vec<Option<usize>>,
    control: Control<'a>,
    epoll: std::os::fd::OwnedFd,
    listens_to_send: bool,
    buffer: Buffer,
    deliveries: Vec<Delivery<IpPacket>>,
    samples: Option<Samples>,
    captures: Captures,
    reports: Option<Reports>,
    lateness: Lateness,
    pace: Pace,
    unreadable_frames: u64,
    unwritable_pkts: u64,
    stopped: bool,
}

impl<'a> Shell<'a> {
    fn new(spec: Spec, files: Files<'a>, windows: Option<Windows>) -> Result<Self> {
        let Files { tuns, control, summaries } = files;
        let now_ns = now_ns();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(refused)?;
        let mut ports = Vec::new();
        let mut port_of = vec![None; spec.nodes.len()];
        let mut node_of = HashMap::new();
        for (node, described) in spec.nodes.iter().enumerate() {
            node_of.extend(described.addresses.iter().map(|address| (*address, node)));
            let Some(tun) = described.tun else { continue };
            let fd = *tuns.get(tun).ok_or_else(|| {
                crate::spec::bad(format!("there is no TUN device {tun}"))
                    .at(format!("node {}", described.name))
            })?;
            let tun = Tun::new(fd).map_err(|e| e.at(format!("node {}", described.name)))?;
            epoll::add(&epoll, fd, epoll::EventData::new_u64(ports.len() as u64), epoll::EventFlags::IN)
                .map_err(refused)?;
            port_of[node] = Some(ports.len());
            ports.push(Port { tun, node, group: None, due_ns: Vec::new() });
        }
        epoll::add(&epoll, control, epoll::EventData::new_u64(CONTROL), epoll::EventFlags::IN)
            .map_err(refused)?;
        let mut network = Network::new(spec.clone(), now_ns);
        let reports = spec.int.as_ref().map(|int| {
            let mut telemetry = Telemetry::new(&spec, int, windows)?;
            telemetry.set_real_offset_ns(real_offset_ns());
            network.set_telemetry(telemetry);
            Reports::new(int, summaries)
        });
        let reports = reports.transpose()?;
        let names = network.link_names().map(str::to_owned).collect();
        let samples = spec
            .samples_path
            .as_deref()
            .map(|path| Samples::create(path, names, spec.sample_interval_us, now_ns))
            .transpose()?;
        let mut captures = Captures::default();
        for (name, path) in spec.pcap.iter().flatten() {
            captures.add(&mut network, name, path)?;
        }
        Ok(Shell {
            network,
            node_of,
            ports,
            port_of,
            control: Control::new(control),
            epoll,
            listens_to_send: false,
            buffer: Buffer::default(),
            deliveries: Vec::new(),
            samples,
            captures,
            reports,
            lateness: Lateness::new(),
            pace: Pace::new(now_ns),
            unreadable_frames: 0,
            unwritable_pkts: 0,
            stopped: false,
        })
    }

    fn run(&mut self, interrupted: &mut dyn FnMut() -> bool) -> Result<()> {
        let mut events = Vec::with_capacity(MAX_EVENTS);
        let mut look_ns = now_ns().saturating_add(LOOK_NS);
        loop {
            let until_ns = self.next_ns(look_ns);
            let start_ns = now_ns();
            let wait_ns = self.pace.sleep_ns(start_ns, until_ns);
            events.clear();
            let waited = epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&timespec(wait_ns)),
            );
            match waited {
                Ok(_) => (),
                Err(Errno::INTR) => look_ns = 0,
                Err(e) => return Err(refused(e)),
            }
            if wait_ns > 0 {
                self.pace.woke(start_ns, now_ns(), events.is_empty().then_some(start_ns + wait_ns));
            }
            for event in &events {
                match event.data.u64() {
                    CONTROL => self.answer(),
                    port => self.read(port as usize)?,
                }
            }
            let now = now_ns();
            self.network.advance(now, &mut self.deliveries);
            self.write();
            if let Some(samples) = &mut self.samples {
                samples.take(now, &mut self.network);
            }
            if let (Some(reports), Some(telemetry)) = (&mut self.reports, self.network.telemetry_mut()) {
                reports.take(now, telemetry);
            }
            if self.stopped || self.control.has_ended() {
                return Ok(());
            }
            if now >= look_ns {
                if interrupted() {
                    return Ok(());
                }
                if let Some(telemetry) = self.network.telemetry_mut() {
                    telemetry.set_real_offset_ns(real_offset_ns());
                }
                look_ns = now.saturating_add(LOOK_NS);
            }
            self.pace.rest(now);
        }
    }

    /// Time of the next work, without input.
    fn next_ns(&mut self, look_ns: u64) -> u64 {
        let delivery_ns = self.network.next_delivery_ns().unwrap_or(u64::MAX);
        let sample_ns = self.samples.as_ref().map_or(u64::MAX, Samples::due_ns);
        let report_ns = self.network.telemetry_mut().and_then(|t| t.due_ns()).unwrap_or(u64::MAX);
        delivery_ns.min(sample_ns).min(report_ns).min(look_ns)
    }

    /// Reads packets of hosts, for a limited time: the rest is read in the next round.
    fn read(&mut self, port: usize) -> Result<()> {
        let start_ns = now_ns();
        loop {
            let (header, frame) = match self.ports[port].tun.read(&mut self.buffer) {
                Read::Frame(header, frame) => (header, frame),
                Read::Empty => return Ok(()),
                Read::Gone => return epoll::delete(&self.epoll, self.ports[port].tun.fd()).map_err(refused),
            };
            let now = now_ns();
            self.network.advance(now, &mut self.deliveries);
            let from = self.ports[port].node;
            let (network, node_of) = (&mut self.network, &self.node_of);
            let read = segments(header, frame, |packet| match node_of.get(&packet.destination()) {
                Some(to) => network.arrive(now, from, *to, packet),
                None => network.count_unroutable(),
            });
            self.unreadable_frames += u64::from(!read);
            if now.saturating_sub(start_ns) > READ_NS {
                return Ok(());
            }
        }
    }

    /// Writes arrived packets; packets that leave together and can be merged are written as one.
    fn write(&mut self) {
        if !self.captures.is_empty() {
            self.captures.take(self.network.take_tapped());
        }
        for Delivery { node, at_ns, packet } in self.deliveries.drain(..) {
            let Some(port) = self.port_of[node] else { continue };
            let port = &mut self.ports[port];
            let refused = match &mut port.group {
                Some(group) => group.add(packet),
                None => Some(packet),
            };
            if let Some(packet) = refused {
                self.unwritable_pkts += port.flush(&mut self.lateness);
                port.group = Some(Group::new(packet));
            }
            port.due_ns.push(at_ns);
        }
        for port in &mut self.ports {
            self.unwritable_pkts += port.flush(&mut self.lateness);
        }
    }

    fn answer(&mut self) {
        for request in self.control.requests() {
            let id = request.id();
            let answer = match self.act(request) {
                Ok(done) => json!({ "id": id, "ok": done }),
                Err(e) => json!({ "id": id, "error": e.to_string() }),
            };
            self.control.send(&answer);
        }
        self.control.flush();
        if self.control.has_unsent() != self.listens_to_send {
            self.listens_to_send = self.control.has_unsent();
            let also = if self.listens_to_send { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
            let data = epoll::EventData::new_u64(CONTROL);
            // It was added, so this cannot fail.
            let _ = epoll::modify(&self.epoll, self.control.fd(), data, epoll::EventFlags::IN | also);
        }
    }

    fn act(&mut self, request: Request) -> Result<Value> {
        match request {
            Request::SetLink { link, direction, .. } => {
                self.network.set_link(now_ns(), &link, *direction, &mut self.deliveries)?;
            }
            Request::SetRoutes { routes, .. } => self.network.set_routes(routes)?,
            Request::Stats { .. } => return Ok(self.stats()),
            Request::Stop { .. } => self.stopped = true,
        }
        Ok(Value::Bool(true))
    }

    fn stats(&mut self) -> Value {
        let mut stats = json!({
            "links": link_stats(&self.network),
            "lateness_us": self.lateness.summary(),
            "unroutable_pkts": self.network.unroutable_pkts(),
            "expired_pkts": self.network.expired_pkts(),
            "unreadable_frames": self.unreadable_frames,
            "unwritable_pkts": self.unwritable_pkts,
        });
        if let (Some(reports), Some(telemetry)) = (&self.reports, self.network.telemetry_mut()) {
            stats["int"] = json!(telemetry.counters());
            stats["int_summaries_dropped"] = reports.dropped().into();
        }
        stats
    }

    fn close(mut self) -> Result<()> {
        let samples = self.samples.take().map(|samples| samples.close(now_ns(), &mut self.network));
        self.captures.close()?;
        if let (Some(reports), Some(telemetry)) = (self.reports, self.network.telemetry_mut()) {
            reports.close(telemetry)?;
        }
        samples.unwrap_or(Ok(()))
    }
}

impl Port<'_> {
    /// Writes a group; returns the number of packets that the device did not accept.
    fn flush(&mut self, lateness: &mut Lateness) -> u64 {
        let Some(group) = self.group.take() else { return 0 };
        let n = group.packets().len() as u64;
        let written = group.write(|parts| self.tun.write(parts));
        let now = now_ns();
        for due_ns in self.due_ns.drain(..) {
            lateness.record(due_ns, now);
        }
        if written { 0 } else { n }
    }
}

fn refused(e: Errno) -> Error {
    Error::new("emulator.kernel_refused", "the kernel rejected a system call of the emulator").why(e)
}
