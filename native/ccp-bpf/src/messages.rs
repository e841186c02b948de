//! Messages to an extension: one per flow slot, in memory shared with its programs.

use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::MmapRaw;

use crate::Result;
use crate::intf::{self, ccp_extension_mail};
use crate::map::value_bytes;
use crate::pins::Pins;
use crate::shared::{abandon, claim, map};

const HEAD: usize = size_of::<ccp_extension_mail>();

/// Distance between two messages, as the kernel aligns the elements of an array.
fn stride(raw: usize) -> usize {
    (HEAD + raw).next_multiple_of(8)
}

/// Messages of one extension, by slot.
pub(crate) struct Messages {
    mail: MmapRaw,
    max_flows: u32,
    raw: usize,
}

impl Messages {
    /// Opens the messages of a loaded extension.
    pub fn open(pins: &Pins, extension: &str, name: &str, max_flows: u32) -> Result<Self> {
        let fd = pins.open(&pins.extension_map(extension, name))?;
        let raw = value_bytes(&fd)?.saturating_sub(HEAD);
        let mail = map(&fd, stride(raw) * max_flows as usize, name)?;
        Ok(Messages { mail, max_flows, raw })
    }

    /// Length of a message [bytes].
    pub fn size_bytes(&self) -> usize {
        self.raw
    }

    fn of(&self, slot: u32) -> Option<*mut ccp_extension_mail> {
        let at = slot as usize * stride(self.raw);
        // SAFETY: the index is below the number of mapped elements.
        (slot < self.max_flows).then(|| unsafe { self.mail.as_mut_ptr().add(at).cast() })
    }

    /// Writes a message, which has the fixed length or is empty. The extension reads it at its next call for the flow.
    pub fn write(&self, flow_id: u64, raw: &[u8]) {
        let Some(mail) = self.of(flow_id as u32) else { return };
        // SAFETY: the message is in the mapping, after its head; between claim and release it is exclusively ours.
        unsafe {
            let owner = AtomicU32::from_ptr(&raw mut (*mail).owner);
            claim(owner);
            (*mail).flow_id = flow_id;
            (*mail).n_bytes = raw.len() as u32;
            raw.as_ptr().copy_to(mail.cast::<u8>().add(HEAD), raw.len().min(self.raw));
            owner.store(intf::CCP_MAIL_FULL, Ordering::Release);
        }
    }

    /// Discards half-written messages of an agent that died.
    pub fn clear(&self) {
        for mail in (0..self.max_flows).filter_map(|slot| self.of(slot)) {
            // SAFETY: an aligned u32 in the mapping.
            abandon(unsafe { AtomicU32::from_ptr(&raw mut (*mail).owner) });
        }
    }
}

// SAFETY: the mapping is shared memory whose messages are guarded by their owner word, which also orders
// writers of this process.
unsafe impl Send for Messages {}
// SAFETY: as above.
unsafe impl Sync for Messages {}
