//! Letters to the extension that keeps flows within rate limits.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::MmapRaw;

use crate::intf::{self, ccp_limit_mail};
use crate::pins::Pins;
use crate::shared::{abandon, claim, map};
use crate::{Caps, Result};

/// The extension's letters, by slot.
pub(crate) struct Limits {
    mail: MmapRaw,
    max_flows: u32,
}

impl Limits {
    /// Opens those of the extension that is loaded; fails with `load.not_loaded` where it is not.
    pub fn open(pins: &Pins, max_flows: u32) -> Result<Self> {
        let fd = pins.open_map("limit_mail")?;
        let mail = map(&fd, size_of::<ccp_limit_mail>() * max_flows as usize, "limit_mail")?;
        Ok(Limits { mail, max_flows })
    }

    fn of(&self, slot: u32) -> Option<*mut ccp_limit_mail> {
        // SAFETY: the index is below the number of mapped elements.
        (slot < self.max_flows)
            .then(|| unsafe { self.mail.as_mut_ptr().cast::<ccp_limit_mail>().add(slot as usize) })
    }

    /// Says how a flow is to be kept within its limit. The extension reads it when it is called for that flow.
    pub fn write(&self, flow_id: u64, caps: &Caps) {
        let Some(mail) = self.of(flow_id as u32) else { return };
        // SAFETY: the letter lies in the mapping; after the hand-over it is ours until it is given back.
        unsafe {
            let owner = AtomicU32::from_ptr(&raw mut (*mail).owner);
            claim(owner);
            (*mail).flow_id = flow_id;
            (*mail).caps = caps.kinds;
            ptr::write(&raw mut (*mail).options, caps.options);
            owner.store(intf::CCP_MAIL_FULL, Ordering::Release);
        }
    }

    /// Throws away what an agent left that died while writing.
    pub fn clear(&self) {
        for mail in (0..self.max_flows).filter_map(|slot| self.of(slot)) {
            // SAFETY: an aligned u32 in the mapping.
            abandon(unsafe { AtomicU32::from_ptr(&raw mut (*mail).owner) });
        }
    }
}

// SAFETY: the mapping is shared memory whose letters are guarded by their owner word, which also orders writers of this
// process among each other.
unsafe impl Send for Limits {}
// SAFETY: as above.
unsafe impl Sync for Limits {}
