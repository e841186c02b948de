//! A source's headers, read by the codec.

use ccp_ioam::{EdgeToEdge, Node, Parsed, Snapshot, State, TcpState, fill_headers, read_headers};
use proptest::prelude::*;

use super::meter::flow;
use crate::{Source, SourceSpec};

const WALL_NS: u64 = 1_700_000_000_123_456_789;
const TCP: u8 = 6;

fn spec() -> SourceSpec {
    SourceSpec::default()
}

fn edge(headers: &[u8]) -> Option<EdgeToEdge> {
    read_headers(headers, 0).find_map(|found| match found.unwrap().option {
        Parsed::EdgeToEdge(edge) => Some(edge),
        _ => None,
    })
}

#[test]
fn headers_carry_room_number_time_and_window() {
    let mut source = Source::new(spec()).unwrap();
    let tcp = TcpState { cwnd_bytes: Some(14_480), mss_bytes: Some(1448), ..TcpState::default() };
    let headers = source.headers(&flow(1), WALL_NS, TCP, || Some(tcp)).unwrap();
    assert_eq!(headers.len(), spec().overhead_bytes().unwrap());
    let found: Vec<_> = read_headers(headers, 0).map(Result::unwrap).collect();
    let [trace, state, edge] = &found[..] else { panic!("{found:?}") };
    let Parsed::Trace(trace) = trace.option else { panic!("{trace:?}") };
    assert_eq!((trace.trace_type.0, trace.remaining_words), (0xfa_0002, 39));
    let Parsed::EdgeToEdge(edge) = edge.option else { panic!("{edge:?}") };
    assert_eq!(edge.sequence, Some(0));
    assert_eq!((edge.timestamp_s, edge.timestamp_fraction), (Some(1_700_000_000), Some(123_456)));
    assert!(matches!(state.option, Parsed::TcpState(state) if state == tcp));
    let destination_at = headers[1] as usize * 8 + 8;
    assert_eq!((headers[0], headers[destination_at]), (60, TCP));
}

#[test]
fn each_nth_packet_of_each_flow_carries_them_and_all_count() {
    let mut source = Source::new(SourceSpec { every_pkts: 3, ..spec() }).unwrap();
    let mut sequences = |port| {
        let mut carried = |_| {
            let headers = source.headers(&flow(port), WALL_NS, TCP, || None)?;
            edge(headers)?.sequence
        };
        (0..7).map(&mut carried).collect::<Vec<_>>()
    };
    let expected = [Some(0), None, None, Some(3), None, None, Some(6)];
    assert_eq!(sequences(1), expected);
    assert_eq!(sequences(2), expected);
}

#[test]
fn numbers_go_on_after_a_pause_and_start_again_after_two_minutes() {
    let mut source = Source::new(spec()).unwrap();
    let mut sequence_at = |s: u64| {
        edge(source.headers(&flow(1), WALL_NS + s * 1_000_000_000, TCP, || None).unwrap()).unwrap().sequence
    };
    assert_eq!([0, 119, 239].map(&mut sequence_at), [Some(0), Some(1), Some(0)]);
}

#[test]
fn what_is_not_known_is_missing() {
    let mut source = Source::new(spec()).unwrap();
    let known = TcpState { cwnd_bytes: Some(1), mss_bytes: Some(1), ..TcpState::default() };
    source.headers(&flow(1), WALL_NS, TCP, || Some(known)).unwrap();
    let headers = source.headers(&flow(1), WALL_NS, TCP, || None).unwrap();
    let state = read_headers(headers, 0).nth(1).unwrap().unwrap().option;
    assert!(matches!(state, Parsed::TcpState(state) if state == TcpState::default()));
}

#[test]
fn specs_that_cannot_be_are_refused() {
    for wrong in [
        SourceSpec { every_pkts: 0, ..spec() },
        SourceSpec { max_nodes: 0, ..spec() },
        SourceSpec { echo: true, tcp_state: false, per_packet: true, ..spec() },
        SourceSpec { max_nodes: 6, ..spec() },
        SourceSpec { max_nodes: 255, ..spec() },
        SourceSpec { max_nodes: 5, wireless_nodes: true, ..spec() },
        SourceSpec { trace_type: ccp_ioam::TraceType(0), ..spec() },
    ] {
        assert_eq!(wrong.check().unwrap_err().slug, "ioam.cannot_write", "{wrong:?}");
    }
    assert!(serde_json::from_str::<SourceSpec>(r#"{"every": 3}"#).is_err());
    let read: SourceSpec = serde_json::from_str(r#"{"every_pkts": 3}"#).unwrap();
    assert_eq!(read, SourceSpec { every_pkts: 3, ..spec() });
}

proptest! {
    #[test]
    fn there_is_room_for_all_nodes_and_no_more(nodes in 1u8..4, wireless_nodes: bool, tcp_state: bool, per_packet: bool) {
        let spec = SourceSpec { max_nodes: nodes, wireless_nodes, tcp_state, per_packet, ..spec() };
        let overhead_bytes = spec.overhead_bytes().unwrap();
        prop_assert_eq!(overhead_bytes % 8, 0);
        let mut source = Source::new(spec).unwrap();
        let mut headers = source.headers(&flow(1), WALL_NS, TCP, || None).unwrap().to_vec();
        prop_assert_eq!(headers.len(), overhead_bytes);
        let state = State { rssi_dbm: wireless_nodes.then_some(-60.0), ..State::default() };
        let node = Node { snapshot: Some(Snapshot::Ccplane(state)), ..Node::default() };
        for _ in 0..nodes {
            prop_assert_eq!(fill_headers(&mut headers, 0, 0, &node).unwrap().filled, 1);
        }
        prop_assert_eq!(fill_headers(&mut headers, 0, 0, &node).unwrap().overflowed, 1);
    }
}
