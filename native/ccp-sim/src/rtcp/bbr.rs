//! BBR, version 1, within the token bucket that limits its client.

use ccp_rtcp_core::types::{RTCP_SEEKS_A_LITTLE, RTCP_SEEKS_MUCH, RTCP_SEEKS_NOTHING};
use ccp_tcp::{Bbr, CaState, Congestion, RateSample, Sock};

use super::Attached;
use super::connection::Connection;
use crate::features::{Ends, Offered};

/// The congestion control `rtcp_bbr`. As in the kernel, minimum bursts are left to the sender.
pub struct RtcpBbr {
    bbr: Bbr,
    connection: Connection,
}

impl RtcpBbr {
    pub(crate) fn new(attached: &Attached, ends: Ends) -> Self {
        Self { bbr: Bbr::default(), connection: Connection::new(attached, ends) }
    }

    /// BBR's own detector of policers would limit the rate to its estimate (section 4.4).
    fn before(&mut self, sock: &Sock) {
        self.connection.on_ack(sock);
        let member = &self.connection.member;
        let seeks = member.seeks();
        if member.may_be_limited() {
            self.bbr.forget_policer();
        }
        match (seeks, self.connection.sought) {
            (RTCP_SEEKS_NOTHING, RTCP_SEEKS_MUCH) if member.rate_bytes_per_s() > 0 => self.bbr.drain(),
            (RTCP_SEEKS_NOTHING, _) => {}
            (RTCP_SEEKS_A_LITTLE, _) => self.bbr.probe(sock),
            _ => self.bbr.start_up(),
        }
        self.connection.sought = seeks;
    }

    /// The rate is the limit; but half a window may be sent at once.
    fn bound(&self, sock: &mut Sock) {
        let (member, options) = (&self.connection.member, self.connection.options());
        if member.rate_bytes_per_s() == 0 {
            return;
        }
        let maximum = member.pacing_cap_bytes_per_s(options);
        sock.pacing_rate_bytes_per_s = sock.pacing_rate_bytes_per_s.min(maximum);
        if let Some(pkts) = self.connection.window_pkts(sock, options.floor_pkts, true) {
            sock.snd_cwnd = sock.snd_cwnd.min(pkts);
        }
    }
}

impl Offered for RtcpBbr {
    fn close(&mut self, sock: &Sock) {
        self.connection.end(sock);
    }
}

impl Congestion for RtcpBbr {
    fn init(&mut self, sock: &mut Sock) {
        self.connection.begin(sock);
        self.bbr.init(sock);
    }

    fn ssthresh(&mut self, sock: &mut Sock) -> u32 {
        self.bbr.ssthresh(sock)
    }

    fn has_cong_control(&self) -> bool {
        true
    }

    fn cong_control(&mut self, sock: &mut Sock, sample: &RateSample, ece: bool) {
        self.before(sock);
        self.bbr.cong_control(sock, sample, ece);
        self.bound(sock);
    }

    fn set_state(&mut self, sock: &mut Sock, new: CaState) {
        self.bbr.set_state(sock, new);
    }

    fn tx_start(&mut self, sock: &mut Sock) {
        self.bbr.tx_start(sock);
        self.connection.on_tx_start(sock);
        self.bound(sock);
    }

    fn undo_cwnd(&mut self, sock: &mut Sock) -> u32 {
        self.bbr.undo_cwnd(sock)
    }

    fn buffered_windows(&self) -> u32 {
        self.bbr.buffered_windows()
    }
}
