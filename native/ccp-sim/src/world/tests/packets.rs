//! Packets: conservation, and reproducibility.

use ccp_emu::spec::{Loss, Reorder, Tunnel};
use ccp_record::bytes_of;
use proptest::prelude::*;

use super::super::{HostCounters, Stop};
use super::*;

#[test]
fn a_bulk_flow_fills_its_bottleneck() {
    let mut world = world(bottleneck());
    world.add(plan("cubic", bulk(None))).unwrap();
    assert_eq!(world.run_until(START + 20 * S), Stop::Time);
    // 20 s at 1.25 MB/s, of which 1448 of 1500 bytes are data.
    let max_bytes = 20.0 * 1.25e6 * 1448.0 / 1500.0;
    let share = outcome(&world).received_bytes as f64 / max_bytes;
    assert!((0.97..=1.0).contains(&share), "{share}");
    assert!(outcome(&world).retrans_pkts > 0);
}

#[test]
fn a_packet_event_is_each_time_that_a_packet_comes_leaves_or_arrives() {
    let mut world = world(delayed(1000));
    world.add(plan("cubic", bulk(Some(1000)))).unwrap();
    world.run_until(START + 10 * S);
    // SYN, SYN-ACK, ACK; iperf3's first bytes, the 1000 with FIN, and the ACKs of both: over one link each.
    assert_eq!(world.counters(), HostCounters { sent_pkts: 7, taken_pkts: 7, ..HostCounters::default() });
    assert_eq!(world.packet_events(), 21);
}

#[test]
fn the_handshake_is_packets_and_a_lost_syn_goes_again_after_a_second() {
    for (lost, opened_ns) in [(vec![], 20 * MS), (vec![0], S + 20 * MS), (vec![0, 1], 3 * S + 20 * MS)] {
        let loss = Some(Loss::Pattern { drop: lost, repeat_every_pkts: None });
        let mut world = world(Direction { loss, ..delayed(10_000) });
        world.add(plan("cubic", bulk(None))).unwrap();
        world.run_until(START + opened_ns - 1);
        assert!(world.sender(0, 0).is_none());
        world.run_until(START + opened_ns);
        let sock = &world.sender(0, 0).unwrap().sock;
        // The RTT of a retransmitted SYN is unknown.
        assert_eq!(sock.srtt_us, if opened_ns < S { 20_000 } else { 0 });
        assert_eq!(sock.packets_out, 1);
    }
}

#[test]
fn an_answer_that_is_lost_is_given_again() {
    let loss = Some(Loss::Pattern { drop: vec![0], repeat_every_pkts: None });
    let mut world = world_of(spec(delayed(10_000), Direction { loss, ..delayed(10_000) }));
    world.add(plan("cubic", bulk(Some(5000)))).unwrap();
    world.run_until(START + S + 20 * MS);
    assert!(world.sender(0, 0).is_some());
    world.run_until(START + 5 * S);
    assert_eq!((outcome(&world).received_bytes, outcome(&world).complete), (5000, true));
}

#[test]
fn who_is_never_answered_gives_up() {
    let loss = Some(Loss::Bernoulli { ratio: 1.0 });
    let mut world = world(Direction { loss, ..delayed(10_000) });
    world.add(plan("cubic", bulk(Some(5000)))).unwrap();
    // 1 + 2 + 4 + 8 + 16 + 32 + 64 s.
    world.run_until(START + 127 * S - 1);
    assert!(!world.is_finished());
    world.run_until(START + 127 * S);
    assert!(world.is_finished());
    assert_eq!((outcome(&world).received_bytes, outcome(&world).complete), (0, false));
    assert_eq!(world.counters().sent_pkts, 7);
}

#[test]
fn a_changed_link_and_changed_routes_hold_at_once() {
    let mut world = world(bottleneck());
    world.add(plan("cubic", bulk(None))).unwrap();
    world.run_until(START + 5 * S);
    let before = outcome(&world).received_bytes;
    let faster = Direction { rate_bytes_per_s: Some(5e6), ..bottleneck() };
    world.set_link("l>", faster).unwrap();
    world.run_until(START + 15 * S);
    let rate = (outcome(&world).received_bytes - before) as f64 / 10.0;
    assert!(rate > 0.75 * 5e6 * 1448.0 / 1500.0, "{rate}");
    world.set_routes(vec![vec![-1, -1], vec![1, -1]]).unwrap();
    let before = outcome(&world).received_bytes;
    world.run_until(START + 16 * S);
    // In flight: buffer and link.
    assert!(outcome(&world).received_bytes - before < 400_000);
    assert!(world.network().unroutable_pkts() > 0);
}

#[test]
fn marks_reach_the_sender_of_a_connection_with_ecn_only() {
    for ecn in [true, false] {
        let queue = ccp_emu::spec::Queue::DropTail { ce_threshold_us: Some(5000), ce_threshold_bytes: None };
        let mut world = world(Direction { queue, ..bottleneck() });
        world.add(Plan { ecn, ..plan("cubic", bulk(None)) }).unwrap();
        world.run_until(START + 10 * S);
        let sock = &world.sender(0, 0).unwrap().sock;
        assert_eq!((sock.ecn_ok, sock.delivered_ce > 0), (ecn, ecn));
        assert_eq!(world.link(0).counters.marked_pkts > 0, ecn);
        // A window reduced by marks loses nothing.
        assert_eq!(outcome(&world).retrans_pkts == 0, ecn);
    }
}

#[test]
fn a_reordering_that_takes_longer_than_the_window_of_rack_is_undone() {
    let reorder = Some(Reorder { ratio: 0.01, late_us: 15_000 });
    let mut world = world(Direction { reorder, buffer: Some(Buffer::Packets(10_000)), ..bottleneck() });
    world.add(plan("cubic", bulk(None))).unwrap();
    world.run_until(START + 20 * S);
    assert!(world.link(0).counters.late_pkts > 100);
    assert_eq!(world.link(0).counters.dropped_pkts(), 0);
    // Nothing was lost: what was sent again was a duplicate, which undid the reduction.
    let max_bytes = 20.0 * 1.25e6 * 1448.0 / 1500.0;
    let share = outcome(&world).received_bytes as f64 / max_bytes;
    assert!(share > 0.95, "{share}");
}

#[test]
fn thinned_acks_deliver_the_same_data() {
    let slow = |ack_filter| Direction {
        rate_bytes_per_s: Some(5e3),
        buffer: Some(Buffer::Packets(50)),
        ack_filter,
        ..delayed(10_000)
    };
    // Without losses no ACK has SACK ranges.
    let whole = Direction { buffer: Some(Buffer::Packets(10_000)), ..bottleneck() };
    let received = [true, false].map(|ack_filter| {
        let mut world = world_of(spec(whole.clone(), slow(ack_filter)));
        world.add(plan("cubic", bulk(None))).unwrap();
        world.run_until(START + 20 * S);
        assert_eq!(world.link(1).counters.dropped_ack_pkts > 1000, ack_filter);
        assert_eq!(world.link(1).counters.dropped_queue_pkts == 0, ack_filter);
        outcome(&world).received_bytes
    });
    assert!(received[0] >= received[1], "{received:?}");
}

#[test]
fn hosts_know_the_mtu_of_a_tunnel_unless_it_is_silent() {
    for (reports, mss_bytes) in [(true, 1368), (false, 1448)] {
        let tunnel = Some(Tunnel { overhead_bytes: 80, mtu_bytes: Some(1420), reports, ecn: true });
        let mut world = world(Direction { tunnel, ..bottleneck() });
        world.add(plan("cubic", bulk(None))).unwrap();
        world.run_until(START + 5 * S);
        assert_eq!(world.sender(0, 0).unwrap().sock.mss_bytes, mss_bytes);
        assert_eq!(outcome(&world).received_bytes > 1_000_000, reports);
        assert_eq!(world.link(0).counters.dropped_mtu_pkts > 0, !reports);
    }
}

/// All output of a world.
fn said(world: &mut World) -> (Vec<u8>, Vec<Outcome>, HostCounters, u64) {
    let rows = world.take_rows().iter().flat_map(|row| bytes_of(row).to_vec()).collect();
    (rows, world.outcomes().collect(), world.counters(), world.packet_events())
}

fn directions() -> impl Strategy<Value = Direction> {
    let buffer = prop_oneof![(1u64..60).prop_map(Buffer::Packets), (1600u64..90_000).prop_map(Buffer::Bytes)];
    let ratios = (0.0..0.2f64, 0.0..0.1f64, 0.0..0.1f64);
    (2e4..1e7f64, 0u64..60_000, 0u64..20_000, buffer, ratios).prop_map(
        |(rate, delay_us, jitter_us, buffer, (loss, duplicate_ratio, corrupt_ratio))| Direction {
            rate_bytes_per_s: Some(rate),
            delay_us,
            jitter_us,
            buffer: Some(buffer),
            loss: Some(Loss::Bernoulli { ratio: loss }),
            duplicate_ratio,
            corrupt_ratio,
            ..Direction::default()
        },
    )
}

fn apps() -> impl Strategy<Value = App> {
    prop_oneof![
        (prop::option::of(1u64..500_000), prop::option::of(1e4..1e6f64), 1u32..4).prop_map(
            |(total_bytes, rate_bytes_per_s, parallel)| App::Bulk { total_bytes, rate_bytes_per_s, parallel }
        ),
        (
            prop::collection::vec(1u64..60_000, 1..5),
            prop::collection::vec(0u64..500_000, 0..3),
            1u32..3,
            any::<bool>()
        )
            .prop_map(|(objects, gaps_us, connections, persistent)| App::Http {
                objects,
                gaps_us,
                repeat: 2,
                connections,
                persistent
            }),
        (prop::collection::vec((1u64..900_000, 0u64..900_000), 1..6), prop::option::of(1e4..1e6f64))
            .prop_map(|(phases_us, rate_bytes_per_s)| App::OnOff { phases_us, rate_bytes_per_s }),
    ]
}

fn plans() -> impl Strategy<Value = Plan> {
    let names = prop::sample::select(vec!["reno", "cubic", "ccp"]);
    let stops = prop::option::of(2_000_000u64..6_000_000);
    (names, apps(), any::<bool>(), 0u64..2_000_000, stops, any::<bool>()).prop_map(
        |(congestion, app, v6, start_us, stop_us, ecn)| Plan {
            family: if v6 { Family::Ipv6 } else { Family::Ipv4 },
            start_us,
            stop_us,
            ecn,
            ..plan(congestion, app)
        },
    )
}

fn filled(there: &Direction, back: &Direction, plans: &[Plan]) -> World {
    let mut world = world_of(spec(there.clone(), back.clone()));
    for plan in plans {
        world.add(plan.clone()).unwrap();
    }
    world
}

fn pass(world: &mut World, until_ns: u64) {
    while world.run_until(until_ns) != Stop::Time {
        let _ = world.shared().take_records();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn packets_are_conserved_and_bytes_come_once(
        there in directions(), back in directions(), plans in prop::collection::vec(plans(), 1..4),
    ) {
        let mut world = filled(&there, &back, &plans);
        for _ in 0..8 {
            let at_ns = world.now_ns() + S;
            pass(&mut world, at_ns);
            let (mut came, mut gone) = (world.counters().sent_pkts, 0);
            for link in [world.link(0), world.link(1)] {
                let c = link.counters;
                prop_assert_eq!(
                    c.arrived_pkts + c.duplicated_pkts,
                    c.delivered_pkts + c.dropped_pkts() + link.queue_pkts + link.flying_pkts
                );
                came += c.duplicated_pkts;
                gone += c.dropped_pkts() + link.queue_pkts + link.flying_pkts;
            }
            let hosts = world.counters();
            prop_assert_eq!(came, gone + hosts.taken_pkts + hosts.corrupted_pkts + hosts.stray_pkts);
            for (plan, outcome) in plans.iter().zip(world.outcomes()) {
                if let App::Bulk { total_bytes: Some(total_bytes), .. } = plan.app {
                    prop_assert!(outcome.received_bytes <= total_bytes);
                    prop_assert!(!outcome.complete || outcome.received_bytes == total_bytes);
                }
                if let App::Http { objects, .. } = &plan.app {
                    let sizes: Vec<_> = objects.repeat(2);
                    prop_assert!(outcome.objects.iter().all(|o| o.size_bytes == sizes[o.number]));
                }
            }
            for (number, _) in plans.iter().enumerate() {
                if let Some(sender) = world.sender(number, 0) {
                    let sock = &sender.sock;
                    prop_assert!(sock.snd_una <= sock.snd_nxt && sock.snd_nxt <= sock.write_seq);
                    prop_assert!(sock.bytes_acked <= sock.bytes_sent - sock.bytes_retrans + 1);
                    prop_assert!(sock.packets_out >= sock.sacked_out + sock.lost_out);
                }
            }
        }
    }

    #[test]
    fn a_world_is_the_same_each_time_however_time_is_reported(
        there in directions(), back in directions(), plans in prop::collection::vec(plans(), 1..4),
        steps_ns in prop::collection::vec(1u64..2_000_000_000, 1..20),
    ) {
        let (mut one, mut other) = (filled(&there, &back, &plans), filled(&there, &back, &plans));
        for step_ns in &steps_ns {
            let at_ns = one.now_ns() + step_ns;
            pass(&mut one, at_ns);
        }
        let end_ns = one.now_ns();
        pass(&mut other, end_ns);
        prop_assert_eq!(said(&mut one), said(&mut other));
    }
}
