//! The agent's update of a flow, applied at its next ACK.

use ccp_record::{Update, intf};

const REGISTERS: usize = intf::CCP_MAX_CONTROL as usize;

/// Updates are merged until they are fetched.
#[derive(Debug)]
pub(super) struct Pending {
    pub program: Option<u32>,
    pub stamp: u16,
    pub cwnd_bytes: Option<u64>,
    pub rate_bytes_per_s: Option<u64>,
    /// The latest message to each extension, by index.
    pub messages: Vec<(usize, Vec<u8>)>,
    /// Bit i: `control[i]` is new.
    mask: u64,
    control: [u64; REGISTERS],
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            program: None,
            stamp: 0,
            cwnd_bytes: None,
            rate_bytes_per_s: None,
            messages: Vec::new(),
            mask: 0,
            control: [0; REGISTERS],
        }
    }
}

impl Pending {
    pub fn add(&mut self, update: &Update<'_>) {
        if update.program.is_some() {
            self.mask = 0; // controls of the previous program are discarded, as in libccp
            (self.program, self.stamp) = (update.program, update.stamp);
        }
        self.cwnd_bytes = update.cwnd_bytes.or(self.cwnd_bytes);
        self.rate_bytes_per_s = update.rate_bytes_per_s.or(self.rate_bytes_per_s);
        for &(index, value) in update.controls {
            if let Some(register) = self.control.get_mut(index) {
                *register = value;
                self.mask |= 1 << index;
            }
        }
    }

    /// Adds a message to an extension, replacing an earlier one.
    pub fn add_message(&mut self, index: usize, raw: &[u8]) {
        self.messages.retain(|(earlier, _)| *earlier != index);
        self.messages.push((index, raw.to_vec()));
    }

    pub fn controls(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        (0..REGISTERS).filter(|i| self.mask >> i & 1 == 1).map(|i| (i, self.control[i]))
    }
}
