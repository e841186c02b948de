//! Controller, classifier and scheduler, with manually computed numbers.

use super::*;
use crate::engine::Counters;
use crate::engine::test_packet::TestPacket;

const MS: u64 = 1_000_000;

fn dual() -> DualPi2<TestPacket> {
    let mut dual = DualPi2::new(Spec::default());
    dual.advance(0);
    dual
}

fn push(dual: &mut DualPi2<TestPacket>, now_ns: u64, id: u64, ecn: Ecn) {
    dual.push(Waiting { came_ns: now_ns, packet: TestPacket { id, ecn, ..TestPacket::default() } });
}

/// Packets in the order in which they leave, and the identifiers of dropped ones.
fn pop(dual: &mut DualPi2<TestPacket>, now_ns: u64, count: usize) -> (Vec<TestPacket>, Vec<u64>) {
    let (mut counters, mut sojourn_max_ns, mut dropped) = (Counters::default(), 0, Vec::new());
    let mut note = |packet: TestPacket| dropped.push(packet.id);
    let mut notes =
        Notes { counters: &mut counters, sojourn_max_ns: &mut sojourn_max_ns, dropped: &mut note };
    let packets = (0..count).map_while(|_| dual.pop(now_ns, &mut notes)).collect();
    (packets, dropped)
}

fn ids(packets: &[TestPacket]) -> Vec<u64> {
    packets.iter().map(|packet| packet.id).collect()
}

#[test]
fn the_controller_has_the_gains_of_the_rfc() {
    // T = min(15 ms, 100 ms / 3); 0.1 * 0.015 / 0.1^2 = 0.15 Hz, 0.3 / 0.1 = 3 Hz.
    let mut dual = dual();
    assert!((dual.gains_hz.0 - 0.15).abs() < 1e-12 && (dual.gains_hz.1 - 3.0).abs() < 1e-12);
    push(&mut dual, 0, 0, Ecn::NotEct);
    // After 15 ms: 0.15 * (15 - 15) ms + 3 * 15 ms = 0.045; after 30 ms: + 0.15 * 15 ms + 3 * 15 ms.
    dual.advance(15 * MS);
    assert!((dual.base - 0.045).abs() < 1e-12, "{}", dual.base);
    dual.advance(30 * MS);
    assert!((dual.base - 0.045 - 0.047_25).abs() < 1e-12, "{}", dual.base);
    pop(&mut dual, 30 * MS, 1);
    dual.advance(45 * MS);
    // Empty: 0.15 * -15 ms - 3 * 30 ms.
    assert!((dual.base - (0.092_25 - 0.092_25f64)).abs() < 1e-12, "{}", dual.base);
}

#[test]
fn the_codepoint_selects_the_queue() {
    for (any_ect, low_ids) in [(false, vec![2, 3]), (true, vec![1, 2, 3])] {
        let mut dual = DualPi2::new(Spec { any_ect, ..Spec::default() });
        for (id, ecn) in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce].into_iter().enumerate() {
            push(&mut dual, 0, id as u64, ecn);
        }
        assert_eq!(dual.low.line.len(), low_ids.len());
        let mut low: Vec<_> = dual.low.line.take().into_iter().map(|one| one.packet.id).collect();
        low.sort_unstable();
        assert_eq!(low, low_ids);
    }
}

#[test]
fn the_classic_queue_gets_a_sixteenth_while_both_have_packets() {
    let mut dual = dual();
    for id in 0..64 {
        push(&mut dual, 0, id, Ecn::Ect1);
        push(&mut dual, 0, 100 + id, Ecn::NotEct);
    }
    let (packets, _) = pop(&mut dual, 0, 64);
    assert_eq!(ids(&packets[..4]), [0, 100, 1, 2]);
    assert_eq!(packets.iter().filter(|packet| packet.id >= 100).count(), 4);
    // Alone, it gets everything.
    while !dual.low.line.is_empty() {
        pop(&mut dual, 0, 1);
    }
    let left = dual.len();
    assert!(left > 50);
    assert_eq!(pop(&mut dual, 0, 100).0.len(), left);
}

#[test]
fn the_step_marks_what_waited_longer_than_1_ms_if_more_packets_wait() {
    let mut dual = dual();
    for id in 0..3 {
        push(&mut dual, 0, id, Ecn::Ect1);
    }
    let marks = [MS, MS + 1, 5 * MS].map(|now_ns| pop(&mut dual, now_ns, 1).0[0].ecn == Ecn::Ce);
    assert_eq!(marks, [false, true, false]);
}

#[test]
fn signals_are_squared_in_the_classic_queue_and_doubled_in_the_other() {
    // p' = 0.1: p_CL = 0.2, p_C = 0.01.
    let signals = |ecn: Ecn| {
        let mut dual = DualPi2 { base: 0.1, ..dual() };
        (0..1000).for_each(|id| push(&mut dual, 0, id, ecn));
        let (packets, dropped) = pop(&mut dual, 0, 1000);
        (packets.iter().filter(|packet| packet.ecn == Ecn::Ce).count(), dropped.len())
    };
    let near = |count: usize, expected: usize| count.abs_diff(expected) <= 1;
    let (low, ect0, plain) = (signals(Ecn::Ect1), signals(Ecn::Ect0), signals(Ecn::NotEct));
    assert!(near(low.0, 200) && low.1 == 0, "{low:?}");
    assert!(near(ect0.0, 10) && ect0.1 == 0, "{ect0:?}");
    assert!(plain.0 == 0 && near(plain.1, 10), "{plain:?}");
}

#[test]
fn overload_drops_in_both_queues() {
    // p' = 0.6: p_CL is 1, p_C = 0.36 is above 1 / k^2.
    for ecn in [Ecn::Ect1, Ecn::Ect0] {
        let mut dual = DualPi2 { base: 0.6, ..dual() };
        (0..1000).for_each(|id| push(&mut dual, 0, id, ecn));
        let (packets, dropped) = pop(&mut dual, 0, 1000);
        assert!(dropped.len().abs_diff(360) <= 1, "{}", dropped.len());
        assert!(packets.iter().all(|packet| packet.ecn == if ecn == Ecn::Ect1 { Ecn::Ce } else { ecn }));
    }
}

#[test]
fn a_long_idle_time_is_skipped_and_forgotten() {
    let mut dual = DualPi2 { base: 0.4, before_ns: 30 * MS, ..dual() };
    let year_ns = 365 * 86_400_000 * MS;
    dual.advance(year_ns);
    assert_eq!((dual.base, dual.before_ns, dual.updates.due(year_ns)), (0.0, 0, None));
}
