//! The head of a datapath's globals, which agents of any version read and write, also to replace the datapath.

use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use memmap2::MmapRaw;

use crate::Result;
use crate::intf::{self, CCP_NAME_LEN, ccp_globals};
use crate::pins::Pins;
use crate::shared::{map, now_us};

/// Identifies the programs of this build.
pub(crate) const BUILD_HASH: u64 = parse(env!("CCP_BUILD_HASH"));
/// Identifies the layout shared by the programs and the agent in this build.
pub(crate) const LAYOUT_HASH: u64 = parse(env!("CCP_LAYOUT_HASH"));

/// The first version with a stable head.
const FIRST_ABI: u32 = 6;
/// The head is in the first page of the globals, which every version has.
const BYTES: usize = 4096;
/// An upper bound of `slot1`.
const ALL: u32 = u32::MAX;

/// Process ids are smaller than the flags of the words `agent_pid` and `successor`.
const PID: u32 = (1 << 22) - 1;
/// In `agent_pid`: the agent waits for its successor's word, and resumes if the successor ends. See `handover.rs`.
pub(crate) const RESUMES: u32 = 1 << 30;
/// In `agent_pid`: the agent changes nothing in the datapath but its flows.
pub(crate) const FROZEN: u32 = 1 << 29;
/// In `agent_pid`: the successor, whose process id it is, serves the flows.
pub(crate) const SERVES: u32 = 1 << 28;
/// In `agent_pid`: the agent has stopped polling, and the successor may take the datapath.
pub(crate) const PAUSED: u32 = 1 << 31;
/// In `successor`: it prepares; the agent keeps its flows.
pub(crate) const PREPARES: u32 = 1 << 30;
/// In `successor`: it has prepared everything.
pub(crate) const READY: u32 = 1 << 31;

const _: () = assert!(offset_of!(ccp_globals, goes_to) + CCP_NAME_LEN as usize <= BYTES);
const _: () = assert!(offset_of!(ccp_globals, goes_to) == 64 && offset_of!(ccp_globals, load) == 48);

const fn parse(text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut value = 0u64;
    let mut i = 0;
    while i < bytes.len() {
        value = value.wrapping_mul(10).wrapping_add((bytes[i] - b'0') as u64);
        i += 1;
    }
    value
}

/// What another build shares with this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kin {
    Same,
    /// Other programs, the same map layout.
    Layout,
    /// The maps do not fit: another layout, or another size.
    None,
}

/// The mapped head of a datapath. It exists while programs of the datapath do, pinned or not.
#[derive(Debug)]
pub(crate) struct Head(MmapRaw);

impl Head {
    /// Opens the head of the datapath pinned in a directory; `load.not_loaded` if there is none.
    pub fn open(pins: &Pins) -> Result<Self> {
        let fd = pins.open_map("globals")?;
        Ok(Head(map(&fd, BYTES, "globals")?))
    }

    fn globals(&self) -> *mut ccp_globals {
        self.0.as_mut_ptr().cast()
    }

    pub fn version(&self) -> (u32, u64) {
        let g = self.globals();
        // SAFETY: aligned words in the mapping, which is as large as the head.
        unsafe {
            (ptr::read_volatile(&raw const (*g).abi_version), ptr::read_volatile(&raw const (*g).build_hash))
        }
    }

    pub fn max_flows(&self) -> u32 {
        // SAFETY: as above; the place of this word has never changed.
        unsafe { ptr::read_volatile(&raw const (*self.globals()).max_flows) }
    }

    /// Whether its version has the other members used here.
    pub fn is_known(&self) -> bool {
        self.version().0 >= FIRST_ABI
    }

    /// Whether its maps have the layout of this build.
    pub fn has_our_layout(&self) -> bool {
        // SAFETY: as above.
        let layout = unsafe { ptr::read_volatile(&raw const (*self.globals()).layout_hash) };
        self.version().0 == intf::CCP_ABI_VERSION && layout == LAYOUT_HASH
    }

    pub fn kin(&self, max_flows: u32) -> Kin {
        if !self.has_our_layout() || self.max_flows() != max_flows {
            Kin::None
        } else if self.version().1 == BUILD_HASH {
            Kin::Same
        } else {
            Kin::Layout
        }
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: an aligned u32 within the mapping, which programs only read.
        unsafe { AtomicU32::from_ptr(self.0.as_mut_ptr().add(offset).cast()) }
    }

    /// Sends a heartbeat with a given time.
    pub fn beat_at(&self, time_us: u64) {
        if self.is_known() {
            // SAFETY: an aligned u64 within the mapping, which programs only read.
            unsafe { AtomicU64::from_ptr(&raw mut (*self.globals()).heartbeat_us) }
                .store(time_us, Ordering::Release);
        }
    }

    /// Sets the time after which a flow whose report is not answered gets the fallback; only for this layout.
    pub fn set_report_timeout_us(&self, timeout_us: u64) {
        // SAFETY: an aligned u64 within the mapping, which programs only read.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.globals()).report_timeout_us) }
            .store(timeout_us, Ordering::Release);
    }

    /// Lets flows wait for answers during a hand-over, as long as there are heartbeats.
    pub fn wait_for_answers(&self) {
        self.set_report_timeout_us(i64::MAX as u64);
    }

    pub fn heartbeat(&self) {
        self.beat_at(now_us());
    }

    /// Withdraws the heartbeat.
    pub fn silence(&self) {
        self.beat_at(0);
    }

    /// Process id of the agent; 0 if it has ended for its successor.
    pub fn agent_pid(&self) -> u32 {
        if self.is_known() { self.agent().load(Ordering::Acquire) & PID } else { 0 }
    }

    /// Process id of the agent that wants to take over; 0 if there is none.
    pub fn successor_pid(&self) -> u32 {
        self.successor().load(Ordering::Acquire) & PID
    }

    pub fn agent(&self) -> &AtomicU32 {
        self.word(offset_of!(ccp_globals, agent_pid))
    }

    pub fn successor(&self) -> &AtomicU32 {
        self.word(offset_of!(ccp_globals, successor))
    }

    fn load_word(&self) -> &AtomicU32 {
        self.word(offset_of!(ccp_globals, load))
    }

    /// Number of the program copies in use.
    pub fn load(&self) -> u32 {
        self.load_word().load(Ordering::Acquire)
    }

    /// Sets which sockets of replaced programs move now: those whose `slot1` is at most this.
    pub fn let_leave(&self, slot1: u32) {
        self.word(offset_of!(ccp_globals, leaves)).store(slot1, Ordering::Release);
    }

    /// Activates other copies on the same maps: all sockets move to them and keep their slots.
    pub fn renew(&self, load: u32) {
        self.let_leave(ALL);
        // SAFETY: an aligned u64 in the mapping, which no program reads.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.globals()).build_hash) }
            .store(BUILD_HASH, Ordering::Release);
        self.load_word().store(load, Ordering::Release);
    }

    /// Replaces this datapath by another one; sockets move as they are let.
    pub fn replace(&self) {
        if self.is_known() {
            self.let_leave(0);
            self.load_word().store(0, Ordering::Release);
        }
    }

    /// Ends this datapath. All sockets get a congestion control, or the one registered under their own name.
    pub fn retire(&self, goes_to: &str) {
        if !self.is_known() {
            return;
        }
        for (at, byte) in goes_to.bytes().take(CCP_NAME_LEN as usize - 1).enumerate() {
            // SAFETY: within the name, which programs read only after the number below has changed.
            unsafe {
                ptr::write_volatile((&raw mut (*self.globals()).goes_to).cast::<u8>().add(at), byte);
            }
        }
        self.let_leave(ALL);
        self.load_word().store(0, Ordering::Release);
        self.silence();
    }
}

// SAFETY: the mapping is shared memory whose words are accessed atomically, or before other users know them.
unsafe impl Send for Head {}
// SAFETY: as above.
unsafe impl Sync for Head {}
