//! Means of a sink against the truth.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::network::{LinkSpec, MS, Run, S, Traffic, run};
use crate::SourceSpec;

/// 8333 packets a second.
const LINK: LinkSpec =
    LinkSpec { service_ns: 120_000, limit_pkts: 100, loss: 0.0, loses_sent: false, silent: false };
const LOSSY: LinkSpec = LinkSpec { loss: 0.2, ..LINK };

/// Sums until some time: packets that came, packets that waited times time.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    at_us: u64,
    arrived_pkts: f64,
    waited_us: f64,
}

/// The worst relative errors over all windows of at least a length; of depths below a packet, in packets.
#[derive(Debug)]
struct Worst {
    arrivals: f64,
    depth: f64,
}

/// What the sink says of the first node, and what is true of it.
fn sums(run: &Run) -> Vec<(Sums, Sums)> {
    let mut rows = run.records.iter().filter(|row| row.hop == Some(1)).peekable();
    let (mut told, mut all, mut at_us) = (Sums::default(), Vec::new(), 0);
    for summary in &run.summaries {
        while let Some(row) = rows.next_if(|row| row.mono_ns / 1000 <= summary.end_mono_us) {
            at_us = u64::from(row.node.timestamp_s.unwrap() - 1_700_000_000) * 1_000_000
                + u64::from(row.node.timestamp_fraction.unwrap());
        }
        let Some(hop) = summary.hops.first() else { continue };
        let time_us = hop.interval_us as f64;
        told.at_us = at_us;
        told.arrived_pkts += hop.arrival_pkts_per_s.unwrap() as f64 * time_us / 1e6;
        told.waited_us += hop.queue_depth_pkts.unwrap() * time_us;
        let (_, (arrived, waited_ns)) = run.links[0].at.range(..=at_us).next_back().unwrap();
        let truth = Sums { at_us, arrived_pkts: *arrived as f64, waited_us: *waited_ns as f64 / 1000.0 };
        all.push((told, truth));
    }
    // From nothing on: the first summary reaches back by an interval.
    all.insert(0, Default::default());
    all
}

fn worst(run: &Run, window_us: u64) -> Worst {
    let sums = sums(run);
    let mut worst = Worst { arrivals: 0.0, depth: 0.0 };
    let mut windows = 0;
    for (from, (told_from, true_from)) in sums.iter().enumerate() {
        let Some((told, truth)) =
            sums[from..].iter().find(|(told, _)| told.at_us >= told_from.at_us + window_us)
        else {
            break;
        };
        let time_us = (told.at_us - told_from.at_us) as f64;
        let arrived_pkts = truth.arrived_pkts - true_from.arrived_pkts;
        let arrivals = told.arrived_pkts - told_from.arrived_pkts - arrived_pkts;
        let depth_pkts = (truth.waited_us - true_from.waited_us) / time_us;
        let depth = (told.waited_us - told_from.waited_us) / time_us - depth_pkts;
        worst.arrivals = worst.arrivals.max((arrivals / arrived_pkts).abs());
        worst.depth = worst.depth.max((depth / depth_pkts.max(1.0)).abs());
        windows += 1;
    }
    assert!(windows > 0);
    worst
}

fn every(every_pkts: u32) -> SourceSpec {
    SourceSpec { every_pkts, ..SourceSpec::default() }
}

/// Packets at random times.
fn random(seed: u64, pkts_per_s: f64) -> Traffic {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let gaps_ns = std::iter::repeat_with(move || -(1.0 - random.random::<f64>()).ln() * 1e9 / pkts_per_s);
    let times_ns = gaps_ns.scan(0.0, |at_ns, gap_ns| {
        *at_ns += gap_ns;
        Some(*at_ns as u64)
    });
    Traffic::At(times_ns.take_while(|at_ns| *at_ns < 2 * S).collect())
}

/// Bursts of packets, from some time on, with pauses between.
fn bursts(pkts: u64, every_ns: u64) -> Traffic {
    let starts_ns = (0..2 * S / every_ns)
        .map(|n| 53 * MS + n * every_ns)
        .filter(|at_ns| (at_ns / (60 * MS)).is_multiple_of(2));
    Traffic::At(starts_ns.flat_map(|at_ns| (0..pkts).map(move |n| at_ns + n * 3000)).collect())
}

fn window() -> Traffic {
    Traffic::Window { from_ns: 3 * MS, until_ns: 3 * S }
}

#[test]
fn means_are_exact_for_a_flow_that_is_alone() {
    for (name, link, traffic) in [
        ("random", LINK, random(1, 7500.0)),
        ("bursts", LINK, bursts(20, 10 * MS)),
        ("few bursts", LINK, bursts(20, 40 * MS)),
        ("a packet now and then", LINK, bursts(1, 5 * MS)),
        ("window", LINK, window()),
        ("window, losses", LOSSY, window()),
    ] {
        let run = run(1, every(1), &[link], vec![traffic]);
        for window_us in [100_000, 1_000_000] {
            let worst = worst(&run, window_us);
            assert!(worst.arrivals < 0.02 && worst.depth < 0.005, "{name}, {window_us} us: {worst:?}");
        }
    }
}

#[test]
fn means_are_right_among_other_flows() {
    for (name, link, traffic) in [
        ("two windows", LINK, vec![window(), window()]),
        ("three windows, losses", LOSSY, vec![window(), window(), window()]),
        ("eight windows", LINK, (0..8).map(|_| window()).collect()),
        ("random", LINK, vec![random(1, 5000.0), random(2, 2500.0)]),
        ("losses behind the queue", LinkSpec { loses_sent: true, ..LOSSY }, vec![window()]),
    ] {
        let run = run(1, every(1), &[link], traffic);
        let worst = worst(&run, 1_000_000);
        assert!(worst.arrivals < 0.02 && worst.depth < 0.02, "{name}: {worst:?}");
    }
}

#[test]
fn one_packet_in_ten_is_enough_for_a_second() {
    let run = run(1, every(10), &[LINK], vec![window()]);
    let worst = worst(&run, 1_000_000);
    assert!(worst.arrivals < 0.02 && worst.depth < 0.02, "{worst:?}");
}

#[test]
fn flows_and_room_are_those_that_packets_found() {
    let run = run(1, every(1), &[LINK], vec![window(), window()]);
    for summary in &run.summaries[5..] {
        let hop = &summary.hops[0];
        assert_eq!(hop.flow_count, Some(2));
        let sum = hop.queue_free_pkts.unwrap() + hop.queue_depth_pkts.unwrap();
        assert!((sum - 100.0).abs() < 0.01, "{hop:?}");
    }
}
