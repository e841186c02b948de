//! What a sink makes of packets, by hand.

use ccp_ioam::{IoamOption, Node, Snapshot, State, TcpState, TraceOption, TraceType, build, fill_headers};

use super::meter::flow;
use super::network::{MS, S};
use crate::recent::MAX_FLOWS;
use crate::{
    FlowKey, LossCause, NodeInfo, NodeTable, RecordRow, Sink, SinkSpec, Source, SourceSpec, Summary, Unit,
};

const WALL_NS: u64 = 1_700_000_000 * S;

/// A path from a source through some nodes to a sink.
struct Path {
    source: Source,
    sink: Sink,
    summaries: Vec<Summary>,
}

impl Path {
    fn new(source: SourceSpec, sink: SinkSpec) -> Self {
        Path { source: Source::new(source).unwrap(), sink: Sink::new(sink).unwrap(), summaries: vec![] }
    }

    /// Sends a packet, which nodes fill and which takes so long.
    fn send(&mut self, sent_ns: u64, latency_ns: u64, cwnd_bytes: Option<u32>, nodes: &[Node]) {
        let tcp = || Some(TcpState { cwnd_bytes, mss_bytes: None, ..TcpState::default() });
        let headers = self.source.headers(&flow(1), WALL_NS + sent_ns, 6, tcp);
        let headers = headers.map(|headers| {
            let mut headers = headers.to_vec();
            nodes.iter().for_each(|node| assert!(fill_headers(&mut headers, 0, 0, node).is_ok()));
            headers
        });
        let came_ns = sent_ns + latency_ns;
        self.sink.take(came_ns, &mut self.summaries);
        let extension = headers.as_deref().map(|headers| (headers, 0));
        self.sink.packet(came_ns, WALL_NS + came_ns, &flow(1), 1500, extension);
    }

    fn end(mut self) -> Vec<Summary> {
        self.sink.take(u64::MAX, &mut self.summaries);
        self.summaries
    }
}

fn node(node_id: u32, at_ns: u64, queue_depth: u32, state: Option<State>) -> Node {
    Node {
        node_id: Some(node_id),
        timestamp_s: Some(((WALL_NS + at_ns) / S) as u32),
        timestamp_fraction: Some((at_ns % S / 1000) as u32),
        queue_depth: Some(queue_depth),
        snapshot: state.map(Snapshot::Ccplane),
        ..Node::default()
    }
}

#[test]
fn latency_jitter_and_window_are_those_of_the_packets() {
    let mut path = Path::new(SourceSpec::default(), SinkSpec::default());
    path.send(20 * MS, 5 * MS, Some(10_000), &[]);
    path.send(21 * MS, 6 * MS, Some(20_000), &[]);
    path.send(22 * MS, 5 * MS, None, &[]);
    path.send(50 * MS, 9 * MS, None, &[]); // of the next interval
    let [first, second] = &path.end()[..] else { panic!() };
    assert_eq!((first.received_pkts, first.interval_us, first.end_mono_us), (3, 10_000 + 2_000, 27_000));
    assert_eq!(
        (first.latency_us, first.latency_max_us, first.jitter_us),
        (Some(5333), Some(6000), Some(1000))
    );
    assert_eq!((first.cwnd_bytes, first.lost_pkts, first.loss_ratio), (Some(20_000), Some(0), Some(0.0)));
    assert_eq!(first.loss_cause, Some(LossCause::None));
    assert_eq!((second.received_pkts, second.interval_us, second.end_mono_us), (1, 32_000, 59_000));
    assert_eq!((second.latency_us, second.jitter_us, second.cwnd_bytes), (Some(9000), Some(4000), None));
}

#[test]
fn a_pause_of_ten_intervals_is_no_part_of_one() {
    let mut path = Path::new(SourceSpec::default(), SinkSpec::default());
    let at = |ns, depth| [node(7, ns, depth, Some(State::default()))];
    path.send(0, 0, None, &at(0, 4));
    path.send(2 * MS, 0, None, &at(2 * MS, 6));
    path.send(102 * MS, 0, None, &at(102 * MS, 8));
    let [first, second] = &path.end()[..] else { panic!() };
    // 4 over the 10 ms before the first packet; from 5, which that one leaves, to 6 over 2 ms.
    assert_eq!(first.hops[0].queue_depth_pkts, Some(4.25));
    assert_eq!((second.interval_us, second.hops[0].interval_us), (10_000, 10_000));
    assert_eq!(second.hops[0].queue_depth_pkts, Some(8.0));
    assert_eq!(second.lost_pkts, Some(0));
}

#[test]
fn intervals_without_packets_have_no_summary() {
    let mut path = Path::new(SourceSpec::default(), SinkSpec::default());
    assert_eq!(path.sink.due_ns(), None);
    path.send(3 * MS, 0, None, &[]);
    assert_eq!(path.sink.due_ns(), Some(13 * MS));
    path.sink.take(13 * MS - 1, &mut path.summaries);
    assert_eq!(path.summaries, []);
    path.sink.take(13 * MS, &mut path.summaries);
    assert_eq!((path.summaries.len(), path.sink.due_ns()), (1, None));
    assert_eq!(path.end().len(), 1);
}

#[test]
fn depths_have_the_unit_of_their_node() {
    let listed = NodeInfo { queue_depth_unit: Some(Unit::Bytes), ..NodeInfo::default() };
    let nodes = NodeTable([(8, listed)].into());
    let mut path = Path::new(SourceSpec::default(), SinkSpec { nodes, ..SinkSpec::default() });
    for at_ns in [0, 2 * MS] {
        let ours = node(7, at_ns, 3000, Some(State::default()));
        path.send(at_ns, MS, None, &[ours, node(8, at_ns, 3000, None), node(9, at_ns, 3000, None)]);
    }
    let hops = &path.end()[0].hops;
    assert_eq!(hops.iter().map(|hop| hop.node_id).collect::<Vec<_>>(), [Some(7), Some(8), Some(9)]);
    let depths: Vec<_> = hops.iter().map(|hop| (hop.queue_depth_pkts, hop.queue_depth_bytes)).collect();
    // Each packet leaves one more behind than it found: over 2 of 12 ms, on average half of it.
    assert_eq!(depths, [(Some(3000.083), None), (None, Some(3125)), (None, None)]);
}

#[test]
fn wireless_links_and_losses_of_a_node_are_told() {
    let mut path =
        Path::new(SourceSpec { wireless_nodes: true, ..SourceSpec::default() }, SinkSpec::default());
    for (n, (lost, rssi)) in
        [(State::LOST_MODULUS - 2, -60.0), (1, -70.0), (4, -62.0)].into_iter().enumerate()
    {
        let state = State {
            lost_pkts: Some(lost),
            rssi_dbm: Some(rssi),
            data_rate_bytes_per_s: Some(1_000_000),
            mcs: Some(n as u8),
            ..State::default()
        };
        path.send(n as u64 * MS, MS, None, &[node(7, n as u64 * MS, 0, Some(state))]);
    }
    let hop = path.end()[0].hops[0].clone();
    assert_eq!((hop.lost_pkts, hop.rssi_dbm, hop.mcs), (Some(6), Some(-64.0), Some(2)));
    assert_eq!((hop.data_rate_bytes_per_s, hop.snr_db), (Some(1_000_000), None));
}

#[test]
fn another_node_in_its_place_starts_anew() {
    let mut path = Path::new(SourceSpec::default(), SinkSpec::default());
    let state = |lost| Some(State { lost_pkts: Some(lost), ..State::default() });
    path.send(0, MS, None, &[node(7, 0, 0, state(5))]);
    path.send(MS, MS, None, &[node(8, MS, 0, state(1000))]);
    path.send(2 * MS, MS, None, &[node(8, 2 * MS, 0, state(1001)), node(9, 2 * MS, 0, None)]);
    let hops = &path.end()[0].hops;
    assert_eq!(hops.len(), 2);
    assert_eq!((hops[0].node_id, hops[0].lost_pkts), (Some(8), Some(1)));
}

#[test]
fn causes_follow_room_and_what_nodes_call_full() {
    let lost_after = |free: [u32; 2], full_pkts: Option<u32>| {
        let nodes = NodeTable([(7, NodeInfo { full_pkts, ..NodeInfo::default() })].into());
        let mut path = Path::new(SourceSpec::default(), SinkSpec { nodes, ..SinkSpec::default() });
        for (n, free) in free.into_iter().enumerate() {
            let state = State { queue_free_pkts: Some(free), ..State::default() };
            let at_ns = n as u64 * MS;
            path.send(at_ns, MS, None, &[node(7, at_ns, 0, Some(state))]);
            // One is lost.
            path.source.headers(&flow(1), WALL_NS, 6, || None);
        }
        let summary = path.end().remove(0);
        (summary.loss_cause.unwrap(), summary.lost_wireless_pkts, summary.lost_overflow_pkts)
    };
    let (wireless, overflow) =
        ((LossCause::Wireless, Some(1), Some(0)), (LossCause::Overflow, Some(0), Some(1)));
    assert_eq!(lost_after([9, 9], None), wireless);
    assert_eq!(lost_after([1, 9], None), overflow);
    assert_eq!(lost_after([9, 1], None), overflow);
    assert_eq!(lost_after([2, 9], None), wireless);
    assert_eq!(lost_after([2, 9], Some(2)), overflow);
    assert_eq!(lost_after([1, 9], Some(0)), wireless);
}

#[test]
fn without_room_nobody_knows_why() {
    let mut path = Path::new(SourceSpec::default(), SinkSpec::default());
    for n in 0..2 {
        path.send(n * MS, MS, None, &[node(7, n * MS, 0, None)]);
        path.source.headers(&flow(1), WALL_NS, 6, || None);
    }
    let summary = path.end().remove(0);
    assert_eq!((summary.lost_pkts, summary.loss_cause), (Some(1), None));
    assert_eq!((summary.lost_wireless_pkts, summary.lost_overflow_pkts), (None, None));
}

#[test]
fn a_silent_queue_beside_one_with_room_makes_the_cause_unknown() {
    let room = |free| Some(State { queue_free_pkts: Some(free), ..State::default() });
    let cause_by = |second: Option<State>, queue_is_unlimited: bool| {
        let nodes = NodeTable([(8, NodeInfo { queue_is_unlimited, ..NodeInfo::default() })].into());
        let mut path = Path::new(SourceSpec::default(), SinkSpec { nodes, ..SinkSpec::default() });
        for n in 0..2 {
            let at_ns = n * MS;
            path.send(at_ns, MS, None, &[node(7, at_ns, 0, room(9)), node(8, at_ns, 0, second)]);
            path.source.headers(&flow(1), WALL_NS, 6, || None);
        }
        let summary = path.end().remove(0);
        (summary.loss_cause, summary.hops[1].queue_free_pkts, summary.hops[1].queue_is_unlimited)
    };
    let cause = |second| cause_by(second, false);
    assert_eq!(cause(room(5)).0, Some(LossCause::Wireless));
    assert_eq!(cause(room(State::UNLIMITED_PKTS)), (Some(LossCause::Wireless), None, true));
    assert_eq!(cause(room(0)).0, Some(LossCause::Overflow));
    // An access point that counts its flows, and says nothing of its queue.
    let silent = State { flow_count: Some(1), ..State::default() };
    assert_eq!(cause(Some(silent)), (None, None, false));
    assert_eq!(cause(None), (None, None, false));
    // Who set it up knows that it is never full; what the node tells goes first.
    assert_eq!(cause_by(Some(silent), true), (Some(LossCause::Wireless), None, true));
    assert_eq!(cause_by(None, true), (Some(LossCause::Wireless), None, true));
    assert_eq!(cause_by(room(0), true).0, Some(LossCause::Overflow));
}

#[test]
fn traces_without_numbers_count_too_and_other_flows_do_not() {
    let mut sink = Sink::new(SinkSpec::default()).unwrap();
    let trace =
        TraceOption { trace_type: TraceType(TraceType::NODE), remaining_words: 1, ..TraceOption::default() };
    let mut headers = build(&[IoamOption::Trace(trace)], 6).unwrap().hop_by_hop;
    fill_headers(&mut headers, 0, 0, &Node { node_id: Some(7), ..Node::default() }).unwrap();
    let alert = [6, 0, 5, 2, 0, 0, 1, 0];
    sink.packet(0, WALL_NS, &flow(1), 1500, Some((&headers, 0)));
    sink.packet(MS, WALL_NS, &flow(1), 1500, None);
    sink.packet(MS, WALL_NS, &flow(2), 1500, None);
    sink.packet(MS, WALL_NS, &flow(3), 1500, Some((&alert, 0)));
    let mut summaries = Vec::new();
    sink.take(u64::MAX, &mut summaries);
    let [summary] = &summaries[..] else { panic!("{summaries:?}") };
    assert_eq!((summary.received_pkts, summary.lost_pkts, summary.latency_us), (2, None, None));
    assert_eq!(summary.hops[0].node_id, Some(7));
}

#[test]
fn malformed_packets_are_received_and_counted() {
    let mut path = Path::new(SourceSpec::default(), SinkSpec::default());
    path.send(0, MS, None, &[]);
    let mut broken = path.source.headers(&flow(1), WALL_NS, 6, || None).unwrap().to_vec();
    broken[1] = 200;
    path.sink.packet(2 * MS, WALL_NS, &flow(1), 1500, Some((&broken, 0)));
    path.send(3 * MS, MS, None, &[]);
    assert_eq!(path.sink.malformed_pkts(), 1);
    let summary = path.end().remove(0);
    assert_eq!((summary.received_pkts, summary.lost_pkts), (3, Some(0)));
}

#[test]
fn flows_are_forgotten_after_a_minute() {
    let mut path = Path::new(SourceSpec { every_pkts: 2, ..SourceSpec::default() }, SinkSpec::default());
    path.send(0, 0, None, &[]);
    path.send(60 * S, 0, None, &[]); // without telemetry, and of nobody
    assert_eq!(path.end().len(), 1);
}

#[test]
fn whoever_makes_flows_up_makes_no_more_than_there_is_room_for() {
    let mut path = Path::new(SourceSpec::default(), SinkSpec::default());
    let headers = path.source.headers(&flow(1), WALL_NS, 6, || None).unwrap().to_vec();
    for number in 0..3 * MAX_FLOWS as u32 {
        let made_up = FlowKey { dst: std::net::Ipv6Addr::from(u128::from(number)), ..flow(1) };
        path.sink.packet(0, WALL_NS, &made_up, 1500, Some((&headers, 0)));
        if number % 1000 == 0 {
            path.sink.packet(0, WALL_NS, &flow(1), 1500, Some((&headers, 0))); // one that is there stays
        }
    }
    let summaries = path.end();
    assert_eq!(summaries.len(), MAX_FLOWS);
    let stayed = summaries.iter().filter(|one| one.received_pkts > 1).count();
    assert_eq!(stayed, 1, "the one that was seen again and again");
}

#[test]
fn records_are_rows_of_a_table() {
    let mut path = Path::new(SourceSpec::default(), SinkSpec { records: true, ..SinkSpec::default() });
    let state = State { queue_free_pkts: Some(97), rssi_dbm: Some(-61.5), ..State::default() };
    path.send(MS, MS, Some(14_480), &[node(7, MS, 3, Some(state)), node(8, MS, 9, None)]);
    path.send(3 * MS, MS, None, &[]);
    let mut csv = RecordRow::HEADER.to_owned();
    path.sink.take_records().iter().for_each(|row| row.write(&mut csv));
    assert_eq!(path.sink.take_records(), []);
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(
        lines[1],
        "2000,fd00::1,fd00::2,1,5201,tcp,0,1500,1000,14480,0,0,1,7,,,,1700000000001000,,3,,97,,,,,,,-61.5,,,"
    );
    assert_eq!(
        lines[2],
        "2000,fd00::1,fd00::2,1,5201,tcp,0,1500,1000,14480,0,0,2,8,,,,1700000000001000,,9,,,,,,,,,,,,"
    );
    assert_eq!(lines[3], "4000,fd00::1,fd00::2,1,5201,tcp,1,1500,1000,,0,0,,,,,,,,,,,,,,,,,,,,");
    assert!(lines.iter().all(|line| line.matches(',').count() == 31), "{csv}");
}

#[test]
fn specs_are_read_and_looked_at() {
    let json = r#"{"interval_us": 5000, "nodes": {"7": {"name": "ap1", "queue_depth_unit": "bytes", "full_pkts": 3}}}"#;
    let spec: SinkSpec = serde_json::from_str(json).unwrap();
    let ap1 = NodeInfo {
        name: "ap1".into(),
        queue_depth_unit: Some(Unit::Bytes),
        full_pkts: Some(3),
        ..NodeInfo::default()
    };
    assert_eq!(
        spec,
        SinkSpec { interval_us: 5000, nodes: NodeTable([(7, ap1)].into()), ..SinkSpec::default() }
    );
    for json in [r#"{"interval": 1}"#, r#"{"nodes": {"x": {}}}"#, r#"{"nodes": {"7": {"unit": "bytes"}}}"#] {
        assert!(serde_json::from_str::<SinkSpec>(json).is_err(), "{json}");
    }
    for interval_us in [0, 3_600_000_001] {
        assert_eq!(
            Sink::new(SinkSpec { interval_us, ..spec.clone() }).unwrap_err().slug,
            "ioam.cannot_write"
        );
    }
}
