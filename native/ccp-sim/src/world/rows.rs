//! Samples of sockets, as of `ccplane.base._native.TcpTrace`.

use ccp_record::row::tcp_row;
use ccp_tcp::{INFINITE_SSTHRESH, Sender};

use super::World;
use super::apps::family;
use super::connection::Connection;
use super::hosts::Hosts;
use crate::control::Control;

/// TCP_ESTABLISHED and TCP_CLOSE.
const ESTABLISHED: u8 = 1;
const CLOSE: u8 = 7;

impl World {
    /// A segment arrived at a sender's socket, before processing: produces a row, unless the last one is too recent.
    pub(super) fn sample_socket(&mut self, index: usize) {
        let Some(sampled) = &mut self.sampled else { return };
        let connection = &mut self.connections[index];
        if connection.row_ns.is_some_and(|row_ns| self.now_ns - row_ns < sampled.interval_ns) {
            return;
        }
        if let Some(sender) = &connection.data.sender {
            let name = &self.flows[connection.flow].plan.congestion;
            sampled.rows.push(row(self.now_ns, index, connection, sender, name, ESTABLISHED));
            connection.row_ns = Some(self.now_ns);
        }
    }

    /// The last row of a sampled socket.
    pub(super) fn last_row(&mut self, index: usize) {
        let connection = &self.connections[index];
        let name = &self.flows[connection.flow].plan.congestion;
        let sender = connection.data.sender.as_ref().filter(|_| connection.row_ns.is_some());
        if let (Some(sampled), Some(sender)) = (&mut self.sampled, sender) {
            sampled.rows.push(row(self.now_ns, index, connection, sender, name, CLOSE));
        }
    }

    pub fn take_rows(&mut self) -> Vec<tcp_row> {
        self.sampled.as_mut().map(|sampled| std::mem::take(&mut sampled.rows)).unwrap_or_default()
    }
}

fn row(
    now_ns: u64,
    index: usize,
    connection: &Connection,
    sender: &Sender<Control>,
    congestion: &str,
    state: u8,
) -> tcp_row {
    let sock = &sender.sock;
    let bytes = |pkts: u32| u64::from(pkts) * u64::from(sock.mss_bytes);
    let mut name = [0; 16];
    for (to, from) in name.iter_mut().zip(congestion.bytes()) {
        *to = from as _;
    }
    tcp_row {
        t_us: now_ns / 1000,
        cookie: index as u64 + 1,
        cwnd_bytes: bytes(sock.snd_cwnd),
        ssthresh_bytes: if sock.snd_ssthresh >= INFINITE_SSTHRESH {
            u64::MAX
        } else {
            bytes(sock.snd_ssthresh)
        },
        pacing_rate_bytes_per_s: sock.pacing_rate_bytes_per_s,
        delivered_pkts: u64::from(sock.delivered),
        lost_pkts: u64::from(sock.lost),
        retrans_pkts: u64::from(sock.total_retrans),
        bytes_acked: sock.bytes_acked,
        // Received by the socket itself: requests.
        bytes_received: connection.request.as_ref().map_or(0, |half| half.receiver.totals.in_order_bytes),
        bytes_sent: sock.bytes_sent,
        bytes_retrans: sock.bytes_retrans,
        bytes_in_flight: bytes(sock.packets_in_flight()),
        netns: Hosts::netns(connection.sender),
        srtt_us: sock.srtt_us,
        min_rtt_us: if sock.min_rtt_us == u32::MAX { 0 } else { sock.min_rtt_us },
        rtt_us: sock.rtt_us,
        mss_bytes: sock.mss_bytes,
        delivered_ce: sock.delivered_ce,
        sport: connection.key.src_port,
        dport: connection.key.dst_port,
        family: family(connection.v6),
        ca_state: sock.ca_state as u8,
        state,
        app_limited: u8::from(sock.rate_app_limited),
        saddr: connection.key.src.octets(),
        daddr: connection.key.dst.octets(),
        congestion: name,
    }
}
