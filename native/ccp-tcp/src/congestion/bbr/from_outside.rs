//! Changes of BBR's state from outside: `bbr.h` of `ccp-rtcp`.

use super::{Bbr, Mode};
use crate::Sock;

impl Bbr {
    /// Returns to STARTUP, if the bandwidth was found before.
    pub fn start_up(&mut self) {
        if self.mode == Mode::ProbeRtt || !self.full_bw_reached {
            return;
        }
        self.mode = Mode::Startup;
        self.full_bw_reached = false;
        self.full_bw_rounds = 0;
        self.full_bw = 0;
    }

    /// Ends STARTUP: the bandwidth found is final.
    pub fn drain(&mut self) {
        if self.mode == Mode::Startup {
            self.mode = Mode::Drain;
            self.full_bw_reached = true;
        }
    }

    /// Enters the phase of the cycle that sends a quarter more than is delivered; called at each ACK, it stays there.
    pub fn probe(&mut self, sock: &Sock) {
        if self.mode == Mode::ProbeBw {
            self.cycle_index = 0;
            self.cycle_us = sock.delivered_mstamp_us;
        }
    }

    /// Resets BBR's own detection of a policer; called at each ACK, it never gets a verdict.
    pub fn forget_policer(&mut self) {
        self.long_term.forget();
    }
}
