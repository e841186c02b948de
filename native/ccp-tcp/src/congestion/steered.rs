//! A connection whose window and pacing rate are set only from outside.

use super::{Congestion, MIN_CWND_PKTS, RateSample};
use crate::{CaState, Sock};

/// Window and pacing rate are those written into the `Sock`. Losses do not change them; a retransmission
/// timeout resets the window to one segment, until one is set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Steered;

impl Congestion for Steered {
    fn ssthresh(&mut self, sock: &mut Sock) -> u32 {
        sock.snd_cwnd.max(MIN_CWND_PKTS)
    }

    fn has_cong_control(&self) -> bool {
        true
    }

    fn cong_control(&mut self, _sock: &mut Sock, _sample: &RateSample, _ece: bool) {}

    /// Only a timeout reduced anything.
    fn undo_cwnd(&mut self, sock: &mut Sock) -> u32 {
        if sock.ca_state == CaState::Loss { sock.snd_cwnd.max(sock.prior_cwnd) } else { sock.snd_cwnd }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_sock::{acked, busy};
    use super::*;

    #[test]
    fn acks_and_losses_leave_the_window() {
        let mut sock = busy(30);
        sock.pacing_rate_bytes_per_s = 7;
        sock.snd_ssthresh = Steered.ssthresh(&mut sock);
        assert_eq!(sock.snd_ssthresh, 30);
        acked(&mut Steered, &mut sock, 1000, 10, 1000);
        assert_eq!((sock.snd_cwnd, sock.pacing_rate_bytes_per_s), (30, 7));
    }

    #[test]
    fn a_timeout_for_nothing_is_undone() {
        let mut sock = busy(1);
        sock.prior_cwnd = 30;
        assert_eq!(Steered.undo_cwnd(&mut sock), 1);
        sock.ca_state = CaState::Loss;
        assert_eq!(Steered.undo_cwnd(&mut sock), 30);
    }
}
