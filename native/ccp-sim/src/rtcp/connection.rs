//! A connection with one of R-TCP's congestion controls: common parts.

use ccp_rtcp_core::types::{minmax, minmax__bindgen_ty_1, rtcp_seeking, sock as Remote};
use ccp_rtcp_core::{Ack, Connection as Member, Learned, Options, Socket};
use ccp_tcp::Sock;

use super::{Attached, Known};
use crate::features::Ends;

/// The socket data that R-TCP uses.
pub(super) fn socket(ends: &Ends, sock: &Sock) -> Socket {
    Socket {
        sk: Remote { netns: ends.netns, dport: ends.dport, daddr: ends.daddr },
        tcp_mstamp: sock.mstamp_us,
        bytes_sent: sock.bytes_sent,
        // Unacknowledged bytes, limited to the kernel's 32 bits.
        write_seq: (sock.write_seq - sock.snd_una).min(u32::MAX.into()),
        snd_una: 0,
        delivered: sock.delivered,
        lost: sock.lost,
        in_flight_pkts: sock.packets_in_flight(),
        packets_out: sock.packets_out,
        data_segs_out: sock.data_segs_out as u32,
        mss_cache: sock.mss_bytes,
        srtt_us: sock.srtt_us << 3,
        rtt_min: minmax { s: [minmax__bindgen_ty_1 { v: sock.min_rtt_us }] },
    }
}

pub(super) struct Connection {
    attached: Attached,
    ends: Ends,
    pub member: Member,
    /// Requested by the limiter at the last ACK, and granted: an `enum rtcp_seeking`.
    pub sought: rtcp_seeking,
}

impl Connection {
    pub fn new(attached: &Attached, ends: Ends) -> Self {
        Self { attached: attached.clone(), ends, member: Member::default(), sought: 0 }
    }

    pub fn options(&self) -> &Options {
        self.attached.options()
    }

    pub fn begin(&mut self, sock: &Sock) {
        self.member = self.attached.known().clients.begin(socket(&self.ends, sock), self.options());
        self.sought = 0;
    }

    pub fn end(&mut self, sock: &Sock) {
        let member = std::mem::take(&mut self.member);
        self.attached.known().clients.leave(member, socket(&self.ends, sock), self.options());
    }

    pub fn on_ack(&mut self, sock: &Sock) {
        let mut known = self.attached.known();
        let learned = known.clients.ack(&mut self.member, socket(&self.ends, sock), self.attached.options());
        self.record(&mut known, sock, learned, false);
    }

    /// Sending restarts; if the application was idle, a new transfer begins.
    pub fn on_tx_start(&mut self, sock: &Sock) {
        if sock.app_limited == 0 {
            return;
        }
        let mut known = self.attached.known();
        let learned =
            known.clients.start(&mut self.member, socket(&self.ends, sock), self.attached.options());
        self.record(&mut known, sock, learned, true);
    }

    /// The window that R-TCP allows the connection, in segments.
    pub fn window_pkts(&self, sock: &Sock, floor_pkts: u32, is_paced: bool) -> Option<u32> {
        self.member.window_pkts(socket(&self.ends, sock), floor_pkts, is_paced)
    }

    fn record(&self, known: &mut Known, sock: &Sock, learned: Option<Learned>, starts: bool) {
        let Some(learned) = learned else { return };
        if learned.is_news {
            known.rows.push(learned.row);
        }
        if self.attached.records() {
            known.acks.push(self.row(sock, starts));
        }
    }

    fn row(&self, sock: &Sock, starts: bool) -> Ack {
        let Ends { saddr, daddr, sport, dport, .. } = self.ends;
        Ack {
            t_us: sock.mstamp_us,
            acked_bytes: sock.bytes_acked,
            delivered_pkts: sock.delivered,
            lost_pkts: sock.lost,
            in_flight_pkts: sock.packets_in_flight(),
            min_rtt_us: if sock.min_rtt_us == u32::MAX { 0 } else { sock.min_rtt_us },
            srtt_us: sock.srtt_us,
            prior_delivered_pkts: sock.delivered.wrapping_sub(sock.rate_delivered_pkts),
            sport,
            dport,
            saddr,
            daddr,
            starts: u8::from(starts),
            app_limited: u8::from(sock.rate_app_limited),
            pad: [0; 2],
        }
    }
}
