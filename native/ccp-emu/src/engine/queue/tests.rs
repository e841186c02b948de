//! Disciplines with a queue, with manually computed numbers.

use super::*;
use crate::engine::test_packet::TestPacket;

const RATE: f64 = 1e6;
const MS: u64 = 1_000_000;

fn queue(spec: Spec, buffer: Option<Buffer>) -> Queue<TestPacket> {
    Queue::new(spec, buffer, 1500, Stream::new(1, "l>", "queue"))
}

fn ect(id: u64, len_bytes: u32) -> TestPacket {
    TestPacket { id, len_bytes, ecn: Ecn::Ect0, ..TestPacket::default() }
}

fn plain(id: u64, len_bytes: u32) -> TestPacket {
    TestPacket { id, len_bytes, ..TestPacket::default() }
}

#[test]
fn packets_leave_in_order_and_what_does_not_fit_is_dropped() {
    let mut counters = Counters::default();
    let mut queue = queue(Spec::default(), Some(Buffer::Packets(2)));
    for id in 0..3 {
        queue.push(0, plain(id, 100), false, RATE, &mut counters, drop);
    }
    assert_eq!((queue.len(), queue.bytes(), counters.dropped_queue_pkts), (2, 200, 1));
    assert_eq!(queue.pop(1, &mut counters, drop).unwrap().id, 0);
    assert_eq!(queue.pop(2, &mut counters, drop).unwrap().id, 1);
    assert!(queue.pop(3, &mut counters, drop).is_none());
    assert_eq!(queue.take_sojourn_max_ns(), 2);
    assert_eq!(queue.take_sojourn_max_ns(), 0);
}

#[test]
fn a_buffer_in_bytes_takes_what_fits_and_the_transmitters_packet_needs_none() {
    let mut counters = Counters::default();
    let mut queue = queue(Spec::default(), Some(Buffer::Bytes(1000)));
    queue.push(0, plain(0, 1500), true, RATE, &mut counters, drop);
    assert_eq!(queue.pop(0, &mut counters, drop).unwrap().id, 0);
    for (id, len_bytes) in [(1, 600), (2, 600), (3, 400)] {
        queue.push(0, plain(id, len_bytes), false, RATE, &mut counters, drop);
    }
    assert_eq!((queue.len(), counters.dropped_queue_pkts), (2, 1));
    // A smaller buffer keeps waiting packets, and accepts no more.
    queue.set(Spec::default(), Some(Buffer::Bytes(500)), 1500);
    queue.push(0, plain(4, 40), false, RATE, &mut counters, drop);
    assert_eq!((queue.bytes(), counters.dropped_queue_pkts), (1000, 2));
}

#[test]
fn ce_threshold_marks_by_time_when_leaving() {
    let mut counters = Counters::default();
    let mut queue = queue(Spec::DropTail { ce_threshold_us: Some(1000), ce_threshold_bytes: None }, None);
    for id in 0..3 {
        queue.push(0, if id == 2 { plain(id, 100) } else { ect(id, 100) }, false, RATE, &mut counters, drop);
    }
    assert_eq!(queue.pop(MS, &mut counters, drop).unwrap().ecn, Ecn::Ect0);
    assert_eq!(queue.pop(MS + 1, &mut counters, drop).unwrap().ecn, Ecn::Ce);
    assert_eq!(queue.pop(MS + 1, &mut counters, drop).unwrap().ecn, Ecn::NotEct);
    assert_eq!((counters.marked_pkts, counters.dropped_pkts()), (1, 0));
}

#[test]
fn ce_threshold_marks_by_bytes_when_coming() {
    let mut counters = Counters::default();
    let mut queue = queue(Spec::DropTail { ce_threshold_us: None, ce_threshold_bytes: Some(200) }, None);
    for id in 0..4 {
        queue.push(0, ect(id, 100), false, RATE, &mut counters, drop);
    }
    queue.push(0, plain(4, 100), false, RATE, &mut counters, drop);
    let marks: Vec<_> =
        std::iter::from_fn(|| queue.pop(0, &mut counters, drop)).map(|p| p.ecn == Ecn::Ce).collect();
    // 0, 100 and 200 bytes do not exceed 200; 300 do.
    assert_eq!(marks, [false, false, false, true, false]);
}

#[test]
fn red_marks_packets_that_can_be_marked_and_drops_others() {
    let red = |ecn| Spec::Red { min_bytes: 1000, max_bytes: 100_000, max_ratio: 1.0, weight: 1.0, ecn };
    for (ecn, packet, marked, dropped) in [
        (true, ect as fn(u64, u32) -> TestPacket, true, false),
        (true, plain as fn(u64, u32) -> TestPacket, false, true),
        (false, ect as fn(u64, u32) -> TestPacket, false, true),
    ] {
        let mut counters = Counters::default();
        let mut queue = queue(red(ecn), None);
        for id in 0..90 {
            queue.push(0, packet(id, 1000), false, RATE, &mut counters, drop);
        }
        assert_eq!(counters.marked_pkts > 0, marked);
        assert_eq!(counters.dropped_aqm_pkts > 0, dropped);
    }
}

#[test]
fn codel_drops_the_packet_whose_turn_it_is_and_gives_the_next() {
    let mut counters = Counters::default();
    let mut queue = queue(Spec::CoDel { target_us: 5_000, interval_us: 100_000, ecn: true }, None);
    for id in 0..10 {
        queue.push(
            0,
            if id == 3 { ect(id, 1000) } else { plain(id, 1000) },
            false,
            RATE,
            &mut counters,
            drop,
        );
    }
    assert_eq!(queue.pop(10 * MS, &mut counters, drop).unwrap().id, 0);
    assert_eq!(queue.pop(110 * MS, &mut counters, drop).unwrap().id, 2);
    let marked = queue.pop(210 * MS, &mut counters, drop).unwrap();
    assert_eq!((marked.id, marked.ecn), (3, Ecn::Ce));
    assert_eq!((counters.dropped_aqm_pkts, counters.marked_pkts, queue.len()), (1, 1, 6));
}
