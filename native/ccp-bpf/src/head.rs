//! The head of a datapath's globals: what agents of any version read and write of a datapath, also to replace it.

use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use memmap2::MmapRaw;

use crate::Result;
use crate::intf::{self, CCP_NAME_LEN, ccp_globals};
use crate::pins::Pins;
use crate::shared::{map, now_us};

/// Tells the programs of this build from those of others.
pub(crate) const BUILD_HASH: u64 = parse(env!("CCP_BUILD_HASH"));
/// Tells what programs share with each other and with the agent from that of other builds.
pub(crate) const LAYOUT_HASH: u64 = parse(env!("CCP_LAYOUT_HASH"));

/// The first version with a head that stays as it is.
const FIRST_ABI: u32 = 6;
/// Of the globals all the head is in the first page, which every version has.
const BYTES: usize = 4096;
/// No socket has a higher `slot1`.
const ALL: u32 = u32::MAX;

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

/// What another build has in common with this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kin {
    /// It is this one.
    Same,
    /// Its programs are others, its maps fit.
    Layout,
    /// Its maps do not fit: another layout, or another size.
    None,
}

/// The mapped head of a datapath. It lives on while programs of the datapath do, pinned or not.
#[derive(Debug)]
pub(crate) struct Head(MmapRaw);

impl Head {
    /// Opens that of the datapath pinned in a directory; `load.not_loaded` where there is none.
    pub fn open(pins: &Pins) -> Result<Self> {
        let fd = pins.open_map("globals")?;
        Ok(Head(map(&fd, BYTES, "globals")?))
    }

    fn globals(&self) -> *mut ccp_globals {
        self.0.as_mut_ptr().cast()
    }

    /// Its version, and the hash of its programs.
    pub fn version(&self) -> (u32, u64) {
        let g = self.globals();
        // SAFETY: aligned words in the mapping, which is as large as the head.
        unsafe {
            (ptr::read_volatile(&raw const (*g).abi_version), ptr::read_volatile(&raw const (*g).build_hash))
        }
    }

    /// How many flows it has room for.
    pub fn max_flows(&self) -> u32 {
        // SAFETY: as above; this word is where it has always been.
        unsafe { ptr::read_volatile(&raw const (*self.globals()).max_flows) }
    }

    /// Whether its version has what else is here.
    pub fn is_known(&self) -> bool {
        self.version().0 >= FIRST_ABI
    }

    /// Whether its maps are laid out as ours.
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

    /// Tells the life sign as of a time.
    pub fn beat_at(&self, time_us: u64) {
        if self.is_known() {
            // SAFETY: an aligned u64 within the mapping, which programs only read.
            unsafe { AtomicU64::from_ptr(&raw mut (*self.globals()).heartbeat_us) }
                .store(time_us, Ordering::Release);
        }
    }

    /// Tells the life sign.
    pub fn heartbeat(&self) {
        self.beat_at(now_us());
    }

    /// Takes it back.
    pub fn silence(&self) {
        self.beat_at(0);
    }

    /// Process of the agent; 0 if it has ended for its successor.
    pub fn agent_pid(&self) -> u32 {
        if self.is_known() { self.agent().load(Ordering::Acquire) } else { 0 }
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

    /// Number of the copies of the programs in use.
    pub fn load(&self) -> u32 {
        self.load_word().load(Ordering::Acquire)
    }

    /// Which sockets of replaced programs leave them now: those whose `slot1` is at most this.
    pub fn let_leave(&self, slot1: u32) {
        self.word(offset_of!(ccp_globals, leaves)).store(slot1, Ordering::Release);
    }

    /// Other copies are in use from now on, in the same maps: all sockets go to them, and keep their slots.
    pub fn renew(&self, load: u32) {
        self.let_leave(ALL);
        // SAFETY: an aligned u64 in the mapping, which no program reads.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.globals()).build_hash) }
            .store(BUILD_HASH, Ordering::Release);
        self.load_word().store(load, Ordering::Release);
    }

    /// Another datapath takes the place of this one; sockets go there as they are let.
    pub fn replace(&self) {
        if self.is_known() {
            self.let_leave(0);
            self.load_word().store(0, Ordering::Release);
        }
    }

    /// Nobody has this datapath any more. All sockets go to a congestion control, or to their own name.
    pub fn retire(&self, goes_to: &str) {
        if !self.is_known() {
            return;
        }
        for (at, octet) in goes_to.bytes().take(CCP_NAME_LEN as usize - 1).enumerate() {
            // SAFETY: within the name, which programs read only after the number below has changed.
            unsafe {
                ptr::write_volatile((&raw mut (*self.globals()).goes_to).cast::<u8>().add(at), octet);
            }
        }
        self.let_leave(ALL);
        self.load_word().store(0, Ordering::Release);
        self.silence();
    }
}

// SAFETY: the mapping is shared memory whose words are accessed atomically, or before anybody else knows of them.
unsafe impl Send for Head {}
// SAFETY: as above.
unsafe impl Sync for Head {}
