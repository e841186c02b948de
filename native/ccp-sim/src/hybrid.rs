//! CUBIC that can be told to leave the window to somebody outside, and to have it back: Hyvar's fold program.

use ccp_tcp::{
    CaState, Congestion, Cubic, INFINITE_SSTHRESH, MIN_CWND_PKTS, RateSample, Sock, pacing_rate_bytes_per_s,
};

/// What the last loss led to, until it is repaired.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Answer {
    /// Nothing is being repaired.
    #[default]
    None,
    /// CUBIC reduces the window.
    Reduced,
    /// The window stays.
    Spared,
}

/// CUBIC; while `alone` is set it neither grows nor answers losses. Slow start after a timeout, and what a timeout does
/// to the window, are as ever.
#[derive(Clone, Debug, Default)]
pub struct Hybrid {
    /// CUBIC's state.
    pub cubic: Cubic,
    /// Somebody outside has the window.
    pub alone: bool,
    answer: Answer,
}

impl Hybrid {
    /// Whether a window set from outside would be in the way of a repair.
    #[must_use]
    pub fn repairs(&self) -> bool {
        self.answer == Answer::Reduced
    }
}

impl Congestion for Hybrid {
    fn init(&mut self, sock: &mut Sock) {
        self.cubic.init(sock);
    }

    fn ssthresh(&mut self, sock: &mut Sock) -> u32 {
        if self.alone {
            self.answer = Answer::Spared;
            return sock.snd_cwnd.max(MIN_CWND_PKTS);
        }
        self.answer = Answer::Reduced;
        self.cubic.ssthresh(sock)
    }

    fn cong_avoid(&mut self, sock: &mut Sock, acked: u32) {
        self.cubic.cong_avoid(sock, acked);
    }

    fn has_cong_control(&self) -> bool {
        match self.answer {
            Answer::None => self.alone,
            Answer::Reduced => false,
            Answer::Spared => true,
        }
    }

    fn cong_control(&mut self, sock: &mut Sock, sample: &RateSample, _ece: bool) {
        if sock.in_slow_start() && sock.snd_ssthresh < INFINITE_SSTHRESH && sock.cwnd_limited() {
            sock.snd_cwnd = (sock.snd_cwnd + sample.acked_sacked).min(sock.snd_ssthresh);
        }
        sock.pacing_rate_bytes_per_s = pacing_rate_bytes_per_s(sock, self.pacing_ratios_percent());
    }

    fn pkts_acked(&mut self, sock: &mut Sock, acked: u32, rtt_us: i64) {
        self.cubic.pkts_acked(sock, acked, rtt_us);
    }

    fn set_state(&mut self, sock: &mut Sock, new: CaState) {
        if matches!(new, CaState::Open | CaState::Disorder) {
            self.answer = Answer::None;
        }
        self.cubic.set_state(sock, new);
    }

    fn tx_start(&mut self, sock: &mut Sock) {
        self.cubic.tx_start(sock);
    }

    /// Only a timeout took anything away from a window that was spared.
    fn undo_cwnd(&mut self, sock: &mut Sock) -> u32 {
        if self.answer == Answer::Spared && sock.ca_state != CaState::Loss {
            return sock.snd_cwnd;
        }
        sock.snd_cwnd.max(sock.prior_cwnd)
    }
}
