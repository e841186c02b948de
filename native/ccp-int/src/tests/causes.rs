//! How often the sink is right about why packets were lost.

use super::network::{Cause, LinkSpec, MS, Run, S, Traffic, run};
use crate::SourceSpec;

const WIRED: LinkSpec =
    LinkSpec { service_ns: 240_000, limit_pkts: 50, loss: 0.0, loses_sent: false, counts: true };

/// By cause, first of those lost on links: how many the sink was right about, and how many not.
fn confusion(run: &Run) -> [(u64, u64); 2] {
    let mut matrix = [(0, 0); 2];
    let mut next = 0;
    for row in run.records.iter().filter(|row| row.hop == Some(1)) {
        let number = row.sequence.unwrap();
        let gap = next..number;
        next = number + 1;
        let told = [(Cause::Wireless, row.lost_wireless_pkts), (Cause::Overflow, row.lost_overflow_pkts)];
        for ((cause, told), (right, wrong)) in told.into_iter().zip(&mut matrix) {
            let lost = run.lost.range(gap.clone()).filter(|(_, lost)| **lost == cause).count() as u64;
            *right += told.min(lost);
            *wrong += lost.saturating_sub(told);
        }
    }
    matrix
}

fn ratio((right, wrong): (u64, u64)) -> f64 {
    right as f64 / (right + wrong) as f64
}

fn right(links: &[LinkSpec], flows: usize) -> (f64, f64) {
    let windows = (0..flows).map(|_| Traffic::Window { from_ns: 3 * MS, until_ns: 12 * S });
    let [wireless, overflow] = confusion(&run(1, SourceSpec::default(), links, windows.collect()));
    assert!(wireless.0 > 5 && overflow.0 > 5, "both happen");
    (ratio((wireless.0 + overflow.0, wireless.1 + overflow.1)), ratio(overflow))
}

/// A lossy link on either side of a full one, and a link that is both.
fn topologies(loss: f64, counts: bool) -> [Vec<LinkSpec>; 2] {
    let air = LinkSpec { service_ns: 100_000, limit_pkts: 1000, loss, loses_sent: false, counts };
    [vec![air, LinkSpec { counts, ..WIRED }, air], vec![LinkSpec { loss, counts, ..WIRED }]]
}

#[test]
fn nearly_all_losses_have_their_cause_where_nodes_count() {
    for loss in [0.001, 0.01, 0.05, 0.2] {
        for links in topologies(loss, true) {
            assert!(right(&links, 1).0 > 0.999, "{loss} {links:?}");
            for flows in [2, 5] {
                let (all, _) = right(&links, flows);
                assert!(all > 0.95, "{loss} {flows} flows {links:?}: {all}");
            }
        }
    }
}

#[test]
fn room_alone_finds_all_overflow_and_most_of_the_rest() {
    for loss in [0.001, 0.01, 0.05, 0.2] {
        for links in topologies(loss, false) {
            let (all, overflow) = right(&links, 1);
            assert!(all > 0.95 && overflow == 1.0, "{loss} {links:?}: {all} {overflow}");
        }
    }
}
