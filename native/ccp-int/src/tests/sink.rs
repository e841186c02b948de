//! What a sink makes of packets, by hand.

use ccp_ioam::{IoamOption, Node, Snapshot, State, TcpState, TraceOption, TraceType, build, fill_headers};

use super::meter::flow;
use super::{MS, S};
use crate::recent::MAX_FLOWS;
use crate::{
    Came, FlowKey, LossCause, NodeInfo, NodeTable, RecordRow, Sink, SinkSpec, Source, SourceSpec, Summary,
    Unit,
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
        let own = node(7, at_ns, 3000, Some(State::default()));
        path.send(at_ns, MS, None, &[own, node(8, at_ns, 3000, None), node(9, at_ns, 3000, None)]);
    }
    let hops = &path.end()[0].hops;
    assert_eq!(hops.iter().map(|hop| hop.node_id).collect::<Vec<_>>(), [Some(7), Some(8), Some(9)]);
    let depths: Vec<_> = hops.iter().map(|hop| (hop.queue_depth_pkts, hop.queue_depth_bytes)).collect();
    // Each packet leaves one more behind than it found: over 2 of 12 ms, on average half of it.
    assert_eq!(depths, [(Some(3000.083), None), (None, Some(3125)), (None, None)]);
}

#[test]
fn wireless_links_and_losses_of_a_node_are_reported() {
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
fn another_node_in_its_place_starts_again() {
    let mut path = Path::new(SourceSpec::default(), SinkSpec::default());
    let state = |lost| Some(State { lost_pkts: Some(lost), ..State::default() });
    path.send(0, MS, None, &[node(7, 0, 0, state(5))]);
    path.send(MS, MS, None, &[node(8, MS, 0, state(1000))]);
    path.send(2 * MS, MS, None, &[node(8, 2 * MS, 0, state(1001)), node(9, 2 * MS, 0, None)]);
    let hops = &path.end()[0].hops;
    assert_eq!(hops.len(), 2);
    assert_eq!((hops[0].node_id, hops[0].lost_pkts), (Some(8), Some(1)));
}

/// What a node counted when a packet came: numbers missing, and dropped by its queue.
type Counts = (Option<u64>, Option<u64>);

/// A packet: so many before it were lost, and this is what nodes wrote into it.
type Sent<'a> = (u64, &'a [(u32, u8, Counts)]);

/// A path whose packets lack what was lost in front of them, and what nodes counted then, each with a hop limit.
fn located(packets: &[Sent<'_>], sink_hop_limit: Option<u8>, table: NodeTable) -> Summary {
    let mut path = Path::new(SourceSpec::default(), SinkSpec { nodes: table, ..SinkSpec::default() });
    for (n, (lost, nodes)) in packets.iter().enumerate() {
        (0..*lost).for_each(|_| drop(path.source.headers(&flow(1), WALL_NS, 6, || None).map(<[u8]>::to_vec)));
        let mut headers = path.source.headers(&flow(1), WALL_NS, 6, || None).unwrap().to_vec();
        for (node_id, hop_limit, (missing, dropped)) in *nodes {
            let state = State {
                queue_free_pkts: Some(9),
                flow_missing_pkts: *missing,
                flow_dropped_pkts: *dropped,
                ..State::default()
            };
            let node = Node { hop_limit: Some(*hop_limit), ..node(*node_id, 0, 0, Some(state)) };
            fill_headers(&mut headers, 0, 0, &node).unwrap();
        }
        let came = Came {
            flow: &flow(1),
            len_bytes: 1500,
            pkts: 1,
            hop_limit: sink_hop_limit,
            tcp_sequence: None,
            plain_pkts: None,
            extension: Some((&headers, 0)),
        };
        path.sink.came(n as u64, WALL_NS, &came);
    }
    path.end().remove(0)
}

fn causes(summary: &Summary) -> (u64, u64, u64) {
    (
        summary.lost_congestion_pkts.unwrap(),
        summary.lost_link_pkts.unwrap(),
        summary.lost_unknown_pkts.unwrap(),
    )
}

#[test]
fn losses_are_where_counters_say() {
    let known = |missing, dropped| (Some(missing), Some(dropped));
    // Ten are lost: one before the first node, two in its queue, three behind it, none and then four at the second.
    let packets: [(u64, &[_]); 2] = [
        (0, &[(7, 64, known(65_533, 65_534)), (8, 63, known(5, 5))]),
        (10, &[(7, 64, known(65_534, 1)), (8, 63, known(11, 5))]),
    ];
    let reported = located(&packets, Some(63), NodeTable::default());
    assert_eq!(
        (reported.lost_pkts, causes(&reported), reported.loss_cause),
        (Some(10), (2, 7, 1), Some(LossCause::Mixed))
    );
    let of_hops: Vec<_> =
        reported.hops.iter().map(|hop| (hop.lost_congestion_pkts, hop.lost_link_pkts)).collect();
    assert_eq!(of_hops, [(2, 3), (0, 4)]);
    assert!(!reported.has_silent_hop);
}

#[test]
fn between_the_neighbours_of_a_silent_hop_only_what_a_queue_counted_is_known() {
    let known = |missing, dropped| (Some(missing), Some(dropped));
    let table = NodeTable::default;
    let reported = |hop_limits: [u8; 2], sink, counts: [Counts; 2], table| {
        let first = [
            (7, hop_limits[0], known(0, 0)),
            (8, hop_limits[1], (counts[0].0.map(|_| 0), counts[0].1.map(|_| 0))),
        ];
        let then = [(7, hop_limits[0], known(0, 2)), (8, hop_limits[1], counts[1])];
        let reported = located(&[(0, &first), (10, &then)], sink, table);
        (causes(&reported), reported.loss_cause, reported.has_silent_hop)
    };
    let both = [known(0, 0), known(6, 1)];
    // Of ten, the first queue dropped two and the link behind it lost four; then one and three.
    assert_eq!(reported([64, 63], Some(63), both, table()), ((3, 7, 0), Some(LossCause::Mixed), false));
    // A router that writes nothing, in the middle or at the end; a sink that does not know the hop limit.
    assert_eq!(reported([64, 62], Some(62), both, table()), ((3, 3, 4), Some(LossCause::Mixed), true));
    assert_eq!(reported([64, 63], Some(62), both, table()), ((3, 4, 3), Some(LossCause::Mixed), true));
    assert_eq!(reported([64, 63], None, both, table()).0, (3, 4, 3));
    // A node that counts gaps and not its drops, one that counts neither, and one whose queue never fills.
    let gaps = [(Some(0), None), (Some(6), None)];
    assert_eq!(reported([64, 63], Some(63), gaps, table()), ((2, 4, 4), Some(LossCause::Mixed), false));
    let nothing = [(None, None); 2];
    assert_eq!(reported([64, 63], Some(63), nothing, table()), ((2, 0, 8), Some(LossCause::Overflow), false));
    let never = || NodeTable([(8, NodeInfo { queue_is_unlimited: true, ..NodeInfo::default() })].into());
    assert_eq!(reported([64, 63], Some(63), gaps, never()), ((2, 8, 0), Some(LossCause::Mixed), false));
}

#[test]
fn what_a_queue_may_still_drop_is_unknown_until_the_node_says_so() {
    let path = |reported: [Option<u64>; 3]| {
        let nodes = [0, 1, 2].map(|n: usize| [(7, 64, (Some(0), reported[n]))]);
        located(&[(0, &nodes[0]), (3, &nodes[1]), (0, &nodes[2])], Some(64), NodeTable::default())
    };
    assert_eq!(causes(&path([Some(0), None, None])), (0, 0, 3));
    assert_eq!(causes(&path([Some(0), None, Some(2)])), (2, 1, 0));
    // What was not told at first says nothing of what was lost before.
    assert_eq!(causes(&path([None, Some(5), Some(5)])), (0, 0, 3));
}

#[test]
fn another_path_and_counters_that_start_again_explain_nothing() {
    let known = |missing, dropped| (Some(missing), Some(dropped));
    let then = |node: u32, counts| {
        let reported = located(
            &[(0, &[(7, 64, known(0, 0))]), (3, &[(node, 64, counts)])],
            Some(64),
            NodeTable::default(),
        );
        causes(&reported)
    };
    assert_eq!(then(7, known(0, 3)), (3, 0, 0));
    assert_eq!(then(8, known(0, 3)), (0, 0, 3));
    assert_eq!(then(7, known(0, 20_000)), (0, 0, 3));
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
    path.send(60 * S, 0, None, &[]); // without telemetry, of an unknown flow
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
            path.sink.packet(0, WALL_NS, &flow(1), 1500, Some((&headers, 0))); // existing flows stay
        }
    }
    let summaries = path.end();
    assert_eq!(summaries.len(), MAX_FLOWS);
    let stayed = summaries.iter().filter(|one| one.received_pkts > 1).count();
    assert_eq!(stayed, 1, "the flow that was seen repeatedly");
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
        "2000,fd00::1,fd00::2,1,5201,tcp,0,1500,1000,14480,0,0,0,1,7,,,,1700000000001000,,3,,97,,,,,,,-61.5,,,"
    );
    assert_eq!(
        lines[2],
        "2000,fd00::1,fd00::2,1,5201,tcp,0,1500,1000,14480,0,0,0,2,8,,,,1700000000001000,,9,,,,,,,,,,,,"
    );
    assert_eq!(lines[3], "4000,fd00::1,fd00::2,1,5201,tcp,1,1500,1000,,0,0,0,,,,,,,,,,,,,,,,,,,,");
    assert!(lines.iter().all(|line| line.matches(',').count() == 32), "{csv}");
}

#[test]
fn specs_are_read_and_looked_at() {
    let json = r#"{"interval_us": 5000, "nodes": {"7": {"name": "ap1", "queue_depth_unit": "bytes"}}}"#;
    let spec: SinkSpec = serde_json::from_str(json).unwrap();
    let ap1 = NodeInfo { name: "ap1".into(), queue_depth_unit: Some(Unit::Bytes), ..NodeInfo::default() };
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
