//! Packets with extension headers are split and reassembled, byte for byte.

use std::io::IoSlice;

use proptest::prelude::*;

use super::super::samples::{Tcp, after_ip, is_right, udp};
use super::super::vnet::VnetHeader;
use super::super::{Group, IpPacket, segments};
use super::*;
use crate::packet::Packet;

/// A Hop-by-Hop Options header of 16 bytes and a Destination Options header of 8, before TCP.
fn headers() -> Vec<u8> {
    let mut headers = vec![60, 1, 0x31, 12];
    headers.extend([7; 12]);
    headers.extend([6, 0, 1, 4, 0, 0, 0, 0]);
    headers
}

/// As received from a host.
fn frame(tcp: Tcp, gso_bytes: u16) -> (VnetHeader, Bytes) {
    let vnet = tcp.vnet(gso_bytes);
    let partial = Partial { start: 40 + headers().len() as u16, offset: 16 };
    let header_bytes = if gso_bytes > 0 { vnet.header_bytes + headers().len() as u16 } else { 0 };
    let vnet = VnetHeader { header_bytes, partial: Some(partial), ..vnet };
    (vnet, after_ip(&tcp.bytes(), HOP_BY_HOP, &headers()).into())
}

fn cut(vnet: VnetHeader, bytes: Bytes) -> Vec<IpPacket> {
    let mut packets = Vec::new();
    assert!(segments(vnet, bytes, |packet| packets.push(packet)));
    packets
}

fn written(group: Group) -> Vec<u8> {
    group.write(|parts: &[IoSlice<'_>]| parts.iter().flat_map(|p| p.iter().copied()).collect())
}

#[test]
fn a_packet_is_written_as_it_was_read() {
    let tcp = Tcp { v6: true, ..Tcp::default() };
    let (vnet, bytes) = frame(tcp, 0);
    let packet = cut(vnet, bytes.clone()).remove(0);
    assert_eq!(packet.len_bytes() as usize, bytes.len());
    assert_eq!(packet.head().len(), tcp.header_bytes());
    let written = written(Group::new(packet.clone()));
    assert_eq!(VnetHeader::read(&written), Some(VnetHeader::plain(vnet.partial)));
    assert_eq!(&written[10..], &bytes[..]);

    let plain = IpPacket::new(tcp.bytes(), Some(tcp.partial())).unwrap().whole();
    assert!(is_right(&plain));
    assert_eq!(packet.whole(), after_ip(&plain, HOP_BY_HOP, &headers())[..]);
}

#[test]
fn segments_of_a_super_packet_have_copies() {
    let tcp = Tcp { v6: true, payload_bytes: 2500, ..Tcp::default() };
    let (vnet, bytes) = frame(tcp, 1000);
    let plain: Vec<_> = cut(tcp.vnet(1000), tcp.bytes()).iter().map(IpPacket::whole).collect();
    let packets: Vec<_> = cut(vnet, bytes).iter().map(|packet| packet.whole().to_vec()).collect();
    let expected: Vec<_> = plain.iter().map(|whole| after_ip(whole, HOP_BY_HOP, &headers())).collect();
    assert_eq!(packets.len(), 3);
    assert_eq!(packets, expected);
}

#[test]
fn packets_are_merged_if_their_headers_are_the_same() {
    let tcp = Tcp { v6: true, payload_bytes: 2000, ..Tcp::default() };
    let (vnet, bytes) = frame(tcp, 1000);
    let packets = cut(vnet, bytes.clone());
    let mut group = Group::new(packets[0].clone());
    assert!(group.add(packets[1].clone()).is_none());
    assert_eq!(written(group), [&vnet.write(), &bytes[..]].concat());
    let mut other = packets[1].clone();
    other.extension_mut().unwrap().as_mut().unwrap().raw[4] ^= 1;
    assert!(Group::new(packets[0].clone()).add(other).is_some());
    assert!(Group::new(packets[0].clone()).add(packets[1].clone().with_extension(None)).is_some());
    let bare: Vec<_> = packets.into_iter().map(|packet| packet.with_extension(None)).collect();
    assert!(Group::new(bare[0].clone()).add(bare[1].clone()).is_none());
}

#[test]
fn a_flipped_bit_is_one_that_a_checksum_covers() {
    let (vnet, bytes) = frame(Tcp { v6: true, payload_bytes: 3, ..Tcp::default() }, 0);
    let before = cut(vnet, bytes).remove(0);
    for choice in 0..1000 {
        let mut packet = before.clone();
        packet.corrupt(choice);
        let whole = packet.whole();
        assert_eq!(whole[..64], before.whole()[..64]);
        assert!(!is_right(&packet.with_extension(None).whole()));
    }
}

#[test]
fn what_cannot_be_followed_stays_where_it_is() {
    let udp = udp(true, 100);
    let partial = Some(Partial { start: 40, offset: 6 });
    for (name, first, raw, partial) in [
        ("no headers", 17, vec![], partial),
        ("the checksum begins within them", 0, vec![17, 0, 1, 4, 0, 0, 0, 0], partial),
        ("longer than the packet", 0, vec![17, 200, 1, 4, 0, 0, 0, 0], None),
        ("another header in front", 43, vec![17, 0, 1, 4, 0, 0, 0, 0], None),
    ] {
        let bytes = Bytes::from(after_ip(&udp, first, &raw));
        let (same, unchanged, extension) = take_out(bytes.clone(), partial);
        assert!(extension.is_none() && unchanged == partial && same == bytes, "{name}");
    }
    let second = Bytes::from(after_ip(&udp, 60, &[0, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0]));
    let (rest, _, extension) = take_out(second, None);
    let extension = extension.unwrap();
    assert_eq!((extension.first, extension.raw.len(), rest[6]), (60, 8, HOP_BY_HOP));
}

proptest! {
    #[test]
    fn whatever_comes_goes_out_as_it_came(
        tail in prop::collection::vec(any::<u8>(), 0..120), next in prop::sample::select(vec![0u8, 6, 17, 43, 60]),
        chain in prop::collection::vec(prop::sample::select(vec![0u8, 1, 6, 17, 60]), 0..40),
    ) {
        let mut bytes = udp(true, 0)[..40].to_vec();
        let behind = [chain, tail].concat();
        bytes[4..6].copy_from_slice(&(behind.len() as u16).to_be_bytes());
        bytes[6] = next;
        bytes.extend(behind);
        let packets = cut(VnetHeader::plain(None), bytes.clone().into());
        prop_assert_eq!(&packets[0].whole()[..], &bytes[..]);
        prop_assert_eq!(packets[0].len_bytes() as usize, bytes.len());
        prop_assert_eq!(&written(Group::new(packets[0].clone()))[10..], &bytes[..]);
    }
}
