//! Window and rate of the algorithm, and of the socket: `sock.h` of `ccp-bpf`.

use ccp_record::intf;
use ccp_tcp::{Congestion, Cubic, Sock, pacing_rate_bytes_per_s};

pub const NO_CWND_CAP: u64 = u64::MAX;
const MIN_CWND_PKTS: u64 = intf::CCP_MIN_CWND_PKTS as u64;

#[derive(Clone, Debug)]
pub struct Window {
    /// The algorithm's window, including the remainder of whole segments.
    pub cwnd_bytes: u64,
    /// `snd_cwnd` in bytes.
    pub floor_bytes: u64,
    /// 0: not paced by the algorithm.
    pub rate_bytes_per_s: u64,
    pub cap_bytes: u64,
    /// Cap of the rate; 0 for none.
    pub pace_cap_bytes_per_s: u64,
    /// `snd_cwnd` as last set here.
    applied_pkts: u32,
    is_paced_by_us: bool,
}

fn bytes_of(sock: &Sock) -> u64 {
    u64::from(sock.snd_cwnd) * u64::from(sock.mss_bytes)
}

/// The rate that limits bursts, as the kernel computes it for congestion controls that set none.
pub(super) fn update_pacing_rate(sock: &mut Sock) {
    sock.pacing_rate_bytes_per_s = pacing_rate_bytes_per_s(sock, Cubic::default().pacing_ratios_percent());
}

impl Window {
    pub fn of(sock: &Sock) -> Self {
        Self {
            cwnd_bytes: bytes_of(sock),
            floor_bytes: bytes_of(sock),
            rate_bytes_per_s: 0,
            cap_bytes: NO_CWND_CAP,
            pace_cap_bytes_per_s: 0,
            applied_pkts: sock.snd_cwnd,
            is_paced_by_us: false,
        }
    }

    /// Converts bytes to segments: at least 2, at most the socket's clamp, the cap and `max_bytes`.
    pub fn apply(&mut self, sock: &mut Sock, cwnd_bytes: u64, max_bytes: u64) {
        let mss = u64::from(sock.mss_bytes);
        let clamp_pkts = u64::from(sock.snd_cwnd_clamp);
        let mut bytes = cwnd_bytes.min(max_bytes).min(self.cap_bytes).max(MIN_CWND_PKTS * mss);
        if bytes / mss > clamp_pkts {
            bytes = clamp_pkts * mss;
        }
        sock.snd_cwnd = u32::try_from(bytes / mss).unwrap_or(sock.snd_cwnd_clamp);
        self.applied_pkts = sock.snd_cwnd;
        self.cwnd_bytes = bytes;
        self.floor_bytes = bytes_of(sock);
    }

    /// The algorithm's window is kept, unless the socket's was changed otherwise (a timeout, an undo).
    pub fn refresh(&mut self, sock: &Sock) {
        let floor_bytes = bytes_of(sock);
        if sock.snd_cwnd != self.applied_pkts || floor_bytes != self.floor_bytes {
            self.applied_pkts = sock.snd_cwnd;
            self.cwnd_bytes = floor_bytes;
            self.floor_bytes = floor_bytes;
        }
    }

    pub fn set_rate(&mut self, sock: &mut Sock, rate_bytes_per_s: u64) {
        // CCP programs write +infinity for "not paced".
        self.rate_bytes_per_s = if rate_bytes_per_s == u64::MAX { 0 } else { rate_bytes_per_s };
        self.apply_rate(sock);
    }

    /// Paces at the algorithm's rate or the cap, otherwise as the kernel.
    pub fn apply_rate(&mut self, sock: &mut Sock) {
        let (rate, maximum) = (self.rate_bytes_per_s, self.pace_cap_bytes_per_s);
        let rate = if maximum > 0 && (rate == 0 || rate > maximum) { maximum } else { rate };
        if rate > 0 {
            sock.pacing_rate_bytes_per_s = rate;
            self.is_paced_by_us |= !sock.is_paced;
            sock.is_paced = true;
        } else {
            self.stop_pacing(sock);
        }
    }

    pub fn stop_pacing(&mut self, sock: &mut Sock) {
        sock.is_paced &= !self.is_paced_by_us;
        self.is_paced_by_us = false;
        update_pacing_rate(sock);
    }

    pub fn forget_caps(&mut self) {
        self.cap_bytes = NO_CWND_CAP;
        self.pace_cap_bytes_per_s = 0;
    }
}
