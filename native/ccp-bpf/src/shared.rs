//! Shared memory: flows and globals of the kernel side, mapped into this process.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use memmap2::{MmapOptions, MmapRaw};

use crate::head::{BUILD_HASH, Head};
use crate::intf::{self, ccp_flow, ccp_flow_info, ccp_globals};
use crate::names;
use crate::pins::Pins;
use crate::{Error, Result};
pub(crate) use ccp_load::clock::now_us;
use ccp_record::Update;

/// The mapped memory of one datapath. Reading has no side effects.
pub struct Observer {
    pins: RwLock<Pins>,
    flows: MmapRaw,
    globals: MmapRaw,
    max_flows: u32,
}

pub(crate) fn map(fd: &OwnedFd, bytes: usize, what: &str) -> Result<MmapRaw> {
    MmapOptions::new().len(bytes).map_raw(fd).map_err(|e| {
        Error::new("load.map", "cannot map the datapath's memory")
            .at(what.to_string())
            .why(e)
            .fix("see ccp doctor")
    })
}

impl Observer {
    /// Opens the datapath pinned in `dir`. Errors: `load.not_loaded` if there is none, `load.version` if it
    /// belongs to a version of ccplane with another layout.
    pub fn open(dir: &Path) -> Result<Self> {
        let pins = Pins::new(dir);
        let head = Head::open(&pins)?;
        if !head.has_our_layout() {
            let (abi, build) = head.version();
            return Err(Error::new(
                "load.version",
                "the loaded datapath belongs to another version of ccplane",
            )
            .at(dir.display().to_string())
            .why(format!(
                "it has ABI {abi} (build {build:016x}), this is ABI {} (build {BUILD_HASH:016x})",
                intf::CCP_ABI_VERSION
            ))
            .fix("start an agent of this version (it replaces the datapath), or run ccp unload"));
        }
        let max_flows = head.max_flows();
        let globals = map(&pins.open_map("globals")?, size_of::<ccp_globals>(), "globals")?;
        let flows_fd = pins.open_map("flows")?;
        let flows = map(&flows_fd, size_of::<ccp_flow>() * max_flows as usize, "flows")?;
        Ok(Observer { pins: RwLock::new(pins), flows, globals, max_flows })
    }

    pub(crate) fn pins(&self) -> Pins {
        self.pins.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// After the maps were put into another place.
    pub(crate) fn moved_to(&self, pins: &Pins) {
        self.pins.write().unwrap_or_else(PoisonError::into_inner).clone_from(pins);
    }

    pub fn max_flows(&self) -> u32 {
        self.max_flows
    }

    pub(crate) fn globals(&self) -> *mut ccp_globals {
        self.globals.as_mut_ptr().cast()
    }

    pub(crate) fn slot(&self, slot: u32) -> Option<*mut ccp_flow> {
        // SAFETY: the index is below the number of mapped elements.
        (slot < self.max_flows)
            .then(|| unsafe { self.flows.as_mut_ptr().cast::<ccp_flow>().add(slot as usize) })
    }

    /// Announces the next poll of the ring, so that reports before it need not wake the agent.
    pub fn look_at(&self, time_us: u64) {
        // SAFETY: an aligned u64 in the mapping that the kernel side only reads.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.globals()).looks_at_us) }
            .store(time_us, Ordering::Release);
    }

    /// Reads from an active flow; `None` if the flow is gone, or ends meanwhile.
    pub(crate) fn read<T>(&self, flow_id: u64, read: impl Fn(*const ccp_flow) -> T) -> Option<T> {
        let flow = self.slot(flow_id as u32)?;
        if self.active_id(flow) != Some(flow_id) {
            return None;
        }
        let value = read(flow);
        (self.active_id(flow) == Some(flow_id)).then_some(value)
    }

    fn active_id(&self, flow: *const ccp_flow) -> Option<u64> {
        // SAFETY: aligned words in the mapping; volatile because the kernel side writes them.
        unsafe {
            let id = ptr::read_volatile(&raw const (*flow).flow_id);
            let state = ptr::read_volatile(&raw const (*flow).state);
            (state == intf::CCP_FLOW_ACTIVE && id != 0).then_some(id) // 0: it is just being removed
        }
    }

    pub fn flow_ids(&self) -> Vec<u64> {
        (0..self.max_flows).filter_map(|i| self.slot(i)).filter_map(|f| self.active_id(f)).collect()
    }

    /// Reclaimed slots that are not free yet.
    pub(crate) fn reaped_slots(&self) -> Vec<u32> {
        let is_reaped = |slot: &u32| {
            // SAFETY: an aligned word in the mapping.
            let state = self.slot(*slot).map(|f| unsafe { ptr::read_volatile(&raw const (*f).state) });
            state == Some(intf::CCP_FLOW_REAPED)
        };
        (0..self.max_flows).filter(is_reaped).collect()
    }

    /// Records that a flow is counted for a holder; false if the flow is gone.
    pub(crate) fn mark_held(&self, flow_id: u64, kind: u32) -> bool {
        let mark = |flow: *const ccp_flow| {
            // SAFETY: an aligned u32 in the mapping, which the kernel side reads when the flow ends.
            let held = unsafe { AtomicU32::from_ptr((&raw const (*flow).info.held).cast_mut()) };
            held.fetch_or(kind, Ordering::SeqCst);
        };
        self.slot(flow_id as u32)
            .filter(|flow| self.active_id(*flow) == Some(flow_id))
            .map(|f| mark(f))
            .is_some()
    }

    pub fn info(&self, flow_id: u64) -> Option<ccp_flow_info> {
        // SAFETY: plain data in the mapping.
        self.read(flow_id, |f| unsafe { ptr::read_volatile(&raw const (*f).info) })
    }

    /// A copy of a flow's state.
    pub fn flow(&self, flow_id: u64) -> Option<Box<ccp_flow>> {
        // SAFETY: plain data in the mapping.
        self.read(flow_id, |f| Box::new(unsafe { ptr::read_volatile(f) }))
    }

    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        // SAFETY: plain data in the mapping.
        ccp_record::counters(&unsafe { ptr::read_volatile(self.globals()) })
    }

    /// Memory that the kernel charges for the datapath's maps [bytes].
    pub fn memory_bytes(&self) -> Result<u64> {
        let pins = self.pins();
        pins.pinned_maps().iter().map(|path| charged(&pins.open(path)?)).sum()
    }

    pub fn names(&self) -> Result<Vec<Option<names::Name>>> {
        names::read(&self.pins())
    }

    /// Puts an update into the flow's mailbox, with bits of extensions for the flow. Returns false if the flow is gone.
    /// Needs no system call, and waits only for the nanoseconds in which the kernel side reads an update.
    pub(crate) fn write(&self, flow_id: u64, update: &Update<'_>, extensions: u32) -> bool {
        let Some(flow) = self.slot(flow_id as u32) else {
            return false;
        };
        if self.active_id(flow) != Some(flow_id) {
            return false;
        }
        // SAFETY: the mailbox is in the mapping; between claim and release it is exclusively ours.
        unsafe {
            let mail = &raw mut (*flow).mail;
            let owner = AtomicU32::from_ptr(&raw mut (*mail).owner);
            if claim(owner) == intf::CCP_MAIL_EMPTY || (*mail).flow_id != flow_id {
                (*mail).what = 0;
                (*mail).control_mask = 0;
                (*mail).extensions = 0;
                (*mail).flow_id = flow_id;
            }
            if update.program.is_some() {
                (*mail).control_mask = 0; // registers set for the old program are discarded, as in libccp
            }
            if let Some(program) = update.program {
                (*mail).program = program as u16;
                (*mail).stamp = update.stamp;
                (*mail).what |= intf::CCP_MAIL_PROGRAM;
            }
            if let Some(cwnd_bytes) = update.cwnd_bytes {
                (*mail).cwnd_bytes = cwnd_bytes;
                (*mail).what |= intf::CCP_MAIL_CWND;
            }
            if let Some(rate) = update.rate_bytes_per_s {
                (*mail).rate_bytes_per_s = rate;
                (*mail).what |= intf::CCP_MAIL_RATE;
            }
            if extensions != 0 {
                (*mail).extensions |= extensions;
                (*mail).what |= intf::CCP_MAIL_EXTENSIONS;
            }
            for (index, value) in update.controls {
                (*mail).control[*index] = *value;
                (*mail).control_mask |= 1 << index;
            }
            owner.store(intf::CCP_MAIL_FULL, Ordering::Release);
        }
        true
    }

    /// Records that the agent has handled a flow's report of this time. Costs one store, without a lock: the flow's reports
    /// are handled in order.
    pub fn answered(&self, flow_id: u64, report_us: u64) {
        if let Some(flow) = self.slot(flow_id as u32)
            && self.active_id(flow) == Some(flow_id)
        {
            // SAFETY: an aligned u64 in the mapping that the kernel side only reads.
            unsafe { AtomicU64::from_ptr(&raw mut (*flow).mail.answered_us) }
                .store(report_us, Ordering::Release);
        }
    }

    /// Discards half-written updates of an agent that died.
    pub(crate) fn clear_mailboxes(&self) {
        for flow in (0..self.max_flows).filter_map(|i| self.slot(i)) {
            // SAFETY: an aligned u32 in the mapping.
            abandon(unsafe { AtomicU32::from_ptr(&raw mut (*flow).mail.owner) });
        }
    }
}

/// Discards an update that will not be finished, or that a previous agent wrote.
pub(crate) fn abandon(owner: &AtomicU32) {
    for abandoned in [intf::CCP_MAIL_WRITING, intf::CCP_MAIL_FULL] {
        let _ = owner.compare_exchange(abandoned, intf::CCP_MAIL_EMPTY, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// The field `memlock` of a map's fdinfo.
fn charged(map: &OwnedFd) -> Result<u64> {
    let path = format!("/proc/self/fdinfo/{}", map.as_raw_fd());
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let field = text.lines().find_map(|l| l.strip_prefix("memlock:"));
    field.and_then(|value| value.trim().parse().ok()).ok_or_else(|| {
        Error::new("load.map", "cannot determine a map's memory").at(path).fix("mount /proc; see ccp doctor")
    })
}

/// Attempts to claim an update before waiting for its reader, which needs some hundred nanoseconds unless it
/// was preempted.
const TRIES: u32 = 100;
/// Length of that wait. With real-time priority, yielding would not let a reader on the same processor run.
const READER_WAIT: std::time::Duration = std::time::Duration::from_micros(20);

/// Claims an update for writing; returns whether it was empty or still full.
pub(crate) fn claim(owner: &AtomicU32) -> u32 {
    let mut tries = 0;
    loop {
        for free in [intf::CCP_MAIL_EMPTY, intf::CCP_MAIL_FULL] {
            let taken =
                owner.compare_exchange(free, intf::CCP_MAIL_WRITING, Ordering::AcqRel, Ordering::Relaxed);
            if taken.is_ok() {
                return free;
            }
        }
        if tries == TRIES {
            std::thread::sleep(READER_WAIT);
        } else {
            tries += 1;
            std::hint::spin_loop();
        }
    }
}

// SAFETY: the mappings are shared memory whose words are accessed atomically or volatile; updates are guarded
// by their owner word, which also orders writers of this process.
unsafe impl Send for Observer {}
// SAFETY: as above.
unsafe impl Sync for Observer {}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu_us() -> u64 {
        let mut spent = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is valid for the call.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut spent) };
        spent.tv_sec as u64 * 1_000_000 + spent.tv_nsec as u64 / 1000
    }

    #[test]
    fn a_update_is_waited_for_without_keeping_the_processor() {
        let owner = AtomicU32::new(intf::CCP_MAIL_WRITING);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(200));
                owner.store(intf::CCP_MAIL_FULL, Ordering::Release);
            });
            let before_us = cpu_us();
            assert_eq!(claim(&owner), intf::CCP_MAIL_FULL);
            let spent_us = cpu_us() - before_us;
            assert!(spent_us < 100_000, "{spent_us} us of 200,000");
        });
        assert_eq!(owner.load(Ordering::Acquire), intf::CCP_MAIL_WRITING);
    }
}
