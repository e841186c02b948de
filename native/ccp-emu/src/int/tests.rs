//! Networks with telemetry, in virtual time: the exact content of packets at each place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use ccp_int::RATE_TIME_NS;
use ccp_ioam::{IoamOption, Node, Snapshot, State, TcpState, TraceOption, TraceType};
use serde_json::{Value, json};

use super::samples::{MS, START_NS, US, carried, checked_line, everywhere, line, network, packet, segment};
use super::*;
use crate::engine::{Delivery, Network, Tapped};
use crate::ip::IpPacket;
use crate::ip::samples::{Tcp, udp};
use crate::spec::{Loss, Queue};

fn run(network: &mut Network<IpPacket>, until_ns: u64) -> Vec<Delivery<IpPacket>> {
    let mut deliveries = Vec::new();
    network.advance(until_ns, &mut deliveries);
    deliveries
}

fn node(
    node_id: u32,
    hop_limit: u8,
    links: (Option<u16>, u16),
    at_us: u32,
    delay_us: u64,
    depth: u32,
    state: State,
) -> Node {
    Node {
        hop_limit: Some(hop_limit),
        node_id: Some(node_id),
        ingress_if: links.0,
        egress_if: Some(links.1),
        timestamp_s: Some(1_700_000_000),
        timestamp_fraction: Some(at_us),
        transit_delay_ns: Some(delay_us * US),
        queue_depth: Some(depth),
        snapshot: Some(Snapshot::Ccplane(state)),
        ..Node::default()
    }
}

#[test]
fn every_node_writes_what_the_packet_found() {
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let windows: Windows = Box::new(move |flow| {
        count.fetch_add(1, Ordering::Relaxed);
        assert_eq!((flow.src_port, flow.dst_port), (4000, 5001));
        Some(TcpState { cwnd_bytes: Some(14_480), mss_bytes: Some(1208), ..TcpState::default() })
    });
    let mut network = network(line(everywhere()), Some(windows));
    let link = network.tap("l2>").unwrap();
    (0..4).for_each(|number| network.arrive(START_NS, 0, 1, packet(segment(number))));
    let delivered = run(&mut network, START_NS + 100 * MS);
    let mut tapped = network.take_tapped();
    assert_eq!((tapped.len(), delivered.len(), tapped[0].link), (4, 4, link));
    // For packets that arrive together, the kernel is asked once.
    assert_eq!(asked.load(Ordering::Relaxed), 1);

    // The last of four that arrived together: one is in transmission and two wait before it.
    let (nodes, edge, state) = carried(&mut tapped[3].packet);
    let edge = edge.unwrap();
    assert_eq!(
        (edge.sequence, edge.timestamp_s, edge.timestamp_fraction),
        (Some(3), Some(1_700_000_000), Some(0))
    );
    assert_eq!(
        state,
        Some(TcpState { cwnd_bytes: Some(14_480), mss_bytes: Some(1208), ..TcpState::default() })
    );
    // For four packets at this distance, as a mean over the meter's time.
    let rate = |gap_ns: u64| {
        let ages = (0..4u64).map(|n| (n * gap_ns) as f64 / RATE_TIME_NS as f64);
        (ages.map(|age| (-age).exp()).sum::<f64>() * 1e9 / RATE_TIME_NS as f64).round() as u32
    };
    let state = |free, rate, link_rate_bytes_per_s| State {
        queue_free_pkts: Some(free),
        arrival_pkts_per_s: Some(rate),
        flow_count: Some(1),
        lost_pkts: Some(0),
        link_rate_bytes_per_s,
        flow_missing_pkts: Some(0),
        flow_dropped_pkts: Some(0),
        ..State::default()
    };
    let radio = State {
        rssi_dbm: Some(-61.5),
        snr_db: Some(33.25),
        mcs: Some(7),
        data_rate_bytes_per_s: Some(8_125_000),
        ..state(20, rate(MS), None)
    };
    assert_eq!(
        nodes,
        [
            node(1, 64, (None, 1), 0, 0, 0, state(20, rate(0), None)),
            node(2, 63, (Some(1), 3), 100, 3000, 2, state(8, rate(0), Some(1_480_000))),
            node(3, 62, (Some(3), 5), 6100, 0, 0, radio),
        ]
    );

    let counters = network.telemetry_mut().unwrap().counters();
    assert_eq!((counters.inserted_pkts, counters.filled_pkts, counters.removed_pkts), (4, 12, 4));
    for (delivery, number) in delivered.into_iter().zip(0..) {
        let mut as_sent = packet(segment(number));
        (0..2).for_each(|_| assert!(as_sent.hop()));
        assert_eq!(delivery.packet.whole(), as_sent.whole());
    }
}

/// Numbers of the packets that reached the end of a link, and the three nodes' counts of the flow.
fn counted(tapped: Vec<Tapped<IpPacket>>, link: usize) -> Vec<(u64, Vec<(u64, u64)>)> {
    let tapped = tapped.into_iter().filter(|tapped| tapped.link == link);
    tapped
        .map(|mut tapped| {
            let (nodes, edge, _) = carried(&mut tapped.packet);
            let counts = nodes.iter().map(|node| match node.snapshot {
                Some(Snapshot::Ccplane(state)) => {
                    (state.flow_missing_pkts.unwrap(), state.flow_dropped_pkts.unwrap())
                }
                _ => panic!("unexpected node"),
            });
            (edge.unwrap().sequence.unwrap(), counts.collect())
        })
        .collect()
}

#[test]
fn nodes_count_what_a_flow_lacks_and_what_their_own_queue_dropped() {
    let codel = Queue::CoDel { target_us: 5000, interval_us: 100_000, ecn: false };
    for queue in [Queue::default(), codel] {
        let mut spec = line(everywhere());
        spec.links[0].direction.loss = Some(Loss::Bernoulli { ratio: 0.1 });
        spec.links[2].direction.queue = queue;
        let mut network = network(spec, None);
        let (first, last) = (network.tap("l0>").unwrap(), network.tap("l2>").unwrap());
        // Three packets in two milliseconds; the link carries two.
        for number in 0..3000 {
            let now_ns = START_NS + u64::from(number) * 2 * MS / 3;
            network.advance(now_ns, &mut Vec::new());
            network.arrive(now_ns, 0, 1, packet(segment(number)));
        }
        run(&mut network, START_NS + 10_000 * MS);
        let sample = network.sample(2);
        let dropped_pkts = sample.counters.dropped_queue_pkts + sample.counters.dropped_aqm_pkts;
        let mut tapped = network.take_tapped();
        let came: Vec<u64> = tapped
            .iter_mut()
            .filter(|tapped| tapped.link == first)
            .map(|tapped| carried(&mut tapped.packet).1.unwrap().sequence.unwrap())
            .collect();
        let reported = counted(tapped, last);
        assert!(
            dropped_pkts > 100 && came.len() < 2800 && reported.len() + dropped_pkts as usize == came.len()
        );
        for (at, (number, counts)) in reported.iter().enumerate() {
            let not_come = number - came.partition_point(|other| other < number) as u64 - came[0];
            let gone = number - at as u64 - came[0];
            assert_eq!(counts, &[(0, 0), (not_come, gone - not_come), (gone, 0)], "{number} {queue:?}");
        }
    }
}

#[test]
fn a_router_that_is_everything_fills_its_own_slot_before_it_takes_headers_off() {
    let mut int = everywhere();
    int["nodes"] = json!([{"node": 2, "roles": ["source", "transit", "sink"], "node_id": 2}]);
    let mut network = network(line(int), None);
    network.tap("l1>").unwrap();
    network.arrive(START_NS, 0, 1, packet(segment(0)));
    network.arrive(START_NS, 0, 1, packet(segment(1)));
    let delivered = run(&mut network, START_NS + 100 * MS);
    assert_eq!(delivered.len(), 2);
    let bare_bytes = packet(segment(0)).len_bytes();
    assert!(network.take_tapped().iter().all(|tapped| tapped.packet.len_bytes() == bare_bytes));
    let counters = network.telemetry_mut().unwrap().counters();
    let expected =
        IntCounters { inserted_pkts: 2, filled_pkts: 2, removed_pkts: 2, ..IntCounters::default() };
    assert_eq!(counters, expected);
    // The second packet waited for the first, for the length of its own bytes.
    let mut summaries = Vec::new();
    network.telemetry_mut().unwrap().take(START_NS + 100 * MS, &mut summaries);
    let wait_us = u64::from(bare_bytes) * 1_000_000 / 1_480_000;
    assert_eq!((summaries[0].received_pkts, summaries[0].latency_us), (2, Some(wait_us / 2)));
    assert_eq!(summaries[0].hops[0].transit_delay_us, Some(wait_us / 2));
}

#[test]
fn one_packet_in_n_carries_headers_and_the_others_count() {
    let mut int = everywhere();
    int["source"]["every_pkts"] = 3.into();
    let mut network = network(line(int), None);
    network.tap("l0>").unwrap();
    (0..7).for_each(|number| network.arrive(START_NS, 0, 1, packet(segment(number))));
    run(&mut network, START_NS + MS);
    let sequences: Vec<_> = network
        .take_tapped()
        .iter_mut()
        .map(|t| carried(&mut t.packet).1.and_then(|edge| edge.sequence))
        .collect();
    // The left router is also a source: it numbers packets that arrive without headers.
    assert_eq!(sequences, [Some(0), None, None, Some(3), None, None, Some(6)]);
}

#[test]
fn what_is_no_tcp_or_udp_over_ipv6_carries_nothing() {
    let mut network = network(line(everywhere()), None);
    let icmp = {
        let mut bytes = udp(true, 20).to_vec();
        bytes[6] = 58;
        IpPacket::new(Bytes::from(bytes), None).unwrap()
    };
    let ipv4 = packet(Tcp { v6: false, ..segment(0) });
    network.arrive(START_NS, 0, 1, icmp);
    network.arrive(START_NS, 0, 1, ipv4);
    assert_eq!(run(&mut network, START_NS + 100 * MS).len(), 2);
    assert_eq!(network.telemetry_mut().unwrap().counters(), IntCounters::default());
    // IPv4 also counts as a flow.
    network.tap("l0>").unwrap();
    network.arrive(START_NS + 100 * MS, 0, 1, IpPacket::new(udp(true, 20), None).unwrap());
    run(&mut network, START_NS + 101 * MS);
    let (nodes, _, state) = carried(&mut network.take_tapped()[0].packet);
    let Some(Snapshot::Ccplane(found)) = nodes[0].snapshot else { panic!("no snapshot") };
    assert_eq!((found.flow_count, state), (Some(2), Some(TcpState::default())));
}

#[test]
fn packets_that_would_be_too_large_go_without() {
    let mut network = network(line(everywhere()), None);
    network.arrive(START_NS, 0, 1, packet(Tcp { payload_bytes: 1300, ..segment(0) }));
    let delivered = run(&mut network, START_NS + 100 * MS);
    assert_eq!(delivered[0].packet.len_bytes(), 1372);
    let counters = network.telemetry_mut().unwrap().counters();
    // The left router would also have inserted them.
    assert_eq!((counters.inserted_pkts, counters.no_room_pkts), (0, 2));
}

#[test]
fn headers_of_hosts_are_filled_and_taken_off_and_other_options_stay() {
    let mut int = everywhere();
    int["nodes"][0]["roles"] = json!(["transit"]);
    int["source"]["max_nodes"] = 2.into();
    let mut network = network(line(int), None);
    // A trace for one node, and a third-party option.
    let trace =
        TraceOption { trace_type: TraceType(TraceType::NODE), remaining_words: 2, ..Default::default() };
    let made = ccp_ioam::build(&[IoamOption::Trace(trace)], 60).unwrap().hop_by_hop;
    let other = [6, 0, 5, 4, 0, 0, 0, 0];
    let host = |raw: Vec<u8>| {
        let mut packet = packet(segment(0));
        *packet.extension_mut().unwrap() = Some(Box::new(Extension { first: HOP_BY_HOP, raw, later: None }));
        packet
    };
    network.tap("l2>").unwrap();
    network.arrive(START_NS, 0, 1, host([made, other.to_vec()].concat()));
    let mut delivered = run(&mut network, START_NS + 100 * MS);
    let (nodes, _, _) = carried(&mut network.take_tapped()[0].packet);
    assert_eq!(nodes.iter().map(|node| node.node_id).collect::<Vec<_>>(), [Some(1), Some(2)]);
    let rest = delivered[0].packet.extension_mut().unwrap().take().unwrap();
    assert_eq!((rest.first, &rest.raw[..]), (60, &other[..]));
    let expected =
        IntCounters { filled_pkts: 2, overflowed_pkts: 1, removed_pkts: 1, ..IntCounters::default() };
    assert_eq!(network.telemetry_mut().unwrap().counters(), expected);

    // An option that ends after its header is unreadable, and stays unchanged.
    let broken = vec![6, 0, 0x31, 200, 0, 0, 0, 0];
    network.arrive(START_NS + 100 * MS, 0, 1, host(broken.clone()));
    let mut delivered = run(&mut network, START_NS + 200 * MS);
    assert_eq!(delivered[0].packet.extension_mut().unwrap().take().unwrap().raw, broken);
    assert_eq!(network.telemetry_mut().unwrap().counters().unreadable_pkts, 3);
}

#[test]
fn what_sinks_say_does_not_depend_on_how_often_time_is_reported() {
    let mut int = everywhere();
    // The left router is the sink, and its packets continue to nodes without a role.
    int["nodes"] = json!([int["nodes"][0], int["nodes"][1]]);
    let (mut often, mut seldom) = (network(line(int.clone()), None), network(line(int), None));
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for number in 0..200 {
        let now_ns = START_NS + u64::from(number) * 700 * US;
        while let Some(at_ns) = often.next_event_ns().filter(|at_ns| *at_ns <= now_ns) {
            often.advance(at_ns, &mut Vec::new());
        }
        for (network, summaries) in [(&mut often, &mut one), (&mut seldom, &mut other)] {
            network.advance(now_ns, &mut Vec::new());
            network.telemetry_mut().unwrap().take(now_ns, summaries);
            network.arrive(now_ns, 0, 1, packet(segment(number)));
        }
    }
    assert!(one.len() > 10);
    assert_eq!(one, other);
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |change: fn(&mut Value)| {
        let mut int = everywhere();
        change(&mut int);
        checked_line(int).unwrap_err()
    };
    let at_node = |change| {
        let error = refused(change);
        assert_eq!((error.slug, error.place.as_str()), ("emulator.bad_spec", "int.nodes[1]"));
        error
    };
    at_node(|int| int["nodes"][1]["node"] = 4.into());
    at_node(|int| int["nodes"][1]["node"] = 0.into());
    let error = at_node(|int| int["nodes"][1]["node_id"] = 0x100_0000.into());
    assert!(error.why.contains("node_id"), "{error}");
    let error = at_node(|int| int["nodes"][1]["radio"] = json!({"rssi_dbm": 400.0}));
    assert!(error.why.contains("rssi_dbm"), "{error}");
    assert_eq!(refused(|int| int["source"]["every_pkts"] = 0.into()).slug, "ioam.cannot_write");
    assert_eq!(refused(|int| int["sink"]["records"] = true.into()).place, "int.records_path");
    assert_eq!(refused(|int| int["records_path"] = "records.csv".into()).place, "int.records_path");
    assert!(refused(|int| int["nodes"][0]["roles"] = json!(["spy"])).why.contains("unknown variant `spy`"));
    assert!(refused(|int| int["extra"] = 1.into()).why.contains("unknown field `extra`"));
}
