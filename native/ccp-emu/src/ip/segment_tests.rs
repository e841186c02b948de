//! Super-packets are split as by a network card.

use bytes::Bytes;
use proptest::prelude::*;

use super::super::samples::{ACK, Tcp, is_right, udp};
use super::super::vnet::Partial;
use super::*;
use crate::packet::Packet;

fn cut(vnet: VnetHeader, frame: Bytes) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    assert!(segments(vnet, frame, |packet| packets.push(packet.whole().to_vec())));
    packets
}

#[test]
fn one_packet_stays_as_it_is() {
    let tcp = Tcp::default();
    let packets = cut(tcp.vnet(0), tcp.bytes());
    assert_eq!(packets.len(), 1);
    assert!(is_right(&packets[0]));
    assert_eq!(packets[0][52..], tcp.bytes()[52..]);
}

#[test]
fn tcp_segments_have_their_numbers_flags_and_identifications() {
    for v6 in [false, true] {
        // Payloads of 1000, 1000 and 500 bytes. FIN and PSH belong to the last, CWR to the first.
        let flags = ACK | CWR | FIN | PSH;
        let tcp = Tcp { v6, payload_bytes: 2500, flags, sequence: u32::MAX - 1499, ..Tcp::default() };
        let packets = cut(tcp.vnet(1000), tcp.bytes());
        let at = if v6 { 40 } else { 20 };
        let number = |p: &Vec<u8>| u32::from_be_bytes([p[at + 4], p[at + 5], p[at + 6], p[at + 7]]);
        let sizes: Vec<_> = packets.iter().map(|p| p.len() - tcp.header_bytes()).collect();
        assert_eq!(sizes, [1000, 1000, 500]);
        assert_eq!(packets.iter().map(number).collect::<Vec<_>>(), [u32::MAX - 1499, u32::MAX - 499, 500]);
        let flags: Vec<_> = packets.iter().map(|p| p[at + 13]).collect();
        assert_eq!(flags, [ACK | CWR, ACK, ACK | FIN | PSH]);
        if !v6 {
            let ids: Vec<_> = packets.iter().map(|p| u16::from_be_bytes([p[4], p[5]])).collect();
            assert_eq!(ids, [0xfff0, 0xfff1, 0xfff2]);
        }
        assert!(packets.iter().all(|p| is_right(p)));
    }
}

#[test]
fn udp_datagrams_have_their_lengths() {
    for v6 in [false, true] {
        let partial = Some(Partial { start: if v6 { 40 } else { 20 }, offset: 6 });
        let vnet = VnetHeader { gso: Gso::Udp, gso_bytes: 400, header_bytes: 0, partial, cwr: false };
        let packets = cut(vnet, udp(v6, 1000));
        let at = if v6 { 40 } else { 20 };
        let lengths: Vec<_> = packets.iter().map(|p| u16::from_be_bytes([p[at + 4], p[at + 5]])).collect();
        assert_eq!(lengths, [408, 408, 208]);
        assert!(packets.iter().all(|p| is_right(p)));
    }
}

#[test]
fn what_cannot_be_cut_is_refused() {
    let tcp = Tcp { payload_bytes: 2500, ..Tcp::default() };
    let good = tcp.vnet(1000);
    for bad in [
        VnetHeader { gso_bytes: 0, ..good },
        VnetHeader { partial: None, ..good },
        VnetHeader { gso: Gso::Unknown, ..good },
        VnetHeader { partial: Some(Partial { start: 20, offset: 6 }), ..good },
        VnetHeader { partial: Some(Partial { start: 2600, offset: 16 }), ..good },
    ] {
        assert!(!segments(bad, tcp.bytes(), |_| panic!("unexpected packet")));
    }
    assert!(!segments(VnetHeader::plain(None), Bytes::from_static(b"x"), |_| panic!("unexpected packet")));
}

proptest! {
    #[test]
    fn no_byte_of_the_payload_is_lost(payload_bytes in 1usize..40_000, gso_bytes in 100u16..9000, v6 in any::<bool>()) {
        let tcp = Tcp { v6, payload_bytes, ..Tcp::default() };
        let frame = tcp.bytes();
        let mut payload = Vec::new();
        let mut packets = Vec::new();
        prop_assert!(segments(tcp.vnet(gso_bytes), frame.clone(), |packet| packets.push(packet)));
        for packet in &packets {
            let whole = packet.whole();
            prop_assert!(is_right(&whole));
            prop_assert_eq!(whole.len(), packet.len_bytes() as usize);
            prop_assert!(packet.len_bytes() as usize <= tcp.header_bytes() + usize::from(gso_bytes));
            payload.extend_from_slice(&whole[tcp.header_bytes()..]);
        }
        prop_assert_eq!(packets.len(), payload_bytes.div_ceil(usize::from(gso_bytes)));
        prop_assert_eq!(&payload[..], &frame[tcp.header_bytes()..]);
    }

    #[test]
    fn any_frame_is_taken_without_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0usize..5, gso_bytes in any::<u16>(),
        start in 0u16..300, offset in prop::sample::select(vec![6u16, 16, 300]),
    ) {
        let gso = [Gso::None, Gso::Tcp4, Gso::Tcp6, Gso::Udp, Gso::Unknown][kind];
        let vnet = VnetHeader { gso, gso_bytes, header_bytes: 0, partial: Some(Partial { start, offset }), cwr: false };
        segments(vnet, bytes.into(), |packet| { packet.whole(); });
    }
}
