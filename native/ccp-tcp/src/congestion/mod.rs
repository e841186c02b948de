//! Congestion controls and their interface: that of `struct tcp_congestion_ops`.

mod bbr;
mod cubic;
mod growth;
mod jiffies;
mod pacing;
mod reduction;
mod reno;
mod steered;
#[cfg(test)]
mod test_sock;

pub use bbr::Bbr;
pub use cubic::Cubic;
pub use pacing::pacing_rate_bytes_per_s;
pub use reduction::reduced_cwnd;
pub use reno::Reno;
pub use steered::Steered;

use crate::{CaState, Sock};

pub const MIN_CWND_PKTS: u32 = 2;

/// Rate sample of an ACK: `struct rate_sample`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateSample {
    /// `Sock::delivered` when the newest segment acknowledged by this ACK was sent.
    pub prior_delivered: u32,
    /// Delivered since then; -1: no valid sample.
    pub delivered: i64,
    pub delivered_ce: i64,
    /// Interval [us]; -1: no valid sample.
    pub interval_us: i64,
    /// Sending interval [us].
    pub snd_interval_us: u32,
    /// Receiving interval [us].
    pub rcv_interval_us: u32,
    /// RTT of the newest segment [us]; -1: none (Karn).
    pub rtt_us: i64,
    /// Newly marked lost.
    pub losses: u32,
    /// Newly acknowledged, in order or not.
    pub acked_sacked: u32,
    pub prior_in_flight: u32,
    /// The application limited the rate.
    pub is_app_limited: bool,
    /// The ACK answers a single small segment: the receiver may have delayed it.
    pub is_ack_delayed: bool,
    /// `snd_una` advanced.
    pub is_ack_advancing: bool,
}

/// The congestion control of one connection.
pub trait Congestion {
    /// The connection is established, or this congestion control was selected.
    fn init(&mut self, _sock: &mut Sock) {}

    /// Threshold after a reduction that begins now, >= 2.
    fn ssthresh(&mut self, sock: &mut Sock) -> u32;

    /// Grows the window: `acked` segments were acknowledged, whether or not the window limited sending.
    fn cong_avoid(&mut self, _sock: &mut Sock, _acked: u32) {}

    /// Whether `cong_control` sets window and pacing rate. Otherwise the sender does: by proportional rate
    /// reduction (RFC 6937) in recovery, by `cong_avoid` outside.
    fn has_cong_control(&self) -> bool {
        false
    }

    /// Sets window and pacing rate after an ACK. `ece`: the ACK has the ECE flag.
    fn cong_control(&mut self, _sock: &mut Sock, _sample: &RateSample, _ece: bool) {}

    /// An ACK acknowledged segments (`pkts_acked`); `rtt_us` is -1 without a sample.
    fn pkts_acked(&mut self, _sock: &mut Sock, _acked: u32, _rtt_us: i64) {}

    /// An ACK arrived: deliveries are counted, but not the losses it indicates (`in_ack_event` since Linux
    /// 6.15).
    fn in_ack_event(&mut self, _sock: &mut Sock) {}

    /// `sock.ca_state` changes; it still has the old value.
    fn set_state(&mut self, _sock: &mut Sock, _new: CaState) {}

    /// Sending restarts, with nothing in flight (`CA_EVENT_TX_START`).
    fn tx_start(&mut self, _sock: &mut Sock) {}

    /// Window after an unnecessary reduction.
    fn undo_cwnd(&mut self, sock: &mut Sock) -> u32 {
        sock.snd_cwnd.max(sock.prior_cwnd)
    }

    /// It requires ECN, and a receiver that echoes each mark (DCTCP, RFC 8257).
    fn needs_ecn(&self) -> bool {
        false
    }

    /// Gain of the pacing rate over cwnd/srtt in percent, in slow start and outside; as in sysctls
    /// `tcp_pacing_ss_ratio` and `tcp_pacing_ca_ratio`. Only without `has_cong_control`.
    fn pacing_ratios_percent(&self) -> (u32, u32) {
        (200, 120)
    }

    /// Send buffer in windows (`sndbuf_expand`).
    fn buffered_windows(&self) -> u32 {
        2
    }

    fn min_tso_segs(&self, _sock: &Sock) -> u32 {
        2
    }
}
