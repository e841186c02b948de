//! A connection with one of R-TCP's congestion controls: what both of them do.

use ccp_rtcp_core::types::rtcp_seeking;
use ccp_rtcp_core::{Ack, Options, Row};
use ccp_tcp::Sock;

use super::clients::Member;
use super::{Attached, Known};

/// Where a connection begins and ends. Ports in host order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ends {
    pub netns: u32,
    pub saddr: [u8; 16],
    pub daddr: [u8; 16],
    pub sport: u16,
    pub dport: u16,
}

pub(super) struct Connection {
    attached: Attached,
    ends: Ends,
    pub member: Member,
    /// What the limiter wished at the last ACK, and got: an `enum rtcp_seeking`.
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
        let Ends { netns, daddr, dport, .. } = self.ends;
        let options = self.attached.options();
        self.member = self.attached.known().clients.join(netns, daddr, dport, sock, options);
        self.sought = 0;
    }

    pub fn end(&mut self, sock: &Sock) {
        let member = std::mem::take(&mut self.member);
        let kept_us = self.options().kept_us;
        self.attached.known().clients.leave(member, kept_us, sock.mstamp_us);
    }

    pub fn on_ack(&mut self, sock: &Sock) {
        let mut known = self.attached.known();
        let row = known.clients.ack(&mut self.member, sock, self.attached.options());
        self.told(&mut known, sock, row, false);
    }

    /// Sending begins anew; a transfer of its own does, if it is the application that had nothing.
    pub fn on_tx_start(&mut self, sock: &Sock) {
        if sock.app_limited == 0 {
            return;
        }
        let mut known = self.attached.known();
        let row = known.clients.start(&mut self.member, sock, self.attached.options());
        self.told(&mut known, sock, row, true);
    }

    fn told(&self, known: &mut Known, sock: &Sock, row: Option<Row>, starts: bool) {
        let Some(row) = row else { return };
        if known.clients.is_news(&self.member, &row) {
            known.rows.push(row);
        }
        if self.attached.records() {
            known.acks.push(self.record(sock, starts));
        }
    }

    fn record(&self, sock: &Sock, starts: bool) -> Ack {
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
