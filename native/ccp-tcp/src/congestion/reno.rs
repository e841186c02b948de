//! Reno: RFC 5681, as in Linux' `tcp_cong.c`.

use super::growth::{Credit, slow_start};
use super::{Congestion, MIN_CWND_PKTS};
use crate::{CaState, Sock};

/// Halves the window at a loss, otherwise adds one segment per round trip.
#[derive(Clone, Debug, Default)]
pub struct Reno {
    credit: Credit,
}

impl Congestion for Reno {
    /// RFC 5681, equation 4, with the window for the flight size, as in Linux.
    fn ssthresh(&mut self, sock: &mut Sock) -> u32 {
        (sock.snd_cwnd >> 1).max(MIN_CWND_PKTS)
    }

    /// RFC 5681, section 3.1; acknowledged segments are counted (RFC 3465 without its limit), as in Linux.
    fn cong_avoid(&mut self, sock: &mut Sock, acked: u32) {
        if !sock.cwnd_limited() {
            return;
        }
        let left = if sock.in_slow_start() { slow_start(sock, acked) } else { acked };
        if left > 0 {
            let per = sock.snd_cwnd;
            self.credit.grow(sock, per, left);
        }
    }

    fn set_state(&mut self, sock: &mut Sock, new: CaState) {
        self.credit.on_state(sock.ca_state, new);
    }
}

#[cfg(test)]
#[path = "reno_tests.rs"]
mod tests;
