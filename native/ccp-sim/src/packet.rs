//! Packets of the network: TCP segments without their bytes, and probes.

use std::net::Ipv6Addr;

use ccp_emu::{Ecn, Extension, Judged, Packet};
use ccp_int::{FlowKey, Protocol};
use ccp_ioam::{Parsed, PathEcho, read_headers};
use ccp_tcp::{Ack, Data, Sacks};

use crate::app::SentReport;

/// Hop limit of hosts (net.ipv4.ip_default_ttl).
const HOPS: u8 = 64;
const IPV4_BYTES: u32 = 20;
const IPV6_BYTES: u32 = 40;
const TCP_BYTES: u32 = 20;
const TIMESTAMP_BYTES: u32 = 12;
/// Options of a SYN: MSS, SACK permitted, timestamp, window scale.
const SYN_OPTION_BYTES: u32 = 20;
/// The SACK option with its padding, and each of its ranges.
const SACK_BYTES: u32 = 4;
const SACK_RANGE_BYTES: u32 = 8;

pub(crate) fn header_bytes(v6: bool) -> u32 {
    ip_bytes(v6) + TCP_BYTES + TIMESTAMP_BYTES
}

fn ip_bytes(v6: bool) -> u32 {
    if v6 { IPV6_BYTES } else { IPV4_BYTES }
}

/// UDP and RTP headers (RFC 3550, section 5.1).
const RTP_BYTES: u32 = 8 + 12;
/// RTCP reports with a source description: of a sender, and of a receiver (section 6).
const SENDER_REPORT_BYTES: u32 = 8 + 28 + 20;
const REPORT_BYTES: u32 = 8 + 32 + 20;
/// ICMP header and data of an echo request, as `ping` sends it.
const ECHO_BYTES: u32 = 8 + 56;

/// A direction of data of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Way {
    /// From the flow's sender to its receiver.
    Data,
    /// From the receiver to the sender.
    Request,
}

#[derive(Clone, Debug)]
pub(crate) enum Payload {
    Syn,
    SynAck,
    /// The third packet of the handshake.
    Opened,
    Data(Way, Data),
    /// An acknowledgement of data in that direction; it travels in the other one.
    Ack(Way, Ack),
    /// An echo request of a series of probes, with its time.
    Probe {
        number: u32,
        sent_ns: u64,
    },
    /// The reply to it.
    Echo {
        number: u32,
        sent_ns: u64,
    },
    /// A packet of a flow of media.
    Media {
        flow: u32,
        number: u32,
        len_bytes: u32,
    },
    SenderReport {
        flow: u32,
        sent_ns: u64,
    },
    Report {
        flow: u32,
        report: SentReport,
    },
}

impl Payload {
    /// Size without the IP header.
    fn len_bytes(&self) -> u32 {
        match self {
            Payload::Syn | Payload::SynAck => TCP_BYTES + SYN_OPTION_BYTES,
            Payload::Opened => TCP_BYTES + TIMESTAMP_BYTES,
            Payload::Data(_, data) => TCP_BYTES + TIMESTAMP_BYTES + data.len_bytes,
            Payload::Ack(_, ack) => match ack.sacks.len() as u32 {
                0 => TCP_BYTES + TIMESTAMP_BYTES,
                ranges => TCP_BYTES + TIMESTAMP_BYTES + SACK_BYTES + SACK_RANGE_BYTES * ranges,
            },
            Payload::Probe { .. } | Payload::Echo { .. } => ECHO_BYTES,
            Payload::Media { len_bytes, .. } => RTP_BYTES + len_bytes,
            Payload::SenderReport { .. } => SENDER_REPORT_BYTES,
            Payload::Report { .. } => REPORT_BYTES,
        }
    }
}

/// Stands for the addresses and ports of data in that direction of a connection.
fn conversation(connection: u32, way: Way) -> FlowKey {
    let address = Ipv6Addr::from(u128::from(connection));
    FlowKey { src: address, dst: address, src_port: way as u16, dst_port: 0, protocol: Protocol::Tcp }
}

/// Data for in-band telemetry; absent in networks without it.
#[derive(Clone, Debug)]
pub(crate) struct Inband {
    pub flow: FlowKey,
    pub extension: Option<Box<Extension>>,
}

#[derive(Clone, Debug)]
pub struct SimPacket {
    pub(crate) connection: u32,
    /// Sent by the end that receives data.
    is_back: bool,
    len_bytes: u32,
    ecn: Ecn,
    hops: u8,
    v6: bool,
    pub(crate) is_corrupted: bool,
    inband: Option<Box<Inband>>,
    pub(crate) payload: Payload,
}

impl SimPacket {
    /// A packet as sent by a host. `is_back`: by the end that receives data. `ect`: its transport reacts to ECN
    /// marks.
    pub(crate) fn new(
        connection: u32,
        is_back: bool,
        v6: bool,
        ect: bool,
        payload: Payload,
        inband: Option<Box<Inband>>,
    ) -> Self {
        SimPacket {
            connection,
            is_back,
            len_bytes: ip_bytes(v6) + payload.len_bytes(),
            ecn: if ect { Ecn::Ect0 } else { Ecn::NotEct },
            hops: HOPS,
            v6,
            is_corrupted: false,
            inband,
            payload,
        }
    }

    /// Path information of an ACK.
    pub(crate) fn path_echo(&self) -> Option<PathEcho> {
        let extension = self.inband.as_ref()?.extension.as_ref()?;
        read_headers(&extension.raw, extension.first).find_map(|found| match found.ok()?.option {
            Parsed::PathEcho(echo) => Some(echo),
            _ => None,
        })
    }

    /// A packet of no connection: a probe or its reply, or a packet of media.
    pub(crate) fn datagram(v6: bool, payload: Payload) -> Self {
        SimPacket::new(0, false, v6, false, payload, None)
    }
}

impl Packet for SimPacket {
    fn len_bytes(&self) -> u32 {
        let extension = self.inband.as_ref().and_then(|inband| inband.extension.as_ref());
        self.len_bytes + extension.map_or(0, |extension| extension.raw.len() as u32)
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }

    fn flow_id(&self) -> u64 {
        let (kind, number) = match self.payload {
            Payload::Probe { number, .. } | Payload::Echo { number, .. } => (1, number),
            Payload::Media { flow, .. }
            | Payload::SenderReport { flow, .. }
            | Payload::Report { flow, .. } => (2, flow),
            _ => (0, self.connection),
        };
        u64::from(number) << 3 | kind << 1 | u64::from(self.is_back)
    }

    fn hop(&mut self) -> bool {
        self.hops = self.hops.saturating_sub(1);
        self.hops > 0
    }

    fn corrupt(&mut self, _choice: u64) {
        self.is_corrupted = true;
    }

    fn flow(&self) -> Option<FlowKey> {
        self.inband.as_ref().map(|inband| inband.flow)
    }

    fn tcp_sent(&self) -> Option<(FlowKey, u32, u32)> {
        let Payload::Data(way, data) = &self.payload else { return None };
        Some((conversation(self.connection, *way), data.seq as u32, data.end_seq() as u32))
    }

    fn tcp_acked(&self) -> Option<(FlowKey, u32)> {
        let Payload::Ack(way, ack) = &self.payload else { return None };
        Some((conversation(self.connection, *way), ack.ack as u32))
    }

    fn acknowledge(&mut self, number: u32) {
        let Payload::Ack(_, ack) = &mut self.payload else { return };
        // The distance in the wide numbers, of which `number` has the lower half.
        let distance = number.wrapping_sub(ack.ack as u32) as i32;
        ack.ack = ack.ack.wrapping_add_signed(i64::from(distance));
        if ack.sacks.iter().any(|range| range.start < ack.ack) {
            ack.sacks = Sacks::default();
        }
        self.len_bytes = ip_bytes(self.v6) + self.payload.len_bytes();
    }

    fn hide_marks(&mut self) {
        if let Payload::Ack(_, ack) = &mut self.payload {
            ack.ece = false;
        }
    }

    fn is_pure_ack(&self) -> bool {
        self.v6 && matches!(self.payload, Payload::Ack(..))
    }

    fn judge(&self, waiting: &Self) -> Judged {
        let (Payload::Ack(way, newer), Payload::Ack(other_way, older)) = (&self.payload, &waiting.payload)
        else {
            return Judged::Unrelated;
        };
        if self.connection != waiting.connection || way != other_way {
            return Judged::Unrelated;
        }
        let has_extension = waiting.inband.as_ref().is_some_and(|inband| inband.extension.is_some());
        let is_plain = older.sacks.is_empty() && !has_extension;
        if newer.ack > older.ack && newer.ece == older.ece && is_plain {
            Judged::Superfluous
        } else {
            Judged::Needed
        }
    }

    fn hop_limit(&self) -> Option<u8> {
        self.v6.then_some(self.hops)
    }

    fn extension_mut(&mut self) -> Option<&mut Option<Box<Extension>>> {
        let v6 = self.v6;
        self.inband.as_mut().filter(|_| v6).map(|inband| &mut inband.extension)
    }
}
