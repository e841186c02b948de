//! The agent's handle on the loaded datapath.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use ccp_lang::Program;

use crate::beats::{BOUNDS_US, Beats};
use crate::bell::Bell;
use crate::extension::{self, Extension};
use crate::fold;
use crate::frame::Frames;
use crate::handles::{Handles, Inherited};
use crate::head::Head;
use crate::holders::Holders;
use crate::intf::{self, CCP_MAX_PROGRAMS as MAX_PROGRAMS, ccp_program};
use crate::kernel::Kernel;
use crate::map::put;
use crate::names::{self, Name};
use crate::object::{self, Registration, Sizes};
use crate::options::Options;
use crate::pace::{PERIOD_US, Pace};
use crate::pins::Pins;
use crate::reap::Reaper;
use crate::ring::{Ring, Woken};
use crate::shared::{Observer, now_us};
use crate::upgrade::{self, Beating, Moving, Taken};
use crate::{Error, Records, Result, Update};

/// Heartbeats sent, while waiting for reports, per timeout after which flows give up the agent.
const HEARTBEATS_PER_TIMEOUT: u64 = 4;

/// Longest wait for records while sockets move from a replaced datapath [ms].
const MOVING_MS: u64 = 2;

/// Time to finish a record [us].
const UNFINISHED_US: u64 = 20;

/// The loaded datapath. One agent owns it at a time.
pub struct Datapath {
    shared: Observer,
    kernel: Kernel,
    sizes: Sizes,
    adopted: bool,
    heartbeat_slice_ms: u64,
    handles: Mutex<Handles>,
    inherited: Mutex<Inherited>,
    ring: Mutex<(Ring, Pace)>,
    bell: Bell,
    beats: Beats,
    programs: OwnedFd,
    frames: Frames,
    /// Tables of fold programs, one per frame.
    folds: [OwnedFd; 2],
    head: Arc<Head>,
    /// The replaced datapath, until all its sockets may have moved.
    moving: Mutex<Option<Moving>>,
    /// From taking over to the first poll.
    opening: Mutex<Option<Beating>>,
    extensions: Mutex<Vec<Extension>>,
    reaper: Mutex<Reaper>,
    closed: AtomicBool,
    /// The lock of the pin directory, until the datapath is released.
    held: Mutex<Option<OwnedFd>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Datapath {
    /// Adopts the datapath pinned in `pin_dir`, or loads a new one and registers `ccp`. Other programs
    /// replace the existing ones. If the maps have another layout or size, sockets move to new ones as the
    /// agent polls. A running agent continues until everything that can fail is loaded.
    pub fn open(options: &Options) -> Result<Self> {
        options.check()?;
        let kernel = Kernel::read()?;
        let pins = Pins::new(&options.pin_dir);
        let sizes = Sizes { max_flows: options.max_flows, ring_bytes: options.ring_bytes };
        let slice_ms = options.heartbeat_timeout_ms / HEARTBEATS_PER_TIMEOUT;
        let slice = Duration::from_millis(slice_ms);
        let Taken { held, adopted, live, moving, frames } = upgrade::take(&kernel, &pins, options, slice)?;
        let shared = Observer::open(pins.dir())?;
        let head = Arc::new(Head::open(&pins)?);
        // SAFETY: aligned words in the mapping that only agents write.
        unsafe {
            let g = shared.globals();
            ptr::write_volatile(&raw mut (*g).heartbeat_timeout_us, options.heartbeat_timeout_ms * 1000);
            ptr::write_volatile(&raw mut (*g).max_cwnd_bytes, options.max_cwnd_bytes);
        }
        head.agent().store(std::process::id(), Ordering::Release);
        let extensions = extension::loaded(&pins, options.max_flows)?;
        let mut holders = Holders::new(&pins, sizes);
        holders.set(&shared, options.quotas)?;
        let free_slots = pins.open_map("free_slots")?;
        let reaper = Reaper::new(&shared, options.reap_after_ms * 1000, free_slots, holders, adopted);
        let is_live = live.is_some();
        let opening = is_live.then(|| {
            let heads = [Some(&head), moving.as_ref().map(|m| &m.head)].into_iter().flatten();
            Beating::begin(heads.cloned().collect(), slice)
        });
        let has_moved = moving.is_some();
        let datapath = Datapath {
            frames,
            kernel,
            sizes,
            adopted,
            heartbeat_slice_ms: slice_ms,
            handles: Mutex::new(Handles::new()),
            inherited: Mutex::default(),
            ring: Mutex::new((Ring::new(pins.open_map("records")?)?, Pace::default())),
            bell: Bell::new()?,
            beats: Beats::default(),
            programs: pins.open_map("programs")?,
            folds: [pins.open_map("folds_on_ack")?, pins.open_map("folds_on_timeout")?],
            shared,
            head,
            moving: Mutex::new(moving),
            opening: Mutex::new(opening),
            extensions: Mutex::new(extensions),
            reaper: Mutex::new(reaper),
            closed: AtomicBool::new(false),
            held: Mutex::new(Some(held)),
        };
        if adopted && !has_moved {
            // Programs, updates and reports of the previous agent are discarded, except programs that live
            // flows run until they get new ones. Other flows are in the fallback; new and closed flows are
            // found in the flow table.
            let in_use = if is_live { datapath.programs_in_flows() } else { HashMap::new() };
            let (stay, go): (Vec<_>, Vec<_>) = (1..MAX_PROGRAMS).partition(|h| in_use.contains_key(h));
            go.into_iter().for_each(|handle| datapath.clear_folds(handle));
            *lock(&datapath.inherited) = Inherited::new(stay);
            let flow_ids = datapath.shared.flow_ids();
            if !is_live {
                datapath.shared.clear_mailboxes();
                let to_fallback = Update { program: Some(0), ..Update::default() };
                flow_ids.iter().for_each(|flow_id| _ = datapath.shared.write(*flow_id, &to_fallback, 0));
            }
            while !lock(&datapath.ring).0.drain().is_empty() {}
            lock(&datapath.extensions).iter().for_each(|one| one.begin_again(&flow_ids));
        }
        if !datapath.registered()?.iter().any(|n| n.cc_name == "ccp") {
            datapath.register("ccp", false)?;
        }
        datapath.heartbeat();
        Ok(datapath)
    }

    /// Whether flows and registrations of an earlier agent were taken over.
    pub fn adopted(&self) -> bool {
        self.adopted
    }

    pub fn shared(&self) -> &Observer {
        &self.shared
    }

    /// Registers a congestion-control name for new sockets. A registered name stays as it is.
    pub fn register(&self, cc_name: &str, needs_ecn: bool) -> Result<u32> {
        names::check(cc_name)?;
        let pins = self.shared.pins();
        let table = names::read(pins)?;
        let known = table.iter().position(|n| n.as_ref().is_some_and(|n| n.cc_name == cc_name));
        if let Some(Name { registered: true, needs_ecn: as_is, .. }) = known.and_then(|i| table[i].as_ref()) {
            if *as_is == needs_ecn {
                return Ok(known.unwrap_or_default() as u32);
            }
            self.unregister(cc_name)?;
        }
        let free = known.or_else(|| table.iter().position(Option::is_none));
        let Some(cc_id) = free.map(|i| i as u32) else {
            return Err(names::full(table.len()));
        };
        let registration = Registration { cc_name, cc_id, needs_ecn, load: self.head.load() };
        object::load(&self.kernel, pins, self.sizes, &registration)?.register(&self.kernel, pins, cc_name)?;
        names::write(pins, cc_id, &Name { cc_name: cc_name.to_owned(), needs_ecn, registered: true })?;
        Ok(cc_id)
    }

    /// Removes a name for new sockets; existing sockets keep it.
    pub fn unregister(&self, cc_name: &str) -> Result<()> {
        let pins = self.shared.pins();
        let table = names::read(pins)?;
        let found = table.iter().enumerate().find_map(|(i, n)| {
            n.as_ref().filter(|n| n.cc_name == cc_name && n.registered).map(|n| (i, n.clone()))
        });
        let Some((cc_id, mut name)) = found else {
            return Err(Error::new("register.unknown", format!("`{cc_name}` is not registered"))
                .fix("see ccp doctor for the registered names"));
        };
        pins.unregister(cc_name).map_err(|e| {
            Error::new("register.busy", format!("cannot unregister `{cc_name}`"))
                .at(pins.registration(cc_name).display().to_string())
                .why(e)
                .fix("run as root")
        })?;
        name.registered = false;
        names::write(pins, cc_id as u32, &name)
    }

    pub fn registered(&self) -> Result<Vec<Name>> {
        Ok(names::read(self.shared.pins())?.into_iter().flatten().filter(|n| n.registered).collect())
    }

    /// Loads an extension unless it is loaded. On an error nothing has changed.
    pub fn extend(&self, name: &str, object: &[u8]) -> Result<()> {
        let pins = self.shared.pins();
        // Verification takes a while, during which the agent is still alive.
        let loaded = self.beating(|| extension::load(&self.kernel, pins, self.sizes, name, object))?;
        let mut extensions = lock(&self.extensions);
        extensions.retain(|one| one.name != name);
        extensions.push(loaded);
        Ok(())
    }

    /// Names of the extensions by index; empty for free indices.
    pub fn extensions(&self) -> Vec<String> {
        let mut names = vec![String::new(); intf::CCP_MAX_EXTENSIONS as usize];
        for one in lock(&self.extensions).iter() {
            names[one.index as usize].clone_from(&one.name);
        }
        names
    }

    /// Compiles a fold program to eBPF, verifies it, and makes it available to flows. Returns its handle. On
    /// an error nothing has changed: flows keep their programs.
    pub fn install(&self, program: &Program) -> Result<u32> {
        let held = self.programs_in_flows();
        let handle = lock(&self.handles).take(|h| held.contains_key(&h)).ok_or_else(|| {
            Error::new("program.table_full", "no more fold programs can be installed")
                .why(format!("{} programs are installed or still used by a flow", MAX_PROGRAMS - 1))
                .fix("uninstall unused programs")
        })?;
        let installed = self.fill(handle, program);
        if installed.is_err() {
            self.clear_folds(handle);
            lock(&self.handles).release(handle);
        }
        installed.map(|()| handle)
    }

    fn fill(&self, handle: u32, program: &Program) -> Result<()> {
        let mut entry = ccp_program {
            uid: program.uid,
            n_report: program.reports.len() as u32,
            n_control: program.controls.len() as u32,
            prims_used: program.prims_used,
            ..ccp_program::default()
        };
        for (i, r) in program.reports.iter().enumerate() {
            entry.report_init[i] = r.init;
            entry.report_volatile |= u64::from(r.volatile) << i;
        }
        for (i, r) in program.controls.iter().enumerate() {
            entry.control_init[i] = r.init;
            entry.control_volatile |= u64::from(r.volatile) << i;
        }
        put(&self.programs, handle, &entry)?;
        for (folds, frame) in self.folds.iter().zip(self.frames.all()) {
            let fd = fold::load(program, &self.kernel, frame)?;
            put(folds, handle, &fd.as_raw_fd())?; // the prog array now owns the program
        }
        Ok(())
    }

    fn programs_in_flows(&self) -> HashMap<u32, ()> {
        let mut held = HashMap::new();
        for flow_id in self.shared.flow_ids() {
            // SAFETY: plain words in the mapping.
            let pair = self.shared.read(flow_id, |f| unsafe {
                (
                    ptr::read_volatile(&raw const (*f).program),
                    u32::from(ptr::read_volatile(&raw const (*f).mail.program)),
                )
            });
            if let Some((current, coming)) = pair {
                held.insert(current, ());
                held.insert(coming, ());
            }
        }
        held
    }

    /// Removes a program. A flow that still runs it goes to the fallback.
    pub fn uninstall(&self, handle: u32) -> Result<()> {
        if !lock(&self.handles).release(handle) {
            return Err(Error::new("program.unknown", format!("no program has the handle {handle}"))
                .fix("use a handle returned by install()"));
        }
        self.clear_folds(handle);
        Ok(())
    }

    /// Removes programs of the previous agent that no flow runs any more.
    fn clear_inherited(&self, now_us: u64) {
        let mut inherited = lock(&self.inherited);
        if inherited.is_due(now_us) {
            let held = self.programs_in_flows();
            let handles = lock(&self.handles); // no handle is reused meanwhile
            let left = inherited.left(now_us, |h| held.contains_key(&h), &handles);
            left.into_iter().for_each(|handle| self.clear_folds(handle));
        }
    }

    /// Reports the ends of reclaimed flows like those of closed sockets.
    fn reap(&self, now_us: u64, records: &mut Records) {
        for close in lock(&self.reaper).look(&self.shared, now_us) {
            // SAFETY: plain data without padding, see the tests of `ccp_record`.
            let bytes =
                unsafe { std::slice::from_raw_parts((&raw const close).cast::<u8>(), size_of_val(&close)) };
            records.push(bytes);
        }
    }

    fn clear_folds(&self, handle: u32) {
        for folds in &self.folds {
            // SAFETY: the key is a u32. The entry may be missing.
            unsafe { libbpf_sys::bpf_map_delete_elem(folds.as_raw_fd(), (&raw const handle).cast()) };
        }
    }

    /// Writes an update to a flow. Returns false if the flow is gone.
    pub fn update(&self, flow_id: u64, update: &Update<'_>) -> Result<bool> {
        if let Some(program) = update.program.filter(|p| *p != 0)
            && !lock(&self.handles).is_used(program)
        {
            return Err(Error::new("program.unknown", format!("no program has the handle {program}"))
                .fix("install the program first"));
        }
        let mut extensions = 0;
        for message in update.messages {
            let loaded = lock(&self.extensions);
            let to = loaded.iter().find(|one| one.name == message.extension);
            extensions |= match to {
                Some(one) => one.write(flow_id, message.raw)?,
                None if message.raw.is_empty() => 0, // there is nothing to detach
                None => return Err(extension::not_loaded(message.extension)),
            };
        }
        Ok(self.shared.write(flow_id, update, extensions))
    }

    /// Makes a waiting `poll` in another thread return immediately, or else the next `poll`.
    pub fn wake(&self) {
        self.bell.ring();
    }

    /// Waits for records, up to `timeout_ms` or until `wake`, and sends heartbeats meanwhile.
    pub fn poll(&self, timeout_ms: u64) -> Records {
        let (ring, pace) = &mut *lock(&self.ring);
        *lock(&self.opening) = None;
        let (mut waited, mut woken) = (false, Woken::default());
        let mut woken_us = now_us();
        let end_us = woken_us + timeout_ms * 1000;
        loop {
            self.heartbeat();
            let longest_ms = if self.let_some_leave() { MOVING_MS } else { self.heartbeat_slice_ms };
            let mut records = ring.drain();
            let taken_us = now_us();
            self.clear_inherited(taken_us);
            self.reap(taken_us, &mut records);
            (records.woken_us, records.taken_us) = (woken_us, taken_us);
            pace.looked(taken_us, waited, records.len());
            if woken.rang || !records.is_empty() || taken_us >= end_us {
                return records;
            }
            if woken.ready {
                // A record is being written. Its writer may be waiting for this processor: yield it.
                std::thread::sleep(Duration::from_micros(UNFINISHED_US));
            }
            if pace.periodic() {
                self.shared.look_at(taken_us + PERIOD_US);
                std::thread::sleep(Duration::from_micros(PERIOD_US));
                woken = Woken { rang: self.bell.received(), ready: false };
            } else {
                let left_ms = (end_us - taken_us).div_ceil(1000);
                let wait_ms = pace.wait_ms(longest_ms);
                woken = ring.wait(&self.bell, left_ms.min(wait_ms) as i32);
            }
            waited = true;
            woken_us = now_us();
        }
    }

    /// Sends heartbeats during work that may take longer than the timeout.
    fn beating<T>(&self, work: impl FnOnce() -> T) -> T {
        let slice = Duration::from_millis(self.heartbeat_slice_ms);
        let (done, ended) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while ended.recv_timeout(slice) == Err(mpsc::RecvTimeoutError::Timeout) {
                    self.heartbeat();
                }
            });
            let worked = work();
            drop(done);
            worked
        })
    }

    /// Lets some more sockets of the replaced datapath move here. Returns whether there are more.
    fn let_some_leave(&self) -> bool {
        let mut moving = lock(&self.moving);
        let done = moving.as_mut().is_some_and(Moving::step);
        if done {
            *moving = None;
        }
        moving.is_some()
    }

    /// Sends a heartbeat, unless the datapath was closed.
    pub fn heartbeat(&self) {
        if !self.closed.load(Ordering::Acquire) {
            let now_us = now_us();
            self.head.beat_at(now_us);
            self.beats.beat(now_us);
            if let Some(moving) = lock(&self.moving).as_ref() {
                moving.head.beat_at(now_us);
            }
        }
    }

    /// Silences between two heartbeats: their number by upper bound [us], and their total length [us].
    pub fn silences(&self) -> (Vec<(u64, u64)>, u64) {
        let (counts, silent_us) = self.beats.counted();
        (BOUNDS_US.into_iter().zip(counts).collect(), silent_us)
    }

    /// Process id of the agent that waits for this one to end; 0 if there is none.
    pub fn successor_pid(&self) -> u32 {
        self.head.successor().load(Ordering::Acquire)
    }

    /// Whether another agent waits for this one to end.
    pub fn has_successor(&self) -> bool {
        self.successor_pid() != 0
    }

    /// Stops controlling flows. Registrations and flows stay for the next agent: a waiting one sends the
    /// heartbeats from now on, and gets the datapath after `release`; without one, flows go to the fallback.
    pub fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        *lock(&self.opening) = None;
        *lock(&self.moving) = None;
        if self.has_successor() {
            self.head.heartbeat();
            self.head.agent().store(0, Ordering::Release);
        } else {
            self.head.silence();
            self.release();
        }
    }

    /// Releases the datapath to the next agent.
    pub fn release(&self) {
        self.close();
        self.frames.release();
        *lock(&self.held) = None;
    }
}

impl Drop for Datapath {
    fn drop(&mut self) {
        self.release();
    }
}
