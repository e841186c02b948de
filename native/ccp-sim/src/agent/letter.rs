//! The agent's letter to a flow: what it is to apply at its next ACK.

use ccp_record::{Update, intf};
use ccp_rtcp_core as rtcp;

const REGISTERS: usize = intf::CCP_MAX_CONTROL as usize;

/// A letter that was not fetched yet is added to, not replaced.
#[derive(Debug)]
pub(super) struct Letter {
    pub program: Option<u32>,
    pub stamp: u16,
    pub cwnd_bytes: Option<u64>,
    pub rate_bytes_per_s: Option<u64>,
    /// To the only extension that there is.
    pub limit: Option<rtcp::Letter>,
    /// Bit i: `control[i]` is new.
    mask: u64,
    control: [u64; REGISTERS],
}

impl Default for Letter {
    fn default() -> Self {
        Self {
            program: None,
            stamp: 0,
            cwnd_bytes: None,
            rate_bytes_per_s: None,
            limit: None,
            mask: 0,
            control: [0; REGISTERS],
        }
    }
}

impl Letter {
    /// Adds an update.
    pub fn add(&mut self, update: &Update<'_>) {
        if update.program.is_some() {
            self.mask = 0; // registers for the program before are void, as in libccp
            (self.program, self.stamp) = (update.program, update.stamp);
        }
        self.cwnd_bytes = update.cwnd_bytes.or(self.cwnd_bytes);
        self.rate_bytes_per_s = update.rate_bytes_per_s.or(self.rate_bytes_per_s);
        for letter in update.letters.iter().filter(|letter| letter.extension == rtcp::EXTENSION) {
            self.limit = rtcp::Letter::from_bytes(letter.octets).or(self.limit);
        }
        for &(index, value) in update.controls {
            if let Some(register) = self.control.get_mut(index) {
                *register = value;
                self.mask |= 1 << index;
            }
        }
    }

    /// Control registers by index.
    pub fn controls(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        (0..REGISTERS).filter(|i| self.mask >> i & 1 == 1).map(|i| (i, self.control[i]))
    }
}
