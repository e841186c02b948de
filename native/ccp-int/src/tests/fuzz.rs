//! Random headers cause no harm.

use ccp_ioam::{Node, Snapshot, State, fill_headers};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::MS;
use super::meter::flow;
use crate::{Sink, SinkSpec, Source, SourceSpec};

const INPUTS: u64 = 300_000;

#[test]
fn mutated_headers_do_no_harm() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut source = Source::new(SourceSpec::default()).unwrap();
    let mut sink = Sink::new(SinkSpec { records: true, ..SinkSpec::default() }).unwrap();
    let (mut summaries, mut reported, mut lines) = (Vec::new(), 0, String::new());
    for n in 0..INPUTS {
        let mut headers = source.headers(&flow(1), n * 1000, 6, || None).unwrap().to_vec();
        let state = State { queue_free_pkts: Some(random.random()), lost_pkts: Some(n), ..State::default() };
        let node = Node {
            node_id: Some(7),
            timestamp_s: Some(random.random_range(0..9)),
            timestamp_fraction: Some(random.random_range(0..1_000_000)),
            transit_delay_ns: Some(random.random_range(0..1 << 31)),
            queue_depth: Some(1 << random.random_range(0..32)),
            snapshot: Some(Snapshot::Ccplane(State { arrival_pkts_per_s: Some(0), ..state })),
            ..Node::default()
        };
        let _sometimes_refused = fill_headers(&mut headers, 0, 0, &node);
        for _ in 0..random.random_range(0..4) {
            let at = random.random_range(0..headers.len());
            headers[at] = random.random();
        }
        headers.truncate(if n % 9 == 0 { random.random_range(0..headers.len()) } else { headers.len() });
        let first = if n % 7 == 0 { random.random() } else { 0 };
        // Filling and removing must also be safe with these bytes.
        let mut copy = headers.clone();
        let _ = fill_headers(&mut copy, first, 0, &Node::default());
        assert_eq!(copy.len(), headers.len());
        let _ = ccp_ioam::remove_headers(&headers, first);
        sink.packet(n * MS, n * 1000, &flow(1), 1500, Some((&headers, first)));
        sink.take(n * MS, &mut summaries);
        for summary in summaries.drain(..) {
            let json = serde_json::to_string(&summary).unwrap();
            assert!(!json.contains("null"), "{json}");
            reported += summary.received_pkts;
        }
        for row in sink.take_records() {
            lines.clear();
            row.write(&mut lines);
        }
    }
    // Both kinds arrived, and few are left for the last summary.
    let malformed_pkts = sink.malformed_pkts();
    assert!(malformed_pkts > INPUTS / 20 && malformed_pkts < INPUTS / 2, "{malformed_pkts}");
    assert!(reported > INPUTS / 2, "{reported}");
}
