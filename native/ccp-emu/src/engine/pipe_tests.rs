//! One direction of a link: manually computed times, and invariants.

use proptest::prelude::*;

use super::super::test_packet::TestPacket;
use super::*;
use crate::packet::Ecn;
use crate::spec::{Buffer, Loss as LossSpec, Queue as QueueSpec, Reorder, TokenBucket};

const US: u64 = 1000;
const MS: u64 = 1_000_000;

fn pipe(direction: Direction) -> Pipe<TestPacket> {
    Pipe::new(direction, "l>", 1, 1500, 0)
}

fn packet(id: u64) -> TestPacket {
    TestPacket { id, ..TestPacket::default() }
}

/// Runs until a time; returns the arrivals with their times.
fn run(pipe: &mut Pipe<TestPacket>, until_ns: u64) -> Vec<(u64, TestPacket)> {
    let mut arrived = Vec::new();
    while let Some(due_ns) = pipe.due_ns().filter(|due_ns| *due_ns <= until_ns) {
        assert!(pipe.earliest_end_ns().is_some_and(|end_ns| end_ns >= due_ns));
        arrived.extend(pipe.step(due_ns).map(|packet| (due_ns, packet)));
    }
    arrived
}

fn times(arrived: &[(u64, TestPacket)]) -> Vec<(u64, u64)> {
    arrived.iter().map(|(at_ns, packet)| (at_ns / US, packet.id)).collect()
}

fn at_100_mbit() -> Direction {
    Direction { rate_bytes_per_s: Some(12.5e6), delay_us: 10_000, ..Direction::default() }
}

#[test]
fn packets_leave_one_after_the_other_and_arrive_after_the_delay() {
    let mut pipe = pipe(at_100_mbit());
    (0..3).for_each(|id| pipe.arrive(0, packet(id)));
    assert_eq!((pipe.queue_pkts(), pipe.queue_bytes(), pipe.flying_pkts()), (2, 3000, 1));
    assert_eq!(times(&run(&mut pipe, MS * 100)), [(10_120, 0), (10_240, 1), (10_360, 2)]);
    assert_eq!(pipe.take_sojourn_max_ns(), 240 * US);
}

#[test]
fn a_full_buffer_delays_by_its_size_over_the_rate() {
    // 100 packets wait for the one in transmission: 101 * 120 us.
    let mut pipe = pipe(Direction { buffer: Some(Buffer::Packets(100)), ..at_100_mbit() });
    (0..150).for_each(|id| pipe.arrive(0, packet(id)));
    let arrived = times(&run(&mut pipe, 1000 * MS));
    assert_eq!((arrived.len(), arrived[100]), (101, (10_000 + 101 * 120, 100)));
    assert_eq!(pipe.counters.dropped_queue_pkts, 49);
}

#[test]
fn without_a_limit_nothing_waits() {
    let mut pipe = pipe(Direction { delay_us: 5, buffer: Some(Buffer::Packets(1)), ..Direction::default() });
    (0..50).for_each(|id| pipe.arrive(0, packet(id)));
    assert_eq!(times(&run(&mut pipe, MS)), (0..50).map(|id| (5, id)).collect::<Vec<_>>());
}

#[test]
fn a_policer_drops_and_a_shaper_delays() {
    let bucket =
        |shaper| Some(TokenBucket { rate_bytes_per_s: 1.5e6, bucket_bytes: 3000, shaper, refill_us: 0 });
    let mut policed = pipe(Direction { token_bucket: bucket(false), ..Direction::default() });
    (0..4).for_each(|id| policed.arrive(0, packet(id)));
    policed.arrive(MS, packet(4));
    assert_eq!(times(&run(&mut policed, MS)), [(0, 0), (0, 1), (1000, 4)]);
    assert_eq!(policed.counters.dropped_policer_pkts, 2);

    let mut shaped = pipe(Direction { token_bucket: bucket(true), ..Direction::default() });
    (0..5).for_each(|id| shaped.arrive(0, packet(id)));
    assert_eq!(times(&run(&mut shaped, 100 * MS)), [(0, 0), (0, 1), (1000, 2), (2000, 3), (3000, 4)]);
    assert_eq!(shaped.counters.dropped_pkts(), 0);
}

#[test]
fn a_packet_that_a_shaper_can_never_send_is_dropped() {
    let token_bucket =
        Some(TokenBucket { rate_bytes_per_s: 1e6, bucket_bytes: 1000, shaper: true, refill_us: 0 });
    let mut pipe = pipe(Direction { token_bucket, ..Direction::default() });
    pipe.arrive(0, packet(0));
    pipe.arrive(0, TestPacket { id: 1, len_bytes: 1000, ..TestPacket::default() });
    assert_eq!(times(&run(&mut pipe, MS)), [(0, 1)]);
    assert_eq!(pipe.counters.dropped_policer_pkts, 1);
}

#[test]
fn a_pattern_loses_before_the_queue() {
    let loss = Some(LossSpec::Pattern { drop: vec![1], repeat_every_pkts: None });
    let mut pipe = pipe(Direction { loss, ..at_100_mbit() });
    (0..3).for_each(|id| pipe.arrive(0, packet(id)));
    assert_eq!(times(&run(&mut pipe, MS * 100)), [(10_120, 0), (10_240, 2)]);
    assert_eq!(pipe.counters.dropped_loss_pkts, 1);
}

#[test]
fn copies_follow_their_originals_and_need_no_time_to_transmit() {
    let mut pipe = pipe(Direction { duplicate_ratio: 1.0, corrupt_ratio: 1.0, ..at_100_mbit() });
    (0..2).for_each(|id| pipe.arrive(0, packet(id)));
    let arrived = run(&mut pipe, MS * 100);
    assert_eq!(times(&arrived), [(10_120, 0), (10_120, 0), (10_240, 1), (10_240, 1)]);
    assert!(arrived.iter().all(|(_, packet)| packet.corrupted));
    assert_eq!((pipe.counters.duplicated_pkts, pipe.counters.corrupted_pkts), (2, 2));
}

#[test]
fn all_late_packets_are_late_in_order_and_a_share_is_overtaken() {
    let late = |ratio| Direction { reorder: Some(Reorder { ratio, late_us: 5_000 }), ..at_100_mbit() };
    let mut all = pipe(late(1.0));
    (0..2).for_each(|id| all.arrive(0, packet(id)));
    assert_eq!(times(&run(&mut all, MS * 100)), [(15_120, 0), (15_240, 1)]);
    assert_eq!(all.counters.late_pkts, 2);

    let mut some = pipe(Direction { buffer: None, ..late(0.1) });
    (0..10_000).for_each(|id| some.arrive(0, packet(id)));
    let arrived = run(&mut some, u64::MAX);
    assert_eq!(arrived.len(), 10_000);
    // A late packet is overtaken by the 5,000 / 120 packets after it, less the late ones among them.
    let overtaken = arrived.windows(2).filter(|pair| pair[0].1.id > pair[1].1.id).count() as u64;
    assert!((700..=some.counters.late_pkts).contains(&overtaken), "{overtaken}");
    // n p = 1000, four standard deviations are 120.
    assert!((880..=1120).contains(&some.counters.late_pkts), "{}", some.counters.late_pkts);
}

#[test]
fn an_ack_filter_forwards_the_newest_ack_in_the_place_of_the_oldest() {
    let ack = |id, number| TestPacket { id, len_bytes: 60, ack: Some(number), ..TestPacket::default() };
    for (ack_filter, ids) in [(true, vec![0, 3, 2, 4]), (false, vec![0, 1, 2, 3, 4])] {
        let mut pipe = pipe(Direction { ack_filter, ..at_100_mbit() });
        pipe.arrive(0, ack(0, 1)); // in transmission
        pipe.arrive(0, ack(1, 2));
        pipe.arrive(0, packet(2)); // data
        pipe.arrive(0, ack(3, 3));
        pipe.arrive(0, ack(4, 3)); // a duplicate ACK
        assert_eq!(pipe.queue_bytes(), if ack_filter { 1500 + 120 } else { 1500 + 180 });
        assert_eq!(times(&run(&mut pipe, MS * 100)).iter().map(|(_, id)| *id).collect::<Vec<_>>(), ids);
        assert_eq!(pipe.counters.dropped_ack_pkts, u64::from(ack_filter));
    }
}

#[test]
fn an_ack_of_more_data_replaces_duplicates_too() {
    let ack = |id, number| TestPacket { id, len_bytes: 60, ack: Some(number), ..TestPacket::default() };
    let mut pipe = pipe(Direction { ack_filter: true, ..at_100_mbit() });
    [(0, 1), (1, 2), (2, 2), (3, 2), (4, 3)].into_iter().for_each(|(id, n)| pipe.arrive(0, ack(id, n)));
    assert_eq!((pipe.queue_pkts(), pipe.queue_bytes()), (1, 60));
    assert_eq!(times(&run(&mut pipe, MS * 100)), [(10_004, 0), (10_009, 4)]);
    assert_eq!(pipe.counters.dropped_ack_pkts, 3);
}

#[test]
fn an_ack_needs_no_room_in_a_full_queue_if_it_replaces_another() {
    let ack = |id| TestPacket { id, len_bytes: 60, ack: Some(id), ..TestPacket::default() };
    let buffer = Some(Buffer::Packets(1));
    let mut pipe = pipe(Direction { ack_filter: true, buffer, ..at_100_mbit() });
    (1..100).for_each(|id| pipe.arrive(0, ack(id)));
    assert_eq!(times(&run(&mut pipe, MS * 100)), [(10_004, 1), (10_009, 99)]);
    assert_eq!((pipe.counters.dropped_queue_pkts, pipe.counters.dropped_ack_pkts), (0, 97));
}

#[test]
fn a_raised_rate_holds_for_the_rest_of_the_packet_in_transmission() {
    let mut pipe = pipe(at_100_mbit());
    (0..2).for_each(|id| pipe.arrive(0, packet(id)));
    // Half of the first is left after 60 us: 750 bytes, 6 us at 1 Gbit/s; the second takes 12 us.
    assert!(run(&mut pipe, 60 * US).is_empty());
    pipe.set(60 * US, Direction { rate_bytes_per_s: Some(125e6), ..at_100_mbit() });
    assert_eq!(times(&run(&mut pipe, MS * 100)), [(10_066, 0), (10_078, 1)]);
}

#[test]
fn a_change_keeps_what_waits_and_what_flies() {
    let mut pipe = pipe(at_100_mbit());
    (0..3).for_each(|id| pipe.arrive(0, packet(id)));
    assert!(run(&mut pipe, 130 * US).is_empty());
    // One propagates, one is half sent, one waits. Without limit and delay they arrive immediately, but not
    // before the first.
    pipe.set(130 * US, Direction::default());
    assert_eq!(times(&run(&mut pipe, MS * 100)), [(10_120, 0), (10_120, 1), (10_120, 2)]);
}

#[test]
fn a_change_of_something_else_leaves_the_transmission_alone() {
    let mut pipe = pipe(at_100_mbit());
    (0..2).for_each(|id| pipe.arrive(0, packet(id)));
    pipe.set(60 * US, Direction { delay_us: 20_000, ..at_100_mbit() });
    assert_eq!(times(&run(&mut pipe, MS * 100)), [(20_120, 0), (20_240, 1)]);
}

#[test]
fn a_shaper_that_is_taken_away_holds_nothing_back() {
    let token_bucket =
        Some(TokenBucket { rate_bytes_per_s: 1.0, bucket_bytes: 1500, shaper: true, refill_us: 0 });
    let mut pipe = pipe(Direction { token_bucket, ..Direction::default() });
    (0..3).for_each(|id| pipe.arrive(0, packet(id)));
    assert_eq!(times(&run(&mut pipe, MS)), [(0, 0)]);
    pipe.set(2 * MS, Direction::default());
    assert_eq!(times(&run(&mut pipe, 2 * MS)), [(2000, 1), (2000, 2)]);
}

#[test]
fn red_forgets_while_the_link_is_idle() {
    let queue = QueueSpec::Red { min_bytes: 1, max_bytes: 2, max_ratio: 1.0, weight: 0.5, ecn: false };
    let mut pipe = pipe(Direction { queue, ..at_100_mbit() });
    pipe.arrive(0, packet(0));
    pipe.arrive(0, packet(1)); // finds an empty queue: the first is in transmission
    pipe.arrive(0, packet(2)); // finds 1500 bytes: the average is 750
    assert_eq!(pipe.counters.dropped_aqm_pkts, 1);
    // 100 ms without a packet, though the average is evaluated only when the next arrives.
    run(&mut pipe, 100 * MS);
    pipe.arrive(100 * MS, packet(3));
    assert_eq!(pipe.counters.dropped_aqm_pkts, 1);
}

fn direction() -> impl Strategy<Value = Direction> {
    let loss = prop::option::of(prop_oneof![
        (0.0..0.5f64).prop_map(|ratio| LossSpec::Bernoulli { ratio }),
        (0.0..0.5f64, 0.1..1.0f64).prop_map(|(good_to_bad, bad_to_good)| LossSpec::GilbertElliott {
            good_to_bad,
            bad_to_good,
            loss_bad: 1.0,
            loss_good: 0.0
        }),
    ]);
    let queue = prop_oneof![
        (prop::option::of(0u64..5000), prop::option::of(1u64..20_000)).prop_map(|(us, bytes)| {
            QueueSpec::DropTail { ce_threshold_us: us, ce_threshold_bytes: bytes }
        }),
        (1u64..10_000, any::<bool>()).prop_map(|(min_bytes, ecn)| QueueSpec::Red {
            min_bytes,
            max_bytes: 3 * min_bytes,
            max_ratio: 0.1,
            weight: 0.05,
            ecn
        }),
        (1u64..2000, any::<bool>()).prop_map(|(target_us, ecn)| QueueSpec::CoDel {
            target_us,
            interval_us: 5 * target_us,
            ecn
        }),
    ];
    let buffer = prop::option::of(prop_oneof![
        (1u64..50).prop_map(Buffer::Packets),
        (1u64..50_000).prop_map(Buffer::Bytes)
    ]);
    let refill_us = prop_oneof![Just(0u64), 1..20_000u64];
    let bucket = prop::option::of((1e5..1e8f64, 500u64..20_000, any::<bool>(), refill_us).prop_map(
        |(rate_bytes_per_s, bucket_bytes, shaper, refill_us)| TokenBucket {
            rate_bytes_per_s,
            bucket_bytes,
            shaper,
            refill_us,
        },
    ));
    let pace = prop_oneof![
        Just((None, None)),
        (1e5..1e9f64).prop_map(|rate| (Some(rate), None)),
        prop::collection::vec(0u64..10, 1..10).prop_map(|mut trace| {
            trace.sort_unstable();
            trace.push(10);
            (None, Some(trace))
        }),
    ];
    let ratios = (0.0..0.3f64, 0.0..0.3f64);
    let times = (0u64..5000, 0u64..2000);
    (loss, queue, buffer, bucket, pace, ratios, times).prop_map(
        |(
            loss,
            queue,
            buffer,
            token_bucket,
            (rate_bytes_per_s, trace_ms),
            (duplicate_ratio, corrupt_ratio),
            times,
        )| {
            Direction {
                rate_bytes_per_s,
                trace_ms,
                delay_us: times.0,
                jitter_us: times.1,
                buffer,
                queue,
                loss,
                token_bucket,
                duplicate_ratio,
                corrupt_ratio,
                ..Direction::default()
            }
        },
    )
}

fn traffic() -> impl Strategy<Value = Vec<(u64, u32, bool)>> {
    prop::collection::vec((0u64..400_000, 40u32..1501, any::<bool>()), 1..150)
}

/// Sends packets, with other parameters from the middle on; returns the arrivals.
fn play(
    first: &Direction,
    second: &Direction,
    traffic: &[(u64, u32, bool)],
    check: impl Fn(&Pipe<TestPacket>, u64),
) -> (Counters, Vec<(u64, TestPacket)>) {
    let mut pipe = pipe(first.clone());
    let (mut now_ns, mut arrived) = (0, Vec::new());
    for (id, (step_ns, len_bytes, ect)) in traffic.iter().enumerate() {
        now_ns += step_ns;
        arrived.extend(run(&mut pipe, now_ns));
        if id == traffic.len() / 2 {
            pipe.set(now_ns, second.clone());
        }
        let ecn = if *ect { Ecn::Ect0 } else { Ecn::NotEct };
        pipe.arrive(
            now_ns,
            TestPacket { id: id as u64, len_bytes: *len_bytes, ecn, ..TestPacket::default() },
        );
        check(&pipe, arrived.len() as u64);
    }
    arrived.extend(run(&mut pipe, u64::MAX));
    check(&pipe, arrived.len() as u64);
    assert_eq!((pipe.queue_pkts(), pipe.queue_bytes(), pipe.flying_pkts()), (0, 0, 0));
    (pipe.counters, arrived)
}

proptest! {
    #[test]
    fn packets_are_conserved_ordered_and_never_early(first in direction(), second in direction(), traffic in traffic()) {
        let (counters, arrived) = play(&first, &second, &traffic, |pipe, delivered| {
            let c = pipe.counters;
            assert_eq!(c.delivered_pkts, delivered);
            assert_eq!(
                c.arrived_pkts + c.duplicated_pkts,
                c.delivered_pkts + c.dropped_pkts() + pipe.queue_pkts() + pipe.flying_pkts()
            );
        });
        prop_assert_eq!(counters.arrived_pkts, traffic.len() as u64);
        prop_assert!(arrived.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1.id <= pair[1].1.id));
        let min_us = first.delay_us.min(second.delay_us);
        let mut sent_ns = 0;
        let sent: Vec<_> = traffic.iter().map(|(step_ns, ..)| { sent_ns += step_ns; sent_ns }).collect();
        for (at_ns, packet) in &arrived {
            prop_assert!(*at_ns >= sent[packet.id as usize] + min_us * US);
            // Only markable packets were marked.
            prop_assert!(packet.ecn != Ecn::Ce || traffic[packet.id as usize].2);
        }
        let delivered_bytes: u64 = arrived.iter().map(|(_, packet)| u64::from(packet.len_bytes)).sum();
        prop_assert_eq!(counters.delivered_bytes, delivered_bytes);
    }

    #[test]
    fn one_seed_gives_one_result(first in direction(), second in direction(), traffic in traffic()) {
        let one = play(&first, &second, &traffic, |_, _| ());
        let other = play(&first, &second, &traffic, |_, _| ());
        prop_assert_eq!(one, other);
    }

    #[test]
    fn the_rate_and_the_buffer_are_never_exceeded(
        rate in 1e5..1e9f64, maximum in 1u64..20, traffic in traffic(), queue in 0u64..2,
    ) {
        let direction = Direction {
            rate_bytes_per_s: Some(rate),
            buffer: Some(if queue == 0 { Buffer::Packets(maximum) } else { Buffer::Bytes(maximum * 1000) }),
            ..Direction::default()
        };
        let (_, arrived) = play(&direction, &direction, &traffic, |pipe, _| {
            assert!(if queue == 0 { pipe.queue_pkts() <= maximum } else { pipe.queue_bytes() <= maximum * 1000 });
        });
        for (index, (start_ns, _)) in arrived.iter().enumerate() {
            let mut bytes = 0.0;
            for (at_ns, packet) in &arrived[index + 1..] {
                bytes += f64::from(packet.len_bytes);
                prop_assert!(bytes <= rate * (at_ns - start_ns) as f64 / 1e9 + rate * 2e-9 + 1e-6);
            }
        }
    }

    #[test]
    fn what_a_shaper_lets_through_stays_below_its_curve(
        rate in 1e5..1e8f64, size in 1500u64..20_000, traffic in traffic(),
    ) {
        let token_bucket =
            Some(TokenBucket { rate_bytes_per_s: rate, bucket_bytes: size, shaper: true, refill_us: 0 });
        let direction = Direction { token_bucket, ..Direction::default() };
        let (counters, arrived) = play(&direction, &direction, &traffic, |_, _| ());
        prop_assert_eq!(counters.dropped_pkts(), 0);
        for (index, (start_ns, _)) in arrived.iter().enumerate() {
            let mut bytes = 0.0;
            for (at_ns, packet) in &arrived[index..] {
                bytes += f64::from(packet.len_bytes);
                prop_assert!(bytes <= size as f64 + rate * (at_ns - start_ns) as f64 / 1e9 + 1e-6);
            }
        }
    }
}
