//! Networks of several links.

use proptest::prelude::*;

use super::super::test_packet::TestPacket;
use super::*;
use crate::spec::{Link, Node};

const US: u64 = 1000;

fn node(name: &str, is_host: bool) -> Node {
    let addresses = if is_host { vec!["10.0.0.1".parse().unwrap()] } else { Vec::new() };
    Node { name: name.to_owned(), addresses, tun: None, misbehaves: None }
}

/// Two hosts at the ends of two routers: 0 - 2 - 3 - 1, with these directions from left to right.
fn line(directions: [Direction; 3]) -> Network<TestPacket> {
    let ways = [(0, 2), (2, 3), (3, 1)];
    let mut links = Vec::new();
    for (number, ((from, to), direction)) in ways.into_iter().zip(directions).enumerate() {
        let back = Direction { delay_us: direction.delay_us, ..Direction::default() };
        links.push(Link { name: format!("l{number}>"), from, to, direction });
        links.push(Link { name: format!("l{number}<"), from: to, to: from, direction: back });
    }
    let spec = Spec {
        seed: 1,
        mtu_bytes: 1500,
        nodes: vec![node("a", true), node("b", true), node("left", false), node("right", false)],
        links,
        routes: vec![vec![-1, 0, 0, 0], vec![5, -1, 5, 5], vec![1, 2, -1, 2], vec![3, 4, 3, -1]],
        sample_interval_us: 1000,
        samples_path: None,
        pcap: None,
        int: None,
    };
    Network::new(spec, 0)
}

fn delayed(delay_us: u64) -> Direction {
    Direction { delay_us, ..Direction::default() }
}

fn packet(id: u64) -> TestPacket {
    TestPacket { id, ..TestPacket::default() }
}

fn run(network: &mut Network<TestPacket>, until_ns: u64) -> Vec<Delivery<TestPacket>> {
    let mut deliveries = Vec::new();
    network.advance(until_ns, &mut deliveries);
    deliveries
}

#[test]
fn packets_pass_routers_and_lose_a_hop_at_each() {
    let bottleneck = Direction { rate_bytes_per_s: Some(12.5e6), ..delayed(2000) };
    let mut network = line([delayed(100), bottleneck, delayed(300)]);
    network.arrive(0, 0, 1, packet(0));
    network.arrive(0, 0, 1, packet(1));
    network.arrive(0, 1, 0, packet(2));
    let got: Vec<_> = run(&mut network, 10_000 * US)
        .iter()
        .map(|d| (d.at_ns / US, d.node, d.packet.id, d.packet.hops))
        .collect();
    assert_eq!(got, [(2400, 0, 2, 62), (2520, 1, 0, 62), (2640, 1, 1, 62)]);
    assert_eq!(network.next_event_ns(), None);
}

#[test]
fn a_packet_out_of_hops_ends_at_a_router() {
    let mut network = line([delayed(1), delayed(1), delayed(1)]);
    network.arrive(0, 0, 1, TestPacket { hops: 2, ..packet(0) });
    assert!(run(&mut network, US * 10).is_empty());
    assert_eq!((network.expired_pkts(), network.unroutable_pkts()), (1, 0));
}

#[test]
fn a_packet_without_a_way_is_counted() {
    let mut network = line([delayed(1), delayed(1), delayed(1)]);
    network.arrive(0, 0, 0, packet(0));
    network.arrive(0, 0, 9, packet(0));
    assert!(run(&mut network, US * 10).is_empty());
    assert_eq!(network.unroutable_pkts(), 2);
}

#[test]
fn links_and_routes_change_while_packets_are_on_their_way() {
    let mut network = line([delayed(100), delayed(100), delayed(100)]);
    network.arrive(0, 0, 1, packet(0));
    let mut deliveries = run(&mut network, 150 * US);
    network.set_link(150 * US, "l2>", delayed(1000), &mut deliveries).unwrap();
    assert!(deliveries.is_empty());
    assert_eq!(run(&mut network, 10_000 * US)[0].at_ns, 1200 * US);
    // Without a route from the right router, packets end there.
    let routes = vec![vec![-1, 0, 0, 0], vec![5, -1, 5, 5], vec![1, 2, -1, 2], vec![3, -1, 3, -1]];
    network.set_routes(routes).unwrap();
    network.arrive(10_000 * US, 0, 1, packet(1));
    assert!(run(&mut network, 20_000 * US).is_empty());
    assert_eq!(network.unroutable_pkts(), 1);
}

#[test]
fn changes_that_cannot_be_are_refused_and_change_nothing() {
    let mut network = line([delayed(1), delayed(1), delayed(1)]);
    let nothing = &mut Vec::new();
    let unknown = network.set_link(0, "l9>", delayed(5), nothing).unwrap_err();
    assert_eq!(unknown.slug, "emulator.no_link");
    assert!(unknown.why.contains("l0>"), "{unknown}");
    let bad = Direction { duplicate_ratio: 2.0, ..Direction::default() };
    assert_eq!(network.set_link(0, "l0>", bad, nothing).unwrap_err().slug, "emulator.bad_spec");
    // Link 1 begins at the left router, not at a.
    let routes = vec![vec![-1, 1, 0, 0], vec![5, -1, 5, 5], vec![1, 2, -1, 2], vec![3, 4, 3, -1]];
    assert_eq!(network.set_routes(routes).unwrap_err().slug, "emulator.bad_spec");
    network.arrive(0, 0, 1, packet(0));
    assert_eq!(run(&mut network, US * 10)[0].at_ns, 3 * US);
}

#[test]
fn taps_receive_what_reaches_the_end_of_their_link() {
    let mut network = line([delayed(1), delayed(1), delayed(1)]);
    let link = network.tap("l1>").unwrap();
    assert_eq!(network.tap("l9>").unwrap_err().slug, "emulator.no_link");
    network.arrive(0, 0, 1, packet(7));
    run(&mut network, US * 10);
    let tapped = network.take_tapped();
    assert_eq!((tapped.len(), tapped[0].link, tapped[0].at_ns, tapped[0].packet.id), (1, link, 2 * US, 7));
    assert!(network.take_tapped().is_empty());
}

#[test]
fn samples_say_what_is_where() {
    let slow = Direction { rate_bytes_per_s: Some(12.5e6), ..delayed(1000) };
    let mut network = line([slow, delayed(1), delayed(1)]);
    (0..3).for_each(|id| network.arrive(0, 0, 1, packet(id)));
    run(&mut network, 130 * US);
    let sample = network.sample(0);
    assert_eq!((sample.queue_pkts, sample.queue_bytes, sample.flying_pkts), (1, 1500, 2));
    assert_eq!((sample.counters.arrived_pkts, sample.counters.delivered_pkts), (3, 0));
    assert_eq!(network.take_sojourn_max_ns(0), 120 * US);
}

proptest! {
    #[test]
    fn it_does_not_matter_how_often_time_is_reported(
        steps in prop::collection::vec(0u64..300_000, 1..60), rate in 1e6..1e8f64, loss in 0.0..0.3f64,
        jitter_us in 0u64..3000,
    ) {
        let bottleneck = Direction {
            rate_bytes_per_s: Some(rate),
            loss: Some(crate::spec::Loss::Bernoulli { ratio: loss }),
            jitter_us,
            ..delayed(500)
        };
        let made = || line([delayed(100), bottleneck.clone(), delayed(300)]);
        let (mut often, mut seldom) = (made(), made());
        let (mut one, mut other) = (Vec::new(), Vec::new());
        let mut now_ns = 0;
        for (id, step_ns) in steps.iter().enumerate() {
            now_ns += step_ns;
            // One is advanced at every event, and returns lower bounds of arrivals; the other is advanced at
            // arrivals only.
            while let Some(at_ns) = often.next_event_ns().filter(|at_ns| *at_ns <= now_ns) {
                let before_ns = often.next_delivery_ns().unwrap();
                let known = one.len();
                often.advance(at_ns, &mut one);
                prop_assert!(one.len() == known || before_ns <= at_ns);
            }
            often.advance(now_ns, &mut one);
            seldom.advance(now_ns, &mut other);
            often.arrive(now_ns, 0, 1, packet(id as u64));
            seldom.arrive(now_ns, 0, 1, packet(id as u64));
        }
        often.advance(u64::MAX, &mut one);
        seldom.advance(u64::MAX, &mut other);
        prop_assert_eq!(one, other);
    }
}

/// A tunnel of 100 Mbit/s with headers of 80 bytes.
fn tunnelled(reports: bool, ecn: bool) -> Direction {
    let tunnel = Some(Tunnel { overhead_bytes: 80, mtu_bytes: Some(1420), reports, ecn });
    Direction { rate_bytes_per_s: Some(12.5e6), tunnel, ..delayed(0) }
}

#[test]
fn headers_of_a_tunnel_take_time_and_end_with_it() {
    let mut network = line([delayed(0), tunnelled(true, true), delayed(0)]);
    network.arrive(0, 0, 1, TestPacket { len_bytes: 1420, ..packet(0) });
    let [delivery] = &run(&mut network, 10_000 * US)[..] else { panic!("one packet") };
    assert_eq!((delivery.at_ns, delivery.packet.len_bytes), (120 * US, 1420));
    assert_eq!(network.sample(2).counters.delivered_bytes, 1500);
    assert_eq!(network.sample(4).counters.delivered_bytes, 1420);
}

#[test]
fn the_sender_of_a_packet_that_is_too_large_gets_a_report_unless_the_tunnel_is_silent() {
    for reports in [true, false] {
        // In the middle of the route, and on the link of the sender itself.
        for (place, link, reported_us) in [(1, 2, 200), (0, 0, 0)] {
            let mut directions = [delayed(100), delayed(100), delayed(100)];
            directions[place] = tunnelled(reports, true);
            let mut network = line(directions);
            network.arrive(0, 0, 1, packet(0));
            assert_eq!(network.next_delivery_ns().is_some(), reports || place == 1);
            let reported: Vec<_> =
                run(&mut network, 10_000 * US).iter().map(|d| (d.at_ns, d.node, d.packet.id)).collect();
            assert_eq!(reported, if reports { vec![(reported_us * US, 0, 1420)] } else { vec![] });
            let counters = network.sample(link).counters;
            assert_eq!((counters.arrived_pkts, counters.dropped_mtu_pkts), (1, 1));
            assert_eq!(network.path_mtu_bytes(0, 1), if reports { 1420 } else { 1500 });
            assert_eq!(network.path_mtu_bytes(1, 0), 1500);
        }
    }
}

#[test]
fn a_tunnel_that_does_not_copy_marks_makes_queues_drop() {
    for ecn in [true, false] {
        let queue = crate::spec::Queue::Red {
            min_bytes: 1,
            max_bytes: 1_000_000,
            max_ratio: 1.0,
            weight: 1.0,
            ecn: true,
        };
        let direction = Direction { queue, ..tunnelled(true, ecn) };
        let mut network = line([delayed(0), direction, delayed(0)]);
        for id in 0..300 {
            network.arrive(0, 0, 1, TestPacket { len_bytes: 1420, ecn: Ecn::Ect0, ..packet(id) });
        }
        let marked = run(&mut network, 1_000_000 * US).iter().filter(|d| d.packet.ecn == Ecn::Ce).count();
        let counters = network.sample(2).counters;
        assert_eq!((marked > 0, counters.dropped_aqm_pkts > 0), (ecn, !ecn));
    }
}
