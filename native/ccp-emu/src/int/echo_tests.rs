//! Echoes: ACKs carry the path's telemetry to the sender.

use bytes::Bytes;
use ccp_ioam::{Parsed, PathEcho, read_headers};
use serde_json::{Value, json};

use super::samples::{LEFT_ID, MS, START_NS, carried, everywhere, line, network, packet, segment};
use super::*;
use crate::engine::Network;
use crate::ip::IpPacket;
use crate::ip::samples::{ACK, Tcp};

fn echoing(int: Value, asks: bool) -> Network<IpPacket> {
    let mut int = int;
    int["nodes"][1]["roles"] = json!(["transit"]); // otherwise it inserts telemetry into ACKs of hosts that do not
    (int["source"]["echo"], int["sink"]["echo"]) = (asks.into(), true.into());
    network(line(int), None)
}

/// The receiver's answer to `segment()`s.
fn answer(tcp: Tcp) -> IpPacket {
    let mut raw = Tcp { v6: true, ..tcp }.bytes().to_vec();
    for (here, there, length) in [(8, 24, 16), (40, 42, 2)] {
        (0..length).for_each(|n| raw.swap(here + n, there + n));
    }
    IpPacket::new(Bytes::from(raw), Some(Tcp { v6: true, ..tcp }.partial())).unwrap()
}

fn ack() -> Tcp {
    Tcp { payload_bytes: 0, flags: ACK, ..Tcp::default() }
}

/// Sends segments together, then, after their arrival, an answer; returns what the sender gets.
fn answered(network: &mut Network<IpPacket>, at_ns: u64, segments: u32, tcp: Tcp) -> IpPacket {
    let mut deliveries = Vec::new();
    (0..segments).for_each(|number| network.arrive(at_ns, 0, 1, packet(segment(number))));
    network.advance(at_ns + 50 * MS, &mut deliveries);
    assert_eq!(deliveries.drain(..).count(), segments as usize);
    network.arrive(at_ns + 50 * MS, 1, 0, answer(tcp));
    network.advance(at_ns + 100 * MS, &mut deliveries);
    deliveries.remove(0).packet
}

fn echo_in(packet: &mut IpPacket) -> Option<PathEcho> {
    let extension = packet.extension_mut()?.take()?;
    let mut found = read_headers(&extension.raw, extension.first);
    match found.next()?.unwrap().option {
        Parsed::PathEcho(echo) => Some(echo),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_ack_reports_what_the_last_packet_found_and_the_next_one_nothing() {
    let mut network = echoing(everywhere(), true);
    let mut came = answered(&mut network, START_NS, 4, ack());
    // After the first, which is in transmission, two waited at the left router's link, which has room for ten.
    let echo = echo_in(&mut came).unwrap();
    let state = (echo.hops, echo.hop, echo.node_id, echo.queue_pkts, echo.free_pkts, echo.flow_count);
    assert_eq!(state, (3, Some(2), Some(LEFT_ID), Some(2), Some(8), Some(1)));
    assert_eq!((echo.all_known, echo.sent_s, echo.sent_us), (true, 1_700_000_000, 0));
    assert_eq!((echo.losses_congestion, echo.losses_link, echo.losses_unknown), (0, 0, 0));
    let mut as_sent = answer(ack());
    (0..2).for_each(|_| assert!(as_sent.hop()));
    assert_eq!(came.whole(), as_sent.whole());

    let mut next = answered(&mut network, START_NS + 100 * MS, 0, ack());
    assert_eq!(echo_in(&mut next), None);
    let counters = network.telemetry_mut().unwrap().counters();
    assert_eq!((counters.reflected_pkts, counters.inserted_pkts), (1, 4));
}

#[test]
fn only_acks_without_data_bring_news_and_it_waits_for_one() {
    let mut network = echoing(everywhere(), true);
    for (n, tcp) in [
        Tcp { payload_bytes: 10, ..ack() },
        Tcp { flags: ACK | 1, ..ack() },
        Tcp { flags: ACK | 2, ..ack() },
        Tcp { flags: 4, ..ack() },
    ]
    .into_iter()
    .enumerate()
    {
        let mut came = answered(&mut network, START_NS + n as u64 * 100 * MS, 1, tcp);
        assert_eq!(echo_in(&mut came), None, "{:#x}", tcp.flags);
    }
    let mut came = answered(&mut network, START_NS + 400 * MS, 0, ack());
    assert_eq!(echo_in(&mut came).unwrap().sent_us, 300_000);
}

#[test]
fn none_echoes_unless_the_source_asks() {
    let mut network = echoing(everywhere(), false);
    let mut came = answered(&mut network, START_NS, 1, ack());
    assert_eq!(echo_in(&mut came), None);
}

#[test]
fn a_host_that_sends_telemetry_itself_puts_its_echo_in_place_of_that() {
    let mut int = everywhere();
    int["nodes"][0]["roles"] = json!(["source", "transit", "sink"]);
    int["nodes"][3]["roles"] = json!(["source", "transit", "sink"]);
    let mut network = echoing(int, true);
    network.tap("l2<").unwrap();
    answered(&mut network, START_NS, 0, ack());
    let mut came = answered(&mut network, START_NS + 100 * MS, 1, ack());
    assert!(echo_in(&mut came).is_some());
    answered(&mut network, START_NS + 200 * MS, 0, ack());
    // It was counted: the sender's sink misses none.
    let numbers = network.take_tapped().into_iter().map(|mut tapped| carried(&mut tapped.packet).1);
    let numbers: Vec<_> = numbers.map(|edge| edge.and_then(|edge| edge.sequence)).collect();
    assert_eq!(numbers, [Some(0), None, Some(2)]);
    let mut summaries = Vec::new();
    network.telemetry_mut().unwrap().take(START_NS + 400 * MS, &mut summaries);
    let back = summaries.iter().filter(|one| one.flow.src_port == 5001);
    assert_eq!(back.map(|one| (one.received_pkts, one.lost_pkts)).collect::<Vec<_>>(), [(3, Some(0))]);
}
