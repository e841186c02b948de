//! Lost, late and duplicated packets are counted correctly for any share of numbered packets.

use proptest::prelude::*;

use super::MS;
use super::meter::flow;
use crate::{Sink, SinkSpec, Source, SourceSpec};

const WALL_NS: u64 = 1_700_000_000_000_000_000;

/// A packet's fate: lost, or delayed by this many others, and perhaps duplicated.
#[derive(Clone, Copy, Debug)]
struct Fate {
    lost: bool,
    late_pkts: u8,
    again_pkts: Option<u8>,
}

fn fates(late_pkts: u8, twice: bool) -> impl Strategy<Value = Vec<Fate>> {
    let again = if twice { prop::option::weighted(0.2, 0..8u8).boxed() } else { Just(None).boxed() };
    let fate = (prop::bool::weighted(0.3), 0..=late_pkts, again);
    let fate = fate.prop_map(|(lost, late_pkts, again_pkts)| Fate { lost, late_pkts, again_pkts });
    prop::collection::vec(fate, 1..200)
}

/// The sink's totals: received, lost, and lost by cause.
#[derive(Debug, Default, PartialEq)]
struct Reported {
    received: u64,
    lost: u64,
}

/// Sends packets to a sink, and takes summaries regularly.
fn reported(fates: &[Fate], every_pkts: u32, take_pkts: usize) -> Reported {
    let mut source = Source::new(SourceSpec { every_pkts, ..SourceSpec::default() }).unwrap();
    let mut sink = Sink::new(SinkSpec::default()).unwrap();
    let mut arrivals = Vec::new();
    for (number, fate) in fates.iter().enumerate() {
        let headers = source.headers(&flow(1), WALL_NS, 6, || None).map(<[u8]>::to_vec);
        if !fate.lost {
            let copies = [Some(fate.late_pkts), fate.again_pkts];
            let places = copies.into_iter().flatten().map(|pkts| number + usize::from(pkts));
            arrivals.extend(places.map(|place| (place, number, headers.clone())));
        }
    }
    // Of two at the same place, the one sent later is late.
    arrivals.sort_by_key(|(place, number, _)| (*place, *number));
    let mut summaries = Vec::new();
    for (count, (_, _, headers)) in arrivals.iter().enumerate() {
        let extension = headers.as_deref().map(|headers| (headers, 0));
        sink.packet(count as u64, WALL_NS, &flow(1), 1500, extension);
        if (count + 1) % take_pkts == 0 {
            sink.take(u64::MAX, &mut summaries);
        }
    }
    sink.take(u64::MAX, &mut summaries);
    let mut reported = Reported::default();
    for summary in summaries {
        reported.received += summary.received_pkts;
        reported.lost += summary.lost_pkts.unwrap();
    }
    reported
}

/// Packets between numbered packets that arrived, as far as the sink can know.
fn bounds(fates: &[Fate], every_pkts: usize) -> Option<std::ops::Range<usize>> {
    let there = |(number, fate): &(usize, &Fate)| !fate.lost && number % every_pkts == 0;
    let first = fates.iter().enumerate().find(there)?.0;
    let last = fates.iter().enumerate().rfind(there)?.0;
    Some(first..last + 1)
}

fn lost(fates: &[Fate]) -> u64 {
    fates.iter().filter(|fate| fate.lost).count() as u64
}

proptest! {
    #[test]
    fn every_loss_is_counted_once(fates in fates(0, false), every in 1usize..6, take_pkts in 1usize..20) {
        if let Some(known) = bounds(&fates, every) {
            let reported = reported(&fates, every as u32, take_pkts);
            prop_assert_eq!(reported.lost, lost(&fates[known.clone()]));
            prop_assert_eq!(reported.received, (fates.len() - known.start) as u64 - lost(&fates[known.start..]));
        }
    }

    #[test]
    fn what_is_late_or_there_twice_is_not_lost(fates in fates(8, true)) {
        // Nothing arrives before the first number, which would be before the sink's start.
        let mut fates = fates;
        (fates[0].lost, fates[0].late_pkts) = (false, 0);
        if let Some(known) = bounds(&fates, 1) {
            let reported = reported(&fates, 1, usize::MAX);
            prop_assert_eq!(reported.lost, lost(&fates[known]));
            prop_assert_eq!(reported.received, fates.len() as u64 - lost(&fates));
        }
    }

    #[test]
    fn what_is_reported_too_early_is_taken_back(fates in fates(8, true), take_pkts in 1usize..20) {
        let mut fates = fates;
        (fates[0].lost, fates[0].late_pkts) = (false, 0);
        let late = fates.iter().filter(|fate| !fate.lost).count() as u64;
        let lost = lost(&fates[bounds(&fates, 1).unwrap()]);
        let reported_lost = reported(&fates, 1, take_pkts).lost;
        prop_assert!((lost..=lost + late).contains(&reported_lost));
        // Later losses compensate.
        let gone = Fate { lost: true, late_pkts: 0, again_pkts: None };
        let last = Fate { lost: false, ..gone };
        // By then all late packets have arrived.
        let more: Vec<_> = fates.into_iter().chain([last; 20]).chain([gone; 300]).chain([last]).collect();
        prop_assert_eq!(reported(&more, 1, take_pkts).lost, lost_within(&more));
    }

    #[test]
    fn numbers_of_which_few_are_there_may_be_late(fates in fates(3, false), every in 2usize..6) {
        // Packets without a number count where they arrive, so only the sum is exact.
        let mut fates = fates;
        (fates[0].lost, fates[0].late_pkts) = (false, 0);
        let calm = Fate { lost: false, late_pkts: 0, again_pkts: None };
        fates.extend([calm; 30]);
        let known = bounds(&fates, every).unwrap();
        let reported = reported(&fates, every as u32, usize::MAX);
        prop_assert_eq!(reported.lost, lost(&fates[known]));
    }
}

fn lost_within(fates: &[Fate]) -> u64 {
    lost(&fates[bounds(fates, 1).unwrap()])
}

#[test]
fn a_source_that_starts_again_is_believed_after_a_while() {
    let mut sink = Sink::new(SinkSpec::default()).unwrap();
    let mut summaries = Vec::new();
    for round in 0..2 {
        let mut source = Source::new(SourceSpec::default()).unwrap();
        for number in 0..1000 {
            let headers = source.headers(&flow(1), WALL_NS, 6, || None).unwrap();
            let lost = round == 1 && number == 500;
            if !lost {
                sink.packet((round * 1000 + number) * MS, WALL_NS, &flow(1), 1500, Some((headers, 0)));
            }
        }
    }
    sink.take(u64::MAX, &mut summaries);
    assert_eq!(summaries[0].lost_pkts, Some(1));
}
