//! Merged packets can be split into the same packets, and nothing else is merged.

use bytes::Bytes;
use proptest::prelude::*;

use super::super::samples::{ACK, Tcp};
use super::super::segments;
use super::*;

fn packet(tcp: Tcp) -> IpPacket {
    IpPacket::new(tcp.bytes(), Some(tcp.partial())).unwrap()
}

fn written(group: Group) -> (VnetHeader, Bytes) {
    let bytes: Vec<u8> = group.write(|parts| parts.iter().flat_map(|p| p.iter().copied()).collect());
    let header = VnetHeader::read(&bytes).unwrap();
    (header, Bytes::from(bytes).slice(10..))
}

fn whole(packet: &IpPacket) -> Vec<u8> {
    packet.whole().to_vec()
}

#[test]
fn one_packet_is_written_as_it_is() {
    let tcp = Tcp::default();
    let (vnet, bytes) = written(Group::new(packet(tcp)));
    assert_eq!(vnet, VnetHeader::plain(Some(tcp.partial())));
    assert_eq!(bytes, tcp.bytes());
}

#[test]
fn segments_that_follow_are_merged_until_one_ends_the_burst() {
    let tcp = Tcp::default();
    let mut group = Group::new(packet(tcp));
    assert!(group.add(packet(Tcp { sequence: 1100, ..tcp })).is_none());
    assert!(group.add(packet(Tcp { sequence: 1200, payload_bytes: 40, flags: ACK | PSH, ..tcp })).is_none());
    let last = packet(Tcp { sequence: 1240, ..tcp });
    assert!(group.add(last).is_some());
    let (vnet, bytes) = written(group);
    assert_eq!((vnet.gso, vnet.gso_bytes, vnet.header_bytes), (Gso::Tcp4, 100, 52));
    assert_eq!(bytes.len(), 52 + 240);
    assert_eq!(bytes[33], ACK | PSH);
}

#[test]
fn what_differs_is_not_merged() {
    let tcp = Tcp::default();
    let next = Tcp { sequence: 1100, ..tcp };
    for (name, other) in [
        ("a gap", Tcp { sequence: 1101, ..next }),
        ("a repetition", Tcp { sequence: 1000, ..next }),
        ("another flow", Tcp { source_port: 4001, ..next }),
        ("another mark", Tcp { ecn: 3, ..next }),
        ("a larger segment", Tcp { payload_bytes: 101, ..next }),
        ("no payload", Tcp { payload_bytes: 0, ..next }),
        ("other options", Tcp { options: false, ..next }),
        ("other flags", Tcp { flags: ACK | RST, ..next }),
        ("a reduced window", Tcp { flags: ACK | CWR, ..next }),
        ("another version", Tcp { v6: true, ..next }),
    ] {
        assert!(Group::new(packet(tcp)).add(packet(other)).is_some(), "{name}");
    }
    for (name, first) in [
        ("behind the end", Tcp { flags: ACK | FIN, ..tcp }),
        ("behind a push", Tcp { flags: ACK | PSH, ..tcp }),
        ("behind a start", Tcp { flags: SYN, ..tcp }),
    ] {
        assert!(Group::new(packet(first)).add(packet(next)).is_some(), "{name}");
    }
    let mut acknowledgement = packet(next).whole();
    acknowledgement[31] ^= 1;
    let other = IpPacket::new(acknowledgement.freeze(), Some(tcp.partial())).unwrap();
    assert!(Group::new(packet(tcp)).add(other).is_some());
}

#[test]
fn corrupted_packets_stay_alone() {
    let tcp = Tcp::default();
    let mut corrupted = packet(Tcp { sequence: 1100, ..tcp });
    corrupted.corrupt(999);
    let bytes = whole(&corrupted);
    assert!(Group::new(packet(tcp)).add(corrupted.clone()).is_some());
    let (vnet, written) = written(Group::new(corrupted));
    assert_eq!(vnet, VnetHeader::plain(None));
    assert_eq!(written, bytes);
}

#[test]
fn a_group_has_a_largest_size() {
    let tcp = Tcp { payload_bytes: 1448, ..Tcp::default() };
    let mut group = Group::new(packet(tcp));
    let n = (1..100)
        .take_while(|n| group.add(packet(Tcp { sequence: 1000 + n * 1448, ..tcp })).is_none())
        .count();
    // 52 + 45 * 1448 = 65,212 bytes; with one more it were above 65,535.
    assert_eq!(n + 1, 45);
    let small = Tcp { payload_bytes: 10, ..tcp };
    let mut group = Group::new(packet(small));
    let n = (1..100)
        .take_while(|n| group.add(packet(Tcp { sequence: 1000 + n * 10, ..small })).is_none())
        .count();
    assert_eq!(n + 1, MAX_SEGMENTS);
    assert_eq!(written(group).1.len(), 52 + 640);
}

proptest! {
    #[test]
    fn a_super_packet_survives_being_cut_and_merged(
        payload_bytes in 2001usize..40_000, v6 in any::<bool>(), push in any::<bool>(), options in any::<bool>(),
    ) {
        let flags = if push { ACK | PSH } else { ACK };
        let tcp = Tcp { v6, payload_bytes, flags, options, ..Tcp::default() };
        let mut packets = Vec::new();
        segments(tcp.vnet(1000), tcp.bytes(), |packet| packets.push(packet));
        let before: Vec<_> = packets.iter().map(whole).collect();
        let mut packets = packets.into_iter();
        let mut group = Group::new(packets.next().unwrap());
        for packet in packets {
            prop_assert!(group.add(packet).is_none());
        }
        let (vnet, bytes) = written(group);
        prop_assert_eq!(vnet, tcp.vnet(1000));
        prop_assert_eq!(&bytes, &tcp.bytes());
        let mut after = Vec::new();
        segments(vnet, bytes, |packet| after.push(whole(&packet)));
        prop_assert_eq!(after, before);
    }
}
