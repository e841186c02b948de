//! The sender's variables read and set by congestion controls.

/// No slow-start threshold yet (`TCP_INFINITE_SSTHRESH`).
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// `enum tcp_ca_state`, include/uapi/linux/tcp.h.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum CaState {
    #[default]
    Open,
    /// Segments arrive out of order.
    Disorder,
    /// The window is being reduced without a loss.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// After a retransmission timeout.
    Loss,
}

/// Named as in Linux' `tcp_sock`, with units except for segments.
#[derive(Clone, Debug)]
pub struct Sock {
    /// Present time, `tcp_mstamp` of the kernel [us].
    pub mstamp_us: u64,
    /// Payload of a full segment.
    pub mss_bytes: u32,
    pub snd_cwnd: u32,
    pub init_cwnd: u32,
    /// Maximum window.
    pub snd_cwnd_clamp: u32,
    pub snd_ssthresh: u32,
    /// Window before the present reduction, for `undo_cwnd`.
    pub prior_cwnd: u32,
    /// Threshold before it.
    pub prior_ssthresh: u32,
    pub ca_state: CaState,
    pub snd_una: u64,
    /// First byte never sent.
    pub snd_nxt: u64,
    /// After the last byte written by the application.
    pub write_seq: u64,
    /// Sent and not acknowledged in order.
    pub packets_out: u32,
    /// Of them, those the receiver has (SACK).
    pub sacked_out: u32,
    /// Of them, marked lost.
    pub lost_out: u32,
    /// Of them, retransmitted and not yet acknowledged or lost again.
    pub retrans_out: u32,
    /// Maximum `packets_out` in the last window.
    pub max_packets_out: u32,
    /// The window limited sending in the last window.
    pub is_cwnd_limited: bool,
    /// `delivered` at which the application's limit ends; 0: not limited by the application.
    pub app_limited: u32,
    /// Delivered since the start, in order or not.
    pub delivered: u32,
    /// Of them, with an ECN mark.
    pub delivered_ce: u32,
    /// When `delivered` last changed [us].
    pub delivered_mstamp_us: u64,
    /// Marked lost since the start.
    pub lost: u32,
    /// Retransmitted since the start.
    pub total_retrans: u32,
    /// Acknowledged in order since the start.
    pub bytes_acked: u64,
    /// Sent since the start, including retransmissions.
    pub bytes_sent: u64,
    /// Of them, retransmissions.
    pub bytes_retrans: u64,
    /// Segments sent since the start, including retransmissions.
    pub data_segs_out: u64,
    /// Smoothed RTT [us], 0 = none yet.
    pub srtt_us: u32,
    /// Its mean deviation [us].
    pub rttvar_us: u32,
    /// Time since the newest delivered segment was sent, retransmissions included (`rack.rtt_us`) [us]; 0 = none yet.
    pub rtt_us: u32,
    /// Windowed minimum RTT (net.ipv4.tcp_min_rtt_wlen, 300 s) [us]; `u32::MAX` = none yet.
    pub min_rtt_us: u32,
    /// Sending rate if `is_paced`; otherwise TCP's own pacing rate, which limits bursts [bytes/s].
    pub pacing_rate_bytes_per_s: u64,
    /// Maximum of the rate computed by TCP itself (`sk_max_pacing_rate`) [bytes/s].
    pub max_pacing_rate_bytes_per_s: u64,
    pub is_paced: bool,
    pub ecn_ok: bool,
    pub timeouts: u32,
    pub rtt_samples: u64,
    /// Their sum [us].
    pub rtt_sum_us: u64,
    /// Last transmission of data (`lsndtime`) [us]; `Congestion::tx_start` still sees the previous time.
    pub last_sent_us: u64,
    /// Retransmission timeout at the last call of `restart_after_idle`, or when sending restarted [us].
    pub rto_us: u64,
    /// Sent in the present reduction, whoever sets the window.
    pub prr_out: u32,
    /// When pacing allows the next segment (`tcp_wstamp_ns`).
    pub wstamp_ns: u64,
    /// `delivered` of the newest valid rate sample.
    pub rate_delivered_pkts: u32,
    /// Its interval [us].
    pub rate_interval_us: u32,
    /// It was limited by the application.
    pub rate_app_limited: bool,
}

impl Sock {
    /// A connection that has sent nothing yet.
    pub fn new(mss_bytes: u32, init_cwnd: u32) -> Self {
        Self {
            mstamp_us: 0,
            mss_bytes,
            snd_cwnd: init_cwnd,
            init_cwnd,
            snd_cwnd_clamp: u32::MAX,
            snd_ssthresh: INFINITE_SSTHRESH,
            prior_cwnd: 0,
            prior_ssthresh: 0,
            ca_state: CaState::Open,
            snd_una: 0,
            snd_nxt: 0,
            write_seq: 0,
            packets_out: 0,
            sacked_out: 0,
            lost_out: 0,
            retrans_out: 0,
            max_packets_out: 0,
            is_cwnd_limited: false,
            app_limited: 0,
            delivered: 0,
            delivered_ce: 0,
            delivered_mstamp_us: 0,
            lost: 0,
            total_retrans: 0,
            bytes_acked: 0,
            bytes_sent: 0,
            bytes_retrans: 0,
            data_segs_out: 0,
            srtt_us: 0,
            rttvar_us: 0,
            rtt_us: 0,
            min_rtt_us: u32::MAX,
            pacing_rate_bytes_per_s: 0,
            max_pacing_rate_bytes_per_s: u64::MAX,
            is_paced: false,
            ecn_ok: false,
            timeouts: 0,
            rtt_samples: 0,
            rtt_sum_us: 0,
            last_sent_us: 0,
            rto_us: 0,
            prr_out: 0,
            wstamp_ns: 0,
            rate_delivered_pkts: 0,
            rate_interval_us: 0,
            rate_app_limited: false,
        }
    }

    /// Segments in the network, as estimated by the sender (`tcp_packets_in_flight`).
    pub fn packets_in_flight(&self) -> u32 {
        (self.packets_out + self.retrans_out).saturating_sub(self.sacked_out + self.lost_out)
    }

    /// Whether the window, not the application, limits sending (`tcp_is_cwnd_limited`).
    pub fn cwnd_limited(&self) -> bool {
        self.is_cwnd_limited || (self.in_slow_start() && self.snd_cwnd < 2 * self.max_packets_out)
    }

    pub fn in_slow_start(&self) -> bool {
        self.snd_cwnd < self.snd_ssthresh
    }

    /// Whether a loss or mark is reducing the window.
    pub fn in_reduction(&self) -> bool {
        matches!(self.ca_state, CaState::Cwr | CaState::Recovery)
    }

    /// Threshold to restore: `tcp_current_ssthresh`.
    pub fn current_ssthresh(&self) -> u32 {
        if self.in_reduction() {
            self.snd_ssthresh
        } else {
            self.snd_ssthresh.max((self.snd_cwnd >> 1) + (self.snd_cwnd >> 2))
        }
    }

    /// After an idle time longer than a timeout, the window halves per timeout, down to the initial one
    /// (`tcp_slow_start_after_idle_check`, `tcp_cwnd_restart`). Returns whether there was such an idle time.
    pub fn restart_after_idle(&mut self) -> bool {
        let idle_us = self.mstamp_us.saturating_sub(self.last_sent_us);
        if self.packets_out > 0 || self.data_segs_out == 0 || self.rto_us == 0 || idle_us <= self.rto_us {
            return false;
        }
        let minimum = self.init_cwnd.min(self.snd_cwnd);
        let halvings = u32::try_from((idle_us - 1) / self.rto_us).unwrap_or(u32::MAX);
        self.snd_ssthresh = self.current_ssthresh();
        self.snd_cwnd = self.snd_cwnd.checked_shr(halvings).unwrap_or(0).max(minimum);
        true
    }
}
