//! Reports that a packet is too large for a link, by which senders discover the MTU of a path.

use bytes::{BufMut, BytesMut};

use super::checksum::{self, set_word, sum};
use super::datagram::IpPacket;
use super::extension::IPV6_BYTES;

const IPV4_BYTES: usize = 20;
const ICMP_BYTES: usize = 8;
const TTL: u8 = 64;
/// Destination unreachable, fragmentation needed (RFC 792; its MTU: RFC 1191, section 4).
const FRAGMENTATION_NEEDED: [u8; 2] = [3, 4];
/// Packet too big (RFC 4443, section 3.2).
const PACKET_TOO_BIG: [u8; 2] = [2, 0];
/// Maximum of a report (RFC 1812, section 4.3.2.3; RFC 4443, section 2.4 c).
const MAX_IPV4_BYTES: usize = 576;
const MAX_IPV6_BYTES: usize = 1280;

/// The report to the sender of a packet. Routers have no addresses here: it comes from the packet's destination.
pub(super) fn report(packet: &IpPacket, mtu_bytes: u32) -> Option<IpPacket> {
    let whole = packet.whole();
    let (ip_bytes, max_bytes) =
        if packet.is_ipv4() { (IPV4_BYTES, MAX_IPV4_BYTES) } else { (IPV6_BYTES, MAX_IPV6_BYTES) };
    let quoted = &whole[..whole.len().min(max_bytes - ip_bytes - ICMP_BYTES)];
    let total = ip_bytes + ICMP_BYTES + quoted.len();
    let mut bytes = BytesMut::with_capacity(total);
    if packet.is_ipv4() {
        bytes.extend_from_slice(&[0x45, 0]);
        bytes.put_u16(total as u16);
        bytes.extend_from_slice(&[0, 0, 0, 0, TTL, libc::IPPROTO_ICMP as u8, 0, 0]);
        bytes.extend_from_slice(&whole[16..20]);
        bytes.extend_from_slice(&whole[12..16]);
        checksum::set_ipv4(&mut bytes);
        bytes.extend_from_slice(&FRAGMENTATION_NEEDED);
        bytes.extend_from_slice(&[0; 4]);
        bytes.put_u16(mtu_bytes as u16);
    } else {
        bytes.extend_from_slice(&[0x60, 0, 0, 0]);
        bytes.put_u16((total - IPV6_BYTES) as u16);
        bytes.extend_from_slice(&[libc::IPPROTO_ICMPV6 as u8, TTL]);
        bytes.extend_from_slice(&whole[24..40]);
        bytes.extend_from_slice(&whole[8..24]);
        bytes.extend_from_slice(&PACKET_TOO_BIG);
        bytes.extend_from_slice(&[0; 2]);
        bytes.put_u32(mtu_bytes);
    }
    bytes.extend_from_slice(quoted);
    let covered = u64::from(sum(&bytes[ip_bytes..]));
    let pseudo = if packet.is_ipv4() {
        0
    } else {
        let length = (total - IPV6_BYTES) as u64;
        u64::from(sum(&bytes[8..IPV6_BYTES])) + length + libc::IPPROTO_ICMPV6 as u64
    };
    set_word(&mut bytes, ip_bytes + 2, !checksum::fold(covered + pseudo));
    IpPacket::new(bytes.freeze(), None)
}

#[cfg(test)]
mod tests {
    use super::super::samples::{Tcp, is_right, udp};
    use super::*;
    use crate::packet::Packet;

    fn reported(v6: bool) -> (IpPacket, Vec<u8>) {
        let tcp = Tcp { v6, payload_bytes: 1400, ..Tcp::default() };
        let packet = IpPacket::new(tcp.bytes(), Some(tcp.partial())).unwrap();
        let report = packet.too_big(1420).unwrap();
        (packet, report.whole().to_vec())
    }

    #[test]
    fn an_ipv4_sender_gets_fragmentation_needed() {
        let (packet, report) = reported(false);
        assert_eq!(report.len(), 576);
        assert_eq!((&report[12..16], &report[16..20]), (&[10, 0, 0, 2][..], &[10, 0, 0, 1][..]));
        assert_eq!((report[9], &report[20..22]), (1, &[3, 4][..]));
        assert_eq!(report[26..28], 1420u16.to_be_bytes());
        assert_eq!(report[28..], packet.whole()[..548]);
        assert_eq!((sum(&report[..20]), sum(&report[20..])), (0xffff, 0xffff));
    }

    #[test]
    fn an_ipv6_sender_gets_packet_too_big() {
        let (packet, report) = reported(true);
        assert_eq!(report.len(), 1280);
        assert_eq!((report[8..24].to_vec(), report[24..40].to_vec()), {
            let whole = packet.whole();
            (whole[24..40].to_vec(), whole[8..24].to_vec())
        });
        assert_eq!((report[6], &report[40..42]), (58, &[2, 0][..]));
        assert_eq!(report[44..48], 1420u32.to_be_bytes());
        assert_eq!(report[48..], packet.whole()[..1232]);
        assert!(is_right(&report));
    }

    #[test]
    fn a_small_packet_is_quoted_completely() {
        let packet = IpPacket::new(udp(false, 30), None).unwrap();
        assert_eq!(packet.too_big(40).unwrap().len_bytes(), 20 + 8 + packet.len_bytes());
    }
}
