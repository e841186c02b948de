//! The lists of flows, with manually computed numbers.

use super::*;
use crate::engine::Counters;
use crate::engine::test_packet::TestPacket;

const MS: u64 = 1_000_000;

fn fair(spec: Spec) -> FqCoDel<TestPacket> {
    FqCoDel::new(spec, 1500, 7)
}

fn push(fair: &mut FqCoDel<TestPacket>, now_ns: u64, flow: u64, id: u64, len_bytes: u32) {
    fair.push(Waiting {
        came_ns: now_ns,
        packet: TestPacket { flow, id, len_bytes, ..TestPacket::default() },
    });
}

/// Identifiers in the order in which packets leave.
fn order(fair: &mut FqCoDel<TestPacket>, now_ns: u64, count: usize) -> Vec<u64> {
    let (mut counters, mut sojourn_max_ns) = (Counters::default(), 0);
    let mut dropped = drop;
    let mut notes =
        Notes { counters: &mut counters, sojourn_max_ns: &mut sojourn_max_ns, dropped: &mut dropped };
    std::iter::from_fn(|| fair.pop(now_ns, &mut notes)).take(count).map(|packet| packet.id).collect()
}

#[test]
fn flows_take_turns_by_bytes() {
    let mut fair = fair(Spec { quantum_bytes: 1500, ..Spec::default() });
    for id in 0..4 {
        push(&mut fair, 0, 1, id, 1500);
    }
    for id in 10..18 {
        push(&mut fair, 0, 2, id, 500);
    }
    assert_eq!(order(&mut fair, 0, 12), [0, 10, 11, 12, 1, 13, 14, 15, 2, 16, 17, 3]);
    assert_eq!((fair.len(), fair.bytes()), (0, 0));
}

#[test]
fn what_exceeds_a_turn_is_paid_back_later() {
    let mut fair = fair(Spec { quantum_bytes: 1000, ..Spec::default() });
    for id in 0..3 {
        push(&mut fair, 0, 1, id, 1500);
        push(&mut fair, 0, 2, 10 + id, 1500);
    }
    // Each turn brings 1000: credits after packets are -500, then 500 - 1500 = -1000, then two turns for one.
    assert_eq!(order(&mut fair, 0, 6), [0, 10, 1, 11, 2, 12]);
    assert!(fair.flows.iter().all(|flow| flow.line.is_empty()));
}

#[test]
fn a_new_flow_goes_first_but_not_twice() {
    let mut fair = fair(Spec { quantum_bytes: 4500, ..Spec::default() });
    for id in 0..8 {
        push(&mut fair, 0, 1, id, 1500);
    }
    // Three packets of the first turn, and one of the second.
    assert_eq!(order(&mut fair, 0, 4), [0, 1, 2, 3]);
    push(&mut fair, 0, 2, 10, 100);
    assert_eq!(order(&mut fair, 0, 2), [10, 4]);
    // The second flow was found empty, and waits for the end of the first one's turn now.
    push(&mut fair, 0, 2, 11, 100);
    assert_eq!(order(&mut fair, 0, 3), [5, 11, 6]);
}

#[test]
fn the_longest_queue_gives_room_from_its_head() {
    let mut fair = fair(Spec::default());
    for id in 0..10 {
        push(&mut fair, 0, 1, id, 1500);
    }
    for id in 100..120 {
        push(&mut fair, 0, 2, id, 100);
    }
    let mut dropped = Vec::new();
    fair.drop_of_longest(0, |packet| dropped.push(packet.id));
    assert_eq!(dropped, [0, 1, 2, 3, 4]);
    assert_eq!((fair.len(), fair.bytes()), (25, 9_500));
    for id in 200..400 {
        push(&mut fair, 0, 3, id, 1500);
    }
    dropped.clear();
    fair.drop_of_longest(0, |packet| dropped.push(packet.id));
    assert_eq!(dropped, (200..264).collect::<Vec<_>>());
}

#[test]
fn each_flow_has_a_codel_of_its_own() {
    let mut fair = fair(Spec { ecn: false, ..Spec::default() });
    for id in 0..40 {
        push(&mut fair, 0, 1, id, 1500);
    }
    let (mut counters, mut sojourn_max_ns, mut dropped) = (Counters::default(), 0, Vec::new());
    let mut note = |packet: TestPacket| dropped.push(packet.flow);
    let mut notes =
        Notes { counters: &mut counters, sojourn_max_ns: &mut sojourn_max_ns, dropped: &mut note };
    for now_ms in (10..200).step_by(10) {
        push(&mut fair, now_ms * MS, 2, 1000 + now_ms, 1500);
        for _ in 0..2 {
            fair.pop(now_ms * MS, &mut notes);
        }
    }
    // Packets of the first flow wait longer and longer; those of the second never.
    assert_eq!(dropped, [1]);
    assert_eq!(counters.dropped_aqm_pkts, 1);
}

#[test]
fn flows_spread_over_queues_and_the_seed_decides_which_collide() {
    let queues = |salt: u64| {
        let mut fair = FqCoDel::<TestPacket>::new(Spec::default(), 1500, salt);
        (0..100).for_each(|flow| push(&mut fair, 0, flow, 0, 100));
        fair.new.iter().copied().collect::<Vec<_>>()
    };
    // 100 flows in 1024 queues collide 4.7 times in the mean.
    assert!(queues(1).len() > 85 && queues(2).len() > 85);
    assert_ne!(queues(1), queues(2));
    assert_eq!(queues(1), queues(1));
}
