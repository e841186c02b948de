//! BBR's window: a gain times the bandwidth-delay product, plus what hosts need.

use super::{BW_UNIT, Bbr, Mode, UNIT};
use crate::congestion::Congestion;
use crate::{CaState, RateSample, Sock};

/// Enough for delayed ACKs of every second segment.
pub(super) const MIN_PKTS: u32 = 4;
const INIT_PKTS: u32 = 10;
/// Maximum burst of segmentation offload.
const GSO_MAX_BYTES: u64 = 65_215;
/// Bursts are about 1 ms (`sk_pacing_shift`).
const PACING_SHIFT: u32 = 10;
const MAX_BURST_PKTS: u32 = 0x7f;

impl Bbr {
    fn burst_pkts(&self, sock: &Sock) -> u32 {
        let bytes = (sock.pacing_rate_bytes_per_s >> PACING_SHIFT).min(GSO_MAX_BYTES);
        ((bytes / u64::from(sock.mss_bytes)) as u32).max(self.min_tso_segs(sock)).min(MAX_BURST_PKTS)
    }

    fn bdp(&self, bw: u32, gain: u64) -> u32 {
        if self.min_rtt_us == u32::MAX {
            return INIT_PKTS;
        }
        let scaled =
            u128::from(u64::from(bw) * u64::from(self.min_rtt_us)) * u128::from(gain) / u128::from(UNIT);
        scaled.div_ceil(u128::from(BW_UNIT)) as u32
    }

    /// Allows for full bursts and delayed ACKs, and makes probing effective in small windows.
    fn with_budget(&self, sock: &Sock, cwnd: u32) -> u32 {
        let even = (cwnd + 3 * self.burst_pkts(sock)).next_multiple_of(2);
        if self.mode == Mode::ProbeBw && self.cycle_index == 0 { even + 2 } else { even }
    }

    pub(super) fn target_in_flight(&self, sock: &Sock, bw: u32, gain: u64) -> u32 {
        self.with_budget(sock, self.bdp(bw, gain))
    }

    /// Segments in the network when the next one is sent.
    pub(super) fn in_net_at_departure(&self, sock: &Sock, in_flight: u32) -> u32 {
        let wait_us = sock.wstamp_ns.saturating_sub(sock.mstamp_us * 1000) / 1000;
        let delivered = u64::from(self.bw()) * wait_us / BW_UNIT;
        let burst = if self.pacing_gain > UNIT { self.burst_pkts(sock) } else { 0 };
        u64::from(in_flight + burst).saturating_sub(delivered) as u32
    }

    /// Saves a good window, to restore later.
    pub(super) fn save_cwnd(&mut self, sock: &Sock) {
        let is_cut = self.prev_state >= CaState::Recovery || self.mode == Mode::ProbeRtt;
        self.prior_cwnd = if is_cut { self.prior_cwnd.max(sock.snd_cwnd) } else { sock.snd_cwnd };
    }

    /// The window of this ACK during loss recovery; and whether it is final: in the first round no more is
    /// sent than delivered.
    fn recover(&mut self, sock: &Sock, sample: &RateSample) -> (u32, bool) {
        let (prev, state) = (self.prev_state, sock.ca_state);
        let mut cwnd = sock.snd_cwnd;
        if sample.losses > 0 {
            cwnd = cwnd.saturating_sub(sample.losses).max(1);
        }
        if state == CaState::Recovery && prev != CaState::Recovery {
            self.packet_conservation = true;
            self.next_round_delivered = sock.delivered;
            cwnd = sock.packets_in_flight() + sample.acked_sacked;
        } else if prev >= CaState::Recovery && state < CaState::Recovery {
            cwnd = cwnd.max(self.prior_cwnd);
            self.packet_conservation = false;
        }
        self.prev_state = state;
        if self.packet_conservation {
            cwnd = cwnd.max(sock.packets_in_flight() + sample.acked_sacked);
        }
        (cwnd, self.packet_conservation)
    }

    pub(super) fn set_cwnd(&mut self, sock: &mut Sock, sample: &RateSample) {
        let mut cwnd = sock.snd_cwnd;
        if sample.acked_sacked > 0 {
            let (recovering, is_all) = self.recover(sock, sample);
            cwnd = if is_all { recovering } else { self.grow(sock, sample, recovering) };
        }
        sock.snd_cwnd = cwnd.min(sock.snd_cwnd_clamp);
        if self.mode == Mode::ProbeRtt {
            sock.snd_cwnd = sock.snd_cwnd.min(MIN_PKTS);
        }
    }

    /// Approaches the target; goes below it only once the pipe was full.
    fn grow(&self, sock: &Sock, sample: &RateSample, cwnd: u32) -> u32 {
        let extra = if self.full_bw_reached { self.aggregation.extra_cwnd(self.bw()) } else { 0 };
        let target = self.with_budget(sock, self.bdp(self.bw(), self.cwnd_gain) + extra);
        let grown = if self.full_bw_reached {
            (cwnd + sample.acked_sacked).min(target)
        } else if cwnd < target || sock.delivered < INIT_PKTS {
            cwnd + sample.acked_sacked
        } else {
            cwnd
        };
        grown.max(MIN_PKTS)
    }
}
