//! The thread that passes packets to the sink, and updates the programs' clock.

use std::cell::RefCell;
use std::fs::File;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ccp_int::{Came, FLOW_WINDOW_NS, FlowKey, Lines, Protocol, Sink, Summary};
use ccp_load::clock::now_ns as mono_ns;
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, Object, RingBufferBuilder};
use rustix::time::{ClockId, clock_gettime};

use crate::node::{ONLY, Reported, handle, parse, refused};
use crate::records::Records;
use crate::shared::{node_counters, node_flow, node_record, node_sunk};
use crate::spec::{NodeSpec, Role};
use crate::{Error, Result};

/// Polling interval of the ring.
const LOOK: Duration = Duration::from_millis(10);
/// Polling interval under load: the programs do not wake the reader then, as that is the most expensive step
/// for a packet.
const BUSY_LOOK: Duration = Duration::from_millis(2);
/// Records per poll that count as load.
const BUSY_RECORDS: u64 = 8;
/// Minimum interval between removals of ended flows and clock comparisons.
const ROUND_NS: u64 = 50_000_000;
const BATCH_FLOWS: u32 = 256;
/// Readings of both clocks, of which the quickest counts: the thread may lose its processor between two clocks.
const READINGS: usize = 4;

#[derive(Debug, Default)]
struct Counted {
    summaries_dropped: AtomicU64,
    unreadable: AtomicU64,
    records_lost: AtomicU64,
}

#[derive(Debug)]
pub struct Reader {
    stop: Arc<AtomicBool>,
    counted: Arc<Counted>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Reader {
    /// Starts the thread, after setting the programs' clock. Errors: `int.refused`, or those of
    /// [`Sink::new`].
    pub fn start(
        object: &Object,
        spec: &NodeSpec,
        reported: Arc<Reported>,
        summaries: OwnedFd,
        records: Option<Records>,
    ) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let counted = Arc::new(Counted::default());
        reported.change(|now| now.wall_minus_mono_ns = wall_minus_mono_ns())?;
        let mut outlet = Outlet {
            sink: Sink::new(spec.sink.clone())?,
            summaries: Lines::new(File::from(summaries)),
            records,
            counted: Arc::clone(&counted),
            taken: Vec::new(),
            sunk: None,
            counters: handle(object, "counters")?,
            plain_pkts: 0,
            plain_ns: 0,
            records_read: 0,
        };
        let (ring, stopping) = (handle(object, "records")?, Arc::clone(&stop));
        let mut active = Active { flows: handle(object, "active")?, due_ns: 0 };
        outlet.sunk = Some(handle(object, "sunk")?).filter(|_| spec.roles.contains(&Role::Sink));
        let read = move || {
            read(&ring, &mut outlet, &reported, |mono_ns| round(&mut active, &reported, mono_ns), &stopping)?;
            outlet.records.map_or(Ok(()), Records::close)
        };
        let thread = std::thread::Builder::new().name("inband-sink".to_owned()).spawn(read);
        let thread = thread.map_err(|e| Error::new("int.refused", "cannot start the sink").why(e))?;
        Ok(Reader { stop, counted, thread: Some(thread) })
    }

    /// Summaries dropped because the reader was too slow.
    pub fn summaries_dropped(&self) -> u64 {
        self.counted.summaries_dropped.load(Ordering::Relaxed)
    }

    pub fn unreadable(&self) -> u64 {
        self.counted.unreadable.load(Ordering::Relaxed)
    }

    pub fn records_lost(&self) -> u64 {
        self.counted.records_lost.load(Ordering::Relaxed)
    }

    /// Ends the thread after writing everything. Errors: `int.refused`, or `int.cannot_write` for records.
    pub fn close(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        ended
            .unwrap_or(Ok(Ok(())))
            .unwrap_or_else(|_| Err(Error::new("int.refused", "the sink's thread crashed")))
    }
}

fn read(
    ring: &MapHandle,
    outlet: &mut Outlet,
    reported: &Reported,
    mut round: impl FnMut(u64) -> Result<u64>,
    stop: &AtomicBool,
) -> Result<()> {
    let mut wall_minus_mono_ns = round(mono_ns())?;
    let mut round_ns = mono_ns() + ROUND_NS;
    let cell = RefCell::new((outlet, &mut wall_minus_mono_ns));
    let mut builder = RingBufferBuilder::new();
    let on_record = |bytes: &[u8]| {
        let (outlet, wall_minus_mono_ns) = &mut *cell.borrow_mut();
        outlet.record(bytes, **wall_minus_mono_ns);
        0
    };
    builder.add(ring, on_record).map_err(|e| refused(&e))?;
    let ring = builder.build().map_err(|e| refused(&e))?;
    let mut is_busy = false;
    loop {
        let stopping = stop.load(Ordering::Relaxed);
        if is_busy {
            std::thread::sleep(BUSY_LOOK);
        } else {
            match ring.poll(LOOK) {
                Err(e) if e.kind() != ErrorKind::Interrupted => return Err(refused(&e)),
                _ => {} // any thread may get a signal
            }
        }
        ring.consume().map_err(|e| refused(&e))?;
        let (outlet, wall_minus_mono_ns) = &mut *cell.borrow_mut();
        let much_came = std::mem::take(&mut outlet.records_read) >= BUSY_RECORDS;
        if much_came != std::mem::replace(&mut is_busy, much_came) {
            // Packets before this takes effect wait until the next poll.
            reported.change(|now| now.reader_looks = is_busy.into())?;
        }
        let now_ns = mono_ns();
        if stopping || now_ns >= round_ns {
            outlet.plain(now_ns)?;
        }
        outlet.write(if stopping { u64::MAX } else { now_ns });
        if stopping {
            return Ok(());
        }
        if now_ns >= round_ns {
            **wall_minus_mono_ns = round(now_ns)?;
            round_ns = now_ns + ROUND_NS;
        }
    }
}

/// Updates the programs' clock and removes ended flows; returns the clock offset.
fn round(active: &mut Active, reported: &Reported, mono_ns: u64) -> Result<u64> {
    let gone = active.take_out(mono_ns)?;
    let offset_ns = wall_minus_mono_ns();
    reported.change(|now| {
        now.wall_minus_mono_ns = offset_ns;
        now.flows_gone += gone;
    })?;
    Ok(offset_ns)
}

/// Flows, with the time of their last packet.
struct Active {
    flows: MapHandle,
    /// Earliest time at which one can have ended. Reading all places for flows is slow and evicts caches.
    due_ns: u64,
}

impl Active {
    fn take_out(&mut self, mono_ns: u64) -> Result<u64> {
        if mono_ns < self.due_ns {
            return Ok(0);
        }
        let mut oldest_ns = mono_ns;
        let mut gone = Vec::new();
        let each =
            self.flows.lookup_batch(BATCH_FLOWS, MapFlags::ANY, MapFlags::ANY).map_err(|e| refused(&e))?;
        for (flow, seen_ns) in each {
            let seen_ns = seen_ns.as_slice().try_into().map_or(mono_ns, u64::from_ne_bytes);
            if mono_ns.saturating_sub(seen_ns) >= FLOW_WINDOW_NS {
                gone.push(flow);
            } else {
                oldest_ns = oldest_ns.min(seen_ns);
            }
        }
        self.due_ns = oldest_ns + FLOW_WINDOW_NS;
        Ok(gone.iter().filter(|flow| self.flows.delete(flow).is_ok()).count() as u64)
    }
}

struct Outlet {
    sink: Sink,
    summaries: Lines<File>,
    records: Option<Records>,
    counted: Arc<Counted>,
    taken: Vec<Summary>,
    /// Packets without telemetry, by flow; `None`: not a sink.
    sunk: Option<MapHandle>,
    counters: MapHandle,
    /// Their total at the last check.
    plain_pkts: u64,
    /// Start of the unreported period.
    plain_ns: u64,
    /// Records since the last check.
    records_read: u64,
}

impl Outlet {
    fn record(&mut self, bytes: &[u8], wall_minus_mono_ns: u64) {
        self.records_read += 1;
        let Some(record) = parse::<node_record>(bytes) else { return };
        let Some(flow) = flow_of(&record.flow) else { return };
        let headers =
            bytes.get(size_of::<node_record>()..).and_then(|rest| rest.get(..record.headers_bytes as usize));
        let came = Came {
            flow: &flow,
            len_bytes: record.len_bytes,
            pkts: record.pkts,
            plain_pkts: Some(record.plain_pkts),
            hop_limit: u8::try_from(record.hop_limit).ok(),
            tcp_sequence: (flow.protocol == Protocol::Tcp).then_some(record.tcp_sequence),
            extension: headers.map(|headers| (headers, record.first as u8)),
        };
        self.sink.came(record.mono_ns, record.mono_ns + wall_minus_mono_ns, &came);
    }

    /// Reports packets without telemetry after the last packet that had some.
    fn plain(&mut self, mono_ns: u64) -> Result<()> {
        let Some(sunk) = &self.sunk else { return Ok(()) };
        let each = self.counters.lookup_percpu(&ONLY, MapFlags::ANY).map_err(|e| refused(&e))?;
        let each = each.unwrap_or_default();
        let plain_pkts: u64 =
            each.iter().filter_map(|bytes| Some(parse::<node_counters>(bytes)?.plain)).sum();
        // Reading all places for flows is slow and evicts caches.
        if plain_pkts == self.plain_pkts {
            return Ok(());
        }
        let flows = sunk.lookup_batch(BATCH_FLOWS, MapFlags::ANY, MapFlags::ANY).map_err(|e| refused(&e))?;
        for (flow, sunk) in flows {
            let (Some(flow), Some(sunk)) = (parse::<node_flow>(&flow), parse::<node_sunk>(&sunk)) else {
                continue;
            };
            let Some(flow) = flow_of(&flow).filter(|_| sunk.plain_ns >= self.plain_ns) else { continue };
            self.sink.plain_so_far(sunk.plain_ns, &flow, sunk.plain_pkts);
        }
        // Packets counted meanwhile are checked again.
        self.plain_ns = mono_ns;
        self.plain_pkts = plain_pkts;
        Ok(())
    }

    fn write(&mut self, mono_ns: u64) {
        self.sink.take(mono_ns, &mut self.taken);
        self.taken.drain(..).for_each(|summary| self.summaries.write(&summary));
        self.summaries.flush();
        self.counted.summaries_dropped.store(self.summaries.dropped(), Ordering::Relaxed);
        self.counted.unreadable.store(self.sink.malformed_pkts(), Ordering::Relaxed);
        if let Some(records) = &mut self.records {
            records.append(&self.sink.take_records());
            self.counted.records_lost.store(records.lost(), Ordering::Relaxed);
        }
    }
}

fn flow_of(flow: &node_flow) -> Option<FlowKey> {
    let address = |raw: [u8; 16]| IpAddr::V6(Ipv6Addr::from(raw));
    let protocol = u8::try_from(flow.protocol).ok()?;
    FlowKey::of(address(flow.saddr), address(flow.daddr), flow.sport, flow.dport, protocol)
}

fn wall_minus_mono_ns() -> u64 {
    let wall_ns = || {
        let wall = clock_gettime(ClockId::Realtime);
        wall.tv_sec as u64 * 1_000_000_000 + wall.tv_nsec as u64
    };
    let read = || {
        let (before, wall, after) = (mono_ns(), wall_ns(), mono_ns());
        let took_ns = after - before;
        (took_ns, wall.wrapping_sub(before + took_ns / 2))
    };
    (0..READINGS).map(|_| read()).min().map_or(0, |(_, offset_ns)| offset_ns)
}
