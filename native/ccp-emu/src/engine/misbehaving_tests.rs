//! Acknowledgments of misbehaving receivers.

use std::net::Ipv6Addr;

use ccp_int::Protocol;

use super::*;
use crate::packet::Ecn;

const SENDER: usize = 0;
const RECEIVER: usize = 1;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Tcp {
    Data(u32, u32),
    Ack { number: u32, ece: bool },
    Other,
}

impl Packet for Tcp {
    fn len_bytes(&self) -> u32 {
        100
    }
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    fn mark_ce(&mut self) {}
    fn flow_id(&self) -> u64 {
        0
    }
    fn hop(&mut self) -> bool {
        true
    }
    fn corrupt(&mut self, _choice: u64) {}
    fn tcp_sent(&self) -> Option<(FlowKey, u32, u32)> {
        if let Tcp::Data(first, end) = self { Some((flow(), *first, *end)) } else { None }
    }
    fn tcp_acked(&self) -> Option<(FlowKey, u32)> {
        if let Tcp::Ack { number, .. } = self { Some((flow(), *number)) } else { None }
    }
    fn acknowledge(&mut self, acked: u32) {
        if let Tcp::Ack { number, .. } = self {
            *number = acked;
        }
    }
    fn hide_marks(&mut self) {
        if let Tcp::Ack { ece, .. } = self {
            *ece = false;
        }
    }
}

fn flow() -> FlowKey {
    let any = Ipv6Addr::UNSPECIFIED;
    FlowKey { src: any, dst: any, src_port: 1, dst_port: 2, protocol: Protocol::Tcp }
}

fn ack(number: u32) -> Tcp {
    Tcp::Ack { number, ece: true }
}

fn misbehaving(how: Misbehaviour) -> Misbehaving {
    let node =
        |name: &str, misbehaves| Node { name: name.to_owned(), addresses: vec![], tun: None, misbehaves };
    Misbehaving::new(&[node("sender", None), node("receiver", Some(how))]).unwrap()
}

/// What enters the network instead of packets from these hosts.
fn changed(how: Misbehaviour, packets: &[(usize, Tcp)]) -> Vec<Tcp> {
    let mut misbehaving = misbehaving(how);
    let mut got = Vec::new();
    for (from, packet) in packets {
        misbehaving.change(*from, 1 - from, *packet, |packet| got.push(packet));
    }
    got
}

#[test]
fn a_network_of_honest_receivers_has_none() {
    let node = Node { name: "a".to_owned(), addresses: vec![], tun: None, misbehaves: None };
    assert!(Misbehaving::new(std::slice::from_ref(&node)).is_none());
    let node = Node { misbehaves: Some(Misbehaviour::default()), ..node };
    assert!(Misbehaving::new(&[node]).is_none());
}

#[test]
fn an_ack_is_divided_into_parts_of_its_bytes() {
    let how = Misbehaviour { ack_division: 3, ..Misbehaviour::default() };
    let start = u32::MAX - 99; // wraps
    let end = start.wrapping_add(1000);
    let packets =
        [(SENDER, Tcp::Data(start, end)), (RECEIVER, ack(start)), (RECEIVER, ack(end)), (RECEIVER, ack(end))];
    let parts = [start, start.wrapping_add(333), start.wrapping_add(666), end, end];
    assert_eq!(changed(how, &packets)[1..], parts.map(ack));
}

#[test]
fn an_ack_of_few_bytes_is_divided_into_as_many() {
    let how = Misbehaviour { ack_division: 100, ..Misbehaviour::default() };
    let packets = [(SENDER, Tcp::Data(10, 1000)), (RECEIVER, ack(10)), (RECEIVER, ack(12))];
    assert_eq!(changed(how, &packets)[1..], [10, 11, 12].map(ack));
}

#[test]
fn all_that_was_sent_is_acknowledged_after_64_kib() {
    let how = Misbehaviour { optimistic: true, ..Misbehaviour::default() };
    let packets = [
        (SENDER, Tcp::Data(0, 1000)),
        (RECEIVER, ack(500)),
        (SENDER, Tcp::Data(1000, 65_537)),
        (SENDER, Tcp::Data(2000, 3000)), // again, and not newer
        (RECEIVER, ack(1000)),
        (RECEIVER, Tcp::Other),
    ];
    let got = changed(how, &packets);
    assert_eq!([got[1], got[4], got[5]], [ack(500), ack(65_537), Tcp::Other]);
}

#[test]
fn only_acks_from_the_misbehaving_host_are_changed() {
    let how = Misbehaviour { ack_division: 2, optimistic: true, hides_marks: true };
    let packets = [(SENDER, Tcp::Data(0, 100_000)), (SENDER, ack(500)), (RECEIVER, Tcp::Data(0, 90_000))];
    assert_eq!(changed(how, &packets), packets.map(|(_, packet)| packet));
}

#[test]
fn marks_are_hidden() {
    let how = Misbehaviour { hides_marks: true, ..Misbehaviour::default() };
    assert_eq!(changed(how, &[(RECEIVER, ack(7))]), [Tcp::Ack { number: 7, ece: false }]);
}
