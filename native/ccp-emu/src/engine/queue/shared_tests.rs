//! How disciplines control and share a link, with models of senders.

use super::closed_loop::{Control, Sender, run};
use super::*;
use crate::engine::test_packet::TestPacket;
use crate::spec;

/// 20 Mbit/s.
const RATE: f64 = 2.5e6;
const ROOM: Buffer = Buffer::Bytes(1_000_000);

fn renos(count: usize, ecn: Ecn, rtt_ms: u64) -> Vec<Sender> {
    vec![Sender::new(Control::Reno, ecn, rtt_ms); count]
}

fn mean_ms(senders: &[Sender]) -> f64 {
    let delays = senders.iter().flat_map(|sender| &sender.delays_ns);
    let (sum, count) = delays.fold((0, 0), |(sum, count), delay_ns| (sum + delay_ns, count + 1));
    sum as f64 / f64::from(count) / 1e6
}

fn percentile_ms(sender: &Sender, share: f64) -> f64 {
    let mut delays_ns = sender.delays_ns.clone();
    delays_ns.sort_unstable();
    delays_ns[(delays_ns.len() as f64 * share) as usize] as f64 / 1e6
}

fn use_of_link(senders: &[Sender], seconds: f64) -> f64 {
    senders.iter().map(|sender| sender.delivered_bytes).sum::<u64>() as f64 / (RATE * seconds / 2.0)
}

#[test]
fn pie_holds_its_target_with_drops_and_with_marks() {
    for target_us in [15_000, 30_000] {
        for ecn in [Ecn::NotEct, Ecn::Ect0] {
            let pie = spec::Pie { target_us, ..spec::Pie::default() };
            let senders = run(Spec::Pie(pie), ROOM, RATE, renos(8, ecn, 40), 60);
            let mean_ms = mean_ms(&senders);
            let target_ms = target_us as f64 / 1e3;
            assert!((mean_ms - target_ms).abs() < 0.2 * target_ms, "{ecn:?}: {mean_ms} ms of {target_ms}");
            assert!(use_of_link(&senders, 60.0) > 0.97, "{}", use_of_link(&senders, 60.0));
            let losses: u64 = senders.iter().map(|sender| sender.lost_pkts).sum();
            assert!(if ecn == Ecn::NotEct { losses > 100 } else { losses < 600 }, "{losses}");
        }
    }
    let without = run(Spec::default(), ROOM, RATE, renos(8, Ecn::NotEct, 40), 60);
    assert!(mean_ms(&without) > 200.0, "{}", mean_ms(&without));
}

#[test]
fn fq_codel_shares_equally_among_flows_with_different_rtts() {
    let senders = |spec| {
        let all = [20, 40, 80, 160].map(|rtt_ms| Sender::new(Control::Reno, Ecn::Ect0, rtt_ms));
        run(spec, ROOM, RATE, all.into(), 60)
    };
    let spread = |senders: &[Sender]| {
        let bytes = senders.iter().map(|sender| sender.delivered_bytes);
        bytes.clone().max().unwrap() as f64 / bytes.min().unwrap() as f64
    };
    let fair = senders(Spec::FqCoDel(spec::FqCoDel::default()));
    let codel = senders(Spec::CoDel { target_us: 5_000, interval_us: 100_000, ecn: true });
    // The longest RTT leaves some of its share to the others, as its window falls below the BDP.
    assert!(spread(&fair) < 2.0, "{}", spread(&fair));
    assert!(spread(&codel) > 4.0, "{}", spread(&codel));
    assert!(use_of_link(&fair, 60.0) > 0.93, "{}", use_of_link(&fair, 60.0));
}

#[test]
fn fq_codel_isolates_a_thin_flow() {
    let delay_ms = |spec| {
        let mut all = renos(4, Ecn::NotEct, 40);
        all.push(Sender::new(Control::Thin(20_000_000), Ecn::NotEct, 40));
        let senders = run(spec, ROOM, RATE, all, 30);
        assert!(senders[4].delays_ns.len().abs_diff(750) <= 1);
        percentile_ms(&senders[4], 0.99)
    };
    // A packet of 1,500 bytes takes 0.6 ms: one is in transmission, and few are of other new flows.
    let fair_ms = delay_ms(Spec::FqCoDel(spec::FqCoDel::default()));
    let codel_ms = delay_ms(Spec::CoDel { target_us: 5_000, interval_us: 100_000, ecn: true });
    assert!(fair_ms < 2.5, "{fair_ms}");
    assert!(codel_ms > 5.0, "{codel_ms}");
}

#[test]
fn fq_codel_takes_room_from_the_flow_with_the_longest_queue() {
    let mut counters = Counters::default();
    let spec = Spec::FqCoDel(spec::FqCoDel::default());
    let mut queue = Queue::new(spec, Some(Buffer::Packets(100)), 1500, Stream::new(1, "l>", "queue"));
    let mut dropped = Vec::new();
    for id in 0..110 {
        let flow = u64::from(id >= 100);
        let packet = TestPacket { id, flow, ..TestPacket::default() };
        assert!(queue.push(0, packet, false, RATE, &mut counters, |packet| dropped.push(packet.id)));
    }
    // The 101st packet makes the first flow lose its 50 oldest.
    assert_eq!(dropped, (0..50).collect::<Vec<_>>());
    assert_eq!((counters.dropped_queue_pkts, queue.len(), queue.bytes()), (50, 60, 90_000));
}

#[test]
fn dual_pi2_couples_so_that_scalable_and_classic_flows_share_equally() {
    for counts in [(1, 1), (4, 4), (2, 6)] {
        let mut all = vec![Sender::new(Control::Scalable, Ecn::Ect1, 40); counts.0];
        all.extend(renos(counts.1, Ecn::NotEct, 40));
        let senders = run(Spec::DualPi2(spec::DualPi2::default()), ROOM, RATE, all, 60);
        let (low, classic) = senders.split_at(counts.0);
        let each = |some: &[Sender]| {
            some.iter().map(|sender| sender.delivered_bytes).sum::<u64>() as f64 / some.len() as f64
        };
        let ratio = each(low) / each(classic);
        let delays = (percentile_ms(&low[0], 0.99), mean_ms(classic));
        assert!((0.55..1.9).contains(&ratio), "{counts:?}: {ratio}");
        assert!(delays.0 < 3.0, "{counts:?}: {delays:?}");
        assert!((12.0..17.0).contains(&delays.1), "{counts:?}: {delays:?}");
        assert!(use_of_link(&senders, 60.0) > 0.9, "{counts:?}: {}", use_of_link(&senders, 60.0));
        assert_eq!(low.iter().map(|sender| sender.lost_pkts).sum::<u64>(), 0);
    }
}

#[test]
fn runs_are_reproducible() {
    for spec in [
        Spec::Pie(spec::Pie::default()),
        Spec::FqCoDel(spec::FqCoDel::default()),
        Spec::DualPi2(spec::DualPi2::default()),
    ] {
        let once = || {
            let mut all = renos(3, Ecn::Ect0, 30);
            all.push(Sender::new(Control::Scalable, Ecn::Ect1, 30));
            run(spec, ROOM, RATE, all, 5).into_iter().map(|sender| sender.delays_ns).collect::<Vec<_>>()
        };
        assert_eq!(once(), once());
    }
}

#[test]
fn waiting_packets_survive_changes_of_the_discipline_in_order() {
    let mut counters = Counters::default();
    let mut queue = Queue::new(Spec::default(), None, 1500, Stream::new(1, "l>", "queue"));
    for id in 0..40 {
        let ecn = if id % 2 == 0 { Ecn::Ect1 } else { Ecn::NotEct };
        let packet = TestPacket { id, flow: id % 3, ecn, ..TestPacket::default() };
        queue.push(id, packet, false, RATE, &mut counters, drop);
    }
    for spec in [
        Spec::FqCoDel(spec::FqCoDel::default()),
        Spec::DualPi2(spec::DualPi2::default()),
        Spec::Pie(spec::Pie::default()),
    ] {
        queue.set(spec, None, 1500);
        assert_eq!((queue.len(), queue.bytes()), (40, 60_000));
        assert_eq!(queue.head_bytes(), Some(1500));
    }
    let left = std::iter::from_fn(|| queue.pop(100, &mut counters, drop)).map(|packet| packet.id);
    assert_eq!(left.collect::<Vec<_>>(), (0..40).collect::<Vec<_>>());
    assert!(queue.is_empty() && counters.dropped_pkts() == 0);
}
