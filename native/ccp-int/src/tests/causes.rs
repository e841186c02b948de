//! How often the sink is right about where packets were lost.

use super::network::{Cause, LinkSpec, MS, Run, S, Traffic, run};
use crate::SourceSpec;

const WIRED: LinkSpec =
    LinkSpec { service_ns: 240_000, limit_pkts: 50, loss: 0.0, loses_sent: false, silent: false };

/// Packets lost by cause, and what the sink says of them: right, unknown, wrong.
#[derive(Debug, Default)]
struct Told {
    lost: [u64; 2],
    right: u64,
    unknown: u64,
    wrong: u64,
}

/// Looks at each gap, of which the record behind it has what was found out.
fn told(run: &Run) -> Told {
    let mut told = Told::default();
    let (mut next, mut before) = (None, [0; 3]);
    let mut seen = None;
    for row in run.records.iter().filter(|row| row.sequence.is_some()) {
        let number = row.sequence.unwrap();
        if seen.replace(number) == Some(number) {
            continue; // of another node
        }
        let after = [row.lost_congestion_pkts, row.lost_link_pkts, row.lost_unknown_pkts];
        let new = |at: usize| after[at] - before[at];
        if let Some(next) = next.replace(number + 1) {
            let of = |cause| run.lost.range(next..number).filter(|(_, lost)| **lost == cause).count() as u64;
            let lost = [of(Cause::Overflow), of(Cause::Wireless)];
            let right: u64 = (0..2).map(|at| lost[at].min(new(at))).sum();
            let all: u64 = lost.iter().sum();
            told.lost = [told.lost[0] + lost[0], told.lost[1] + lost[1]];
            told.right += right;
            told.unknown += new(2).min(all - right);
            told.wrong += all - right - new(2).min(all - right);
        }
        before = after;
    }
    told
}

fn judged(source: SourceSpec, links: &[LinkSpec], flows: usize) -> Told {
    let windows = (0..flows).map(|_| Traffic::Window { from_ns: 3 * MS, until_ns: 12 * S });
    let told = told(&run(1, source, links, windows.collect()));
    assert!(told.lost.iter().all(|lost| *lost > 5), "both happen: {told:?}");
    told
}

/// A lossy link on either side of a full one, and a link that is both.
fn topologies(loss: f64) -> [Vec<LinkSpec>; 2] {
    let air = LinkSpec { service_ns: 100_000, limit_pkts: 1000, loss, loses_sent: false, silent: false };
    [vec![air, WIRED, air], vec![LinkSpec { loss, ..WIRED }]]
}

#[test]
fn every_loss_has_its_cause_where_all_nodes_count() {
    for loss in [0.001, 0.01, 0.05, 0.2] {
        for links in topologies(loss) {
            for (flows, every_pkts) in [(1, 1), (2, 1), (5, 1), (1, 7)] {
                let told = judged(SourceSpec { every_pkts, ..SourceSpec::default() }, &links, flows);
                assert_eq!((told.unknown, told.wrong), (0, 0), "{loss} {flows} flows {links:?}: {told:?}");
            }
        }
    }
}

#[test]
fn beside_a_silent_hop_causes_are_unknown_and_never_wrong() {
    for loss in [0.01, 0.2] {
        let [links, _] = topologies(loss);
        for silent in 0..links.len() {
            let mut links = links.clone();
            links[silent].silent = true;
            let told = judged(SourceSpec::default(), &links, 2);
            assert!(told.wrong == 0 && told.unknown > 0, "{loss} {silent}: {told:?}");
        }
    }
}
