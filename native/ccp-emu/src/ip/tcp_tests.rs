//! Changes to acknowledgments, checked as by a receiver.

use bytes::Bytes;

use super::super::samples::{Tcp as Sample, is_right};
use super::*;

const TCP_BYTES: usize = 20;

/// An ACK of 77 with SACK ranges in place of the timestamp, with a partial or a complete checksum.
fn ack(v6: bool, flags: u8, ranges: &[(u32, u32)], is_partial: bool) -> IpPacket {
    let sample = Sample { v6, flags, payload_bytes: 0, ..Sample::default() };
    let mut bytes = sample.bytes().to_vec();
    let options = sample.header_bytes() - 12;
    if let [(begin, end)] = ranges {
        bytes[options..options + 4].copy_from_slice(&[NOP, NOP, SACK, 10]);
        bytes[options + 4..options + 8].copy_from_slice(&begin.to_be_bytes());
        bytes[options + 8..options + 12].copy_from_slice(&end.to_be_bytes());
    }
    let partial = IpPacket::new(Bytes::from(bytes), Some(sample.partial())).unwrap();
    if is_partial { partial } else { IpPacket::new(partial.whole().freeze(), None).unwrap() }
}

#[test]
fn data_and_acknowledgments_of_a_connection_have_one_flow() {
    for v6 in [false, true] {
        let data = Sample { v6, ..Sample::default() };
        let packet = IpPacket::new(data.bytes(), Some(data.partial())).unwrap();
        let (flow, first, end) = packet.sent().unwrap();
        assert_eq!((first, end, packet.acked()), (1000, 1100, None));
        let (acked, number) = ack(v6, ACK, &[], true).acked().unwrap();
        assert_eq!((acked, number), (flow.reversed(), 77));
    }
}

#[test]
fn a_fin_takes_a_number_and_handshakes_are_left_alone() {
    let of = |flags, payload_bytes| {
        let sample = Sample { flags, payload_bytes, ..Sample::default() };
        let packet = IpPacket::new(sample.bytes(), Some(sample.partial())).unwrap();
        (packet.sent().map(|(_, first, end)| (first, end)), packet.acked().is_some())
    };
    assert_eq!(of(ACK | FIN, 0), (Some((1000, 1001)), false));
    assert_eq!(of(ACK | FIN, 9), (Some((1000, 1010)), false));
    assert_eq!(of(ACK | SYN, 0), (None, false));
    assert_eq!(of(SYN | ECE, 0), (None, false));
    assert_eq!(of(ACK | RST, 0), (None, false));
    assert_eq!(of(ACK, 0), (None, true));
}

#[test]
fn a_changed_number_keeps_a_right_checksum() {
    for (v6, is_partial) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut packet = ack(v6, ACK | ECE, &[(500, 600)], is_partial);
        assert!(is_right(&packet.whole()));
        packet.set_acked(400);
        packet.clear_ece();
        let whole = packet.whole();
        assert!(is_right(&whole));
        assert_eq!(packet.acked().unwrap().1, 400);
        let tcp = &whole[whole.len() - TCP_BYTES - 12..];
        assert_eq!((tcp[FLAGS_AT], tcp[OPTIONS_AT + 2]), (ACK, SACK));
    }
}

#[test]
fn ranges_below_the_number_are_removed() {
    let mut packet = ack(false, ACK, &[(500, 600)], false);
    packet.set_acked(501);
    let whole = packet.whole();
    assert!(is_right(&whole));
    assert_eq!(whole[whole.len() - 10..], [NOP; 10]);
}

#[test]
fn malformed_options_end_the_search() {
    for options in [&mut [SACK, 0, 0, 0][..], &mut [SACK], &mut [SACK, 40, 0, 0], &mut [NOP, 8]] {
        let before = options.to_vec();
        remove_sacks_below(options, u32::MAX);
        assert_eq!(options, before);
    }
}
