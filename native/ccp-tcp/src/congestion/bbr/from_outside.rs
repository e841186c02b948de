//! What somebody outside may change of BBR's state: `bbr.h` of `ccp-rtcp`.

use super::{Bbr, Mode};
use crate::Sock;

impl Bbr {
    /// Looks for the bandwidth from the start, once it was found.
    pub fn start_up(&mut self) {
        if self.mode == Mode::ProbeRtt || !self.full_bw_reached {
            return;
        }
        self.mode = Mode::Startup;
        self.full_bw_reached = false;
        self.full_bw_rounds = 0;
        self.full_bw = 0;
    }

    /// What it has found is what there is.
    pub fn drain(&mut self) {
        if self.mode == Mode::Startup {
            self.mode = Mode::Drain;
            self.full_bw_reached = true;
        }
    }

    /// Is in the phase of its cycle that sends a quarter more than comes through; told so at each ACK, it stays there.
    pub fn probe(&mut self, sock: &Sock) {
        if self.mode == Mode::ProbeBw {
            self.cycle_index = 0;
            self.cycle_us = sock.delivered_mstamp_us;
        }
    }

    /// Its own search for a policer begins anew: it never gets to a verdict if this happens at each ACK.
    pub fn forget_policer(&mut self) {
        self.long_term.forget();
    }
}
