//! CUBIC within the token bucket that limits its client.

use ccp_rtcp_core::types::RTCP_SEEKS_NOTHING;
use ccp_tcp::{CaState, Congestion, Cubic, INFINITE_SSTHRESH, MIN_CWND_PKTS, Sock};

use super::Attached;
use super::connection::Connection;
use crate::features::{Ends, Offered};

/// The congestion control `rtcp_cubic`.
pub struct RtcpCubic {
    cubic: Cubic,
    connection: Connection,
    /// Pacing was enabled here.
    is_paced_by_us: bool,
}

impl RtcpCubic {
    pub(crate) fn new(attached: &Attached, ends: Ends) -> Self {
        let connection = Connection::new(attached, ends);
        Self { cubic: Cubic::default(), connection, is_paced_by_us: false }
    }

    /// Maximum segments in flight; the window of that rate is too small without pacing.
    fn max_pkts(&self, sock: &Sock) -> u32 {
        let options = self.connection.options();
        let is_paced = options.pace_cubic != 0;
        let floor_pkts = if is_paced { options.floor_pkts } else { MIN_CWND_PKTS };
        self.connection.window_pkts(sock, floor_pkts, is_paced).unwrap_or(u32::MAX)
    }

    fn bound_cwnd(&self, sock: &mut Sock) {
        sock.snd_cwnd = sock.snd_cwnd.min(self.max_pkts(sock));
    }

    /// As `SO_MAX_PACING_RATE`: the sender computes CUBIC's pacing rate itself, up to that.
    fn pace(&mut self, sock: &mut Sock) {
        let options = self.connection.options();
        let maximum = self.connection.member.pacing_cap_bytes_per_s(options);
        if options.pace_cubic == 0 || maximum == 0 {
            sock.max_pacing_rate_bytes_per_s = u64::MAX;
            sock.is_paced &= !std::mem::take(&mut self.is_paced_by_us);
            return;
        }
        self.is_paced_by_us |= !sock.is_paced;
        sock.is_paced = true;
        sock.max_pacing_rate_bytes_per_s = maximum;
        sock.pacing_rate_bytes_per_s = sock.pacing_rate_bytes_per_s.min(maximum);
    }
}

impl Offered for RtcpCubic {
    fn close(&mut self, sock: &Sock) {
        self.connection.end(sock);
    }
}

impl Congestion for RtcpCubic {
    fn init(&mut self, sock: &mut Sock) {
        self.connection.begin(sock);
        self.cubic.init(sock);
    }

    fn ssthresh(&mut self, sock: &mut Sock) -> u32 {
        self.cubic.ssthresh(sock).min(self.max_pkts(sock))
    }

    fn cong_avoid(&mut self, sock: &mut Sock, acked: u32) {
        self.cubic.cong_avoid(sock, acked);
        self.bound_cwnd(sock);
    }

    fn pkts_acked(&mut self, sock: &mut Sock, acked: u32, rtt_us: i64) {
        self.cubic.pkts_acked(sock, acked, rtt_us);
    }

    fn in_ack_event(&mut self, sock: &mut Sock) {
        self.connection.on_ack(sock);
        self.pace(sock);
        if sock.ca_state > CaState::Disorder {
            return;
        }
        let seeks = self.connection.member.seeks();
        if seeks != RTCP_SEEKS_NOTHING && self.connection.sought == RTCP_SEEKS_NOTHING {
            sock.snd_ssthresh = INFINITE_SSTHRESH; // slow start, within the bound
        }
        self.connection.sought = seeks;
        self.bound_cwnd(sock);
    }

    fn set_state(&mut self, sock: &mut Sock, new: CaState) {
        self.cubic.set_state(sock, new);
    }

    fn tx_start(&mut self, sock: &mut Sock) {
        self.cubic.tx_start(sock);
        self.connection.on_tx_start(sock);
        self.pace(sock);
        self.bound_cwnd(sock);
    }

    fn undo_cwnd(&mut self, sock: &mut Sock) -> u32 {
        self.cubic.undo_cwnd(sock)
    }
}
