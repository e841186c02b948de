//! The decision of a link's ACK filter about two packets.

use ccp_int::FlowKey;

use super::checksum::word;
use super::datagram::IpPacket;
use super::tcp::{DATA_OFFSET_AT, END, NOP, OPTIONS_AT, PSH, URG, acknowledged};
use crate::packet::Judged;

/// Lowest bit before the flags: AE (RFC 9768), part of accurate ECN.
const AE: u8 = 0x01;

const FRAGMENT: u16 = 0x3fff;

const TIMESTAMP: [u8; 2] = [8, 10];

/// An ACK without data, urgent data or fragments.
struct PureAck<'a> {
    flow: FlowKey,
    number: u32,
    /// What else it reports: ECE, CWR and AE.
    flags: (u8, u8),
    options: &'a [u8],
    has_extension: bool,
}

impl<'a> PureAck<'a> {
    fn of(packet: &'a IpPacket) -> Option<Self> {
        let tcp = packet.pure_ack()?;
        let head = packet.head();
        let is_fragment = packet.is_ipv4() && word(head, 6) & FRAGMENT != 0;
        if is_fragment || tcp.flags & URG != 0 {
            return None;
        }
        Some(PureAck {
            flow: tcp.flow,
            number: acknowledged(head, tcp.start),
            flags: (head[tcp.start + DATA_OFFSET_AT] & AE, tcp.flags & !PSH),
            options: &head[tcp.start + OPTIONS_AT..tcp.end],
            has_extension: packet.extension().is_some(),
        })
    }

    /// Whether it has no option but a timestamp.
    fn is_plain(&self) -> bool {
        let mut rest = self.options;
        while let Some(kind) = rest.first() {
            match *kind {
                END => break,
                NOP => rest = &rest[1..],
                _ if rest.starts_with(&TIMESTAMP) && rest.len() >= 10 => rest = &rest[10..],
                _ => return false,
            }
        }
        !self.has_extension
    }
}

/// Whether a waiting packet is still needed when another one follows it.
pub(super) fn judge(arriving: &IpPacket, waiting: &IpPacket) -> Judged {
    let Some(newer) = PureAck::of(arriving) else { return Judged::Unrelated };
    let Some(older) = PureAck::of(waiting).filter(|older| older.flow == newer.flow) else {
        return Judged::Unrelated;
    };
    // Numbers wrap around.
    let acknowledges_more = newer.number.wrapping_sub(older.number) as i32 > 0;
    if acknowledges_more && older.is_plain() && older.flags == newer.flags {
        Judged::Superfluous
    } else {
        Judged::Needed
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{Tcp, udp};
    use super::super::tcp::{ACK, FIN};
    use super::*;
    use crate::packet::Packet;
    use bytes::Bytes;

    /// An ACK with this number, and changed bytes of its TCP header.
    fn ack(v6: bool, number: u32, changes: &[(usize, u8)]) -> IpPacket {
        let tcp = Tcp { v6, payload_bytes: 0, ..Tcp::default() };
        let mut bytes = tcp.bytes().to_vec();
        let at = usize::from(tcp.partial().start);
        bytes[at + 8..at + 12].copy_from_slice(&number.to_be_bytes());
        for (offset, value) in changes {
            bytes[at + offset] = *value;
        }
        IpPacket::new(bytes.into(), Some(tcp.partial())).unwrap()
    }

    #[test]
    fn an_ack_of_more_data_makes_an_earlier_one_superfluous() {
        for v6 in [false, true] {
            assert_eq!(ack(v6, 100, &[]).judge(&ack(v6, 77, &[])), Judged::Superfluous);
            assert_eq!(ack(v6, 5, &[]).judge(&ack(v6, u32::MAX - 5, &[])), Judged::Superfluous);
            // A duplicate ACK, or an update of the window, and an ACK that was overtaken.
            assert_eq!(ack(v6, 77, &[]).judge(&ack(v6, 77, &[])), Judged::Needed);
            assert_eq!(ack(v6, 77, &[]).judge(&ack(v6, 100, &[])), Judged::Needed);
        }
    }

    #[test]
    fn sack_ranges_and_changes_of_flags_are_needed() {
        const ECE: u8 = 0x40;
        let sack = [(20, 1), (21, 1), (22, 5), (23, 10)];
        assert_eq!(ack(false, 100, &[]).judge(&ack(false, 77, &sack)), Judged::Needed);
        assert_eq!(ack(false, 100, &sack).judge(&ack(false, 77, &[])), Judged::Superfluous);
        let echo = [(13, ACK | ECE)];
        assert_eq!(ack(false, 100, &echo).judge(&ack(false, 77, &[])), Judged::Needed);
        assert_eq!(ack(false, 100, &[]).judge(&ack(false, 77, &echo)), Judged::Needed);
        assert_eq!(ack(false, 100, &echo).judge(&ack(false, 77, &echo)), Judged::Superfluous);
        let accurate = [(12, 8 << 4 | AE)];
        assert_eq!(ack(false, 100, &accurate).judge(&ack(false, 77, &[])), Judged::Needed);
    }

    #[test]
    fn data_and_other_connections_are_unrelated() {
        let data = |v6| {
            let tcp = Tcp { v6, ..Tcp::default() };
            IpPacket::new(tcp.bytes(), Some(tcp.partial())).unwrap()
        };
        let newest = ack(false, 100, &[]);
        for other in [
            data(false),
            ack(false, 77, &[(0, 0xff)]), // another port
            ack(true, 77, &[]),
            ack(false, 77, &[(13, ACK | FIN)]),
            IpPacket::new(udp(false, 30), None).unwrap(),
            IpPacket::new(Bytes::from_static(&[0x45; 20]), None).unwrap(),
        ] {
            assert_eq!(newest.judge(&other), Judged::Unrelated, "{other:?}");
            assert_eq!(other.judge(&newest), Judged::Unrelated, "{other:?}");
        }
    }
}
