//! Changes to packets, checked as by a receiver.

use bytes::Bytes;
use proptest::prelude::*;

use super::super::samples::{Tcp, ip_header_is_right, is_right, udp};
use super::*;

fn tcp(v6: bool) -> IpPacket {
    let tcp = Tcp { v6, ..Tcp::default() };
    IpPacket::new(tcp.bytes(), Some(tcp.partial())).unwrap()
}

#[test]
fn what_is_no_ip_packet_is_none() {
    for bytes in [&[][..], &[0x45; 19], &[0x60; 39], &[0x20; 60], &[0x44; 60]] {
        assert!(IpPacket::new(Bytes::copy_from_slice(bytes), None).is_none());
    }
    // A checksum beyond the end of the packet.
    let partial = Some(Partial { start: 20, offset: 16 });
    assert!(IpPacket::new(Bytes::from_static(&[0x45; 37]), partial).is_none());
}

#[test]
fn destinations_are_read() {
    assert_eq!(tcp(false).destination(), "10.0.0.2".parse::<IpAddr>().unwrap());
    assert_eq!(tcp(true).destination(), "fd00::2".parse::<IpAddr>().unwrap());
}

#[test]
fn ecn_is_read_and_marked() {
    for v6 in [false, true] {
        for (bits, ecn) in [(0, Ecn::NotEct), (1, Ecn::Ect1), (2, Ecn::Ect0), (3, Ecn::Ce)] {
            let tcp = Tcp { v6, ecn: bits, ..Tcp::default() };
            let mut packet = IpPacket::new(tcp.bytes(), Some(tcp.partial())).unwrap();
            assert_eq!(packet.ecn(), ecn);
            packet.mark_ce();
            assert_eq!(packet.ecn(), Ecn::Ce);
            assert!(is_right(&packet.whole()));
        }
    }
}

#[test]
fn a_hop_takes_one_and_the_last_is_the_end() {
    for v6 in [false, true] {
        let mut packet = tcp(v6);
        for _ in 0..63 {
            assert!(packet.hop());
            assert!(ip_header_is_right(packet.head()));
        }
        assert!(!packet.hop());
    }
}

#[test]
fn the_whole_packet_has_its_checksums() {
    for v6 in [false, true] {
        assert!(is_right(&tcp(v6).whole()));
        let partial = Partial { start: if v6 { 40 } else { 20 }, offset: 6 };
        for payload_bytes in [0, 1, 17, 1000] {
            let packet = IpPacket::new(udp(v6, payload_bytes), Some(partial)).unwrap();
            assert!(is_right(&packet.whole()));
        }
    }
}

#[test]
fn a_udp_checksum_that_comes_to_zero_is_written_as_ffff() {
    // The payload is chosen so that the total sum is ffff.
    let partial = Partial { start: 20, offset: 6 };
    let plain = IpPacket::new(udp(false, 2), Some(partial)).unwrap().whole();
    let missing = u16::from_be_bytes([plain[26], plain[27]]);
    let mut bytes = udp(false, 2).to_vec();
    bytes[28..30].copy_from_slice(&missing.to_be_bytes());
    let whole = IpPacket::new(bytes.into(), Some(partial)).unwrap().whole();
    assert_eq!(whole[26..28], [0xff, 0xff]);
    assert!(is_right(&whole));
}

proptest! {
    #[test]
    fn a_corrupted_packet_fails_the_receivers_checksum_and_nothing_else(
        v6 in any::<bool>(), payload_bytes in 0usize..1461, choice in any::<u64>(), is_udp in any::<bool>(),
    ) {
        let start = if v6 { 40 } else { 20 };
        let mut packet = if is_udp {
            IpPacket::new(udp(v6, payload_bytes), Some(Partial { start, offset: 6 })).unwrap()
        } else {
            let tcp = Tcp { v6, payload_bytes, ..Tcp::default() };
            IpPacket::new(tcp.bytes(), Some(tcp.partial())).unwrap()
        };
        let before = packet.whole();
        packet.corrupt(choice);
        let after = packet.whole();
        prop_assert!(ip_header_is_right(&after));
        prop_assert!(!is_right(&after));
        prop_assert!(packet.partial().is_none());
        let flipped: u32 = before.iter().zip(&after).map(|(a, b)| (a ^ b).count_ones()).sum();
        prop_assert_eq!(flipped, 1);
    }

    #[test]
    fn any_bytes_are_taken_without_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200), start in any::<u16>(), offset in any::<u16>(),
        has_partial in any::<bool>(), choice in any::<u64>(),
    ) {
        let partial = has_partial.then_some(Partial { start: start % 256, offset: offset % 32 });
        if let Some(mut packet) = IpPacket::new(bytes.into(), partial) {
            packet.mark_ce();
            packet.hop();
            packet.destination();
            prop_assert_eq!(packet.whole().len(), packet.len_bytes() as usize);
            packet.corrupt(choice);
        }
    }
}
