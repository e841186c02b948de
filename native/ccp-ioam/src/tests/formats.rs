//! Bytes as documented, written manually.

use crate::ipv6::Kind;
use crate::option::IoamOption;
use crate::samples::{ALL_FIELDS, bytes, echo, node, options, packet, state, tcp, trace};
use crate::{
    EdgeToEdge, Filled, Node, PathEcho, Snapshot, State, TcpState, TraceType, build, decode, fill, insert,
    remove,
};

/// A node with every field, by the figures of RFC 9197, section 4.4.2.
const NODE: &str = "3f 010203  000b 000c  6553f100  000f423f  0016e360  deadbeef  00007648  01020304
    3f 01020304050607  00010002 00030004  cafef00d cafef00d  00010000";
/// The state of the samples.
const STATE: &str =
    "09 636302  00000050 0000208d 00000003 00000007  002625a0 0005 0002  5d2a 822d  007bfa48  07ffffff";

fn written(option: &IoamOption) -> Vec<u8> {
    let mut out = Vec::new();
    option.write(&mut out).unwrap();
    out
}

#[test]
fn every_field_of_a_trace_has_its_place() {
    let option = IoamOption::Trace(trace(ALL_FIELDS, 0, vec![node()]));
    // 15 words of data; NodeLen 15, no flags, no room left.
    let mut expected = bytes("31 46 00 00  0000 7800 fff000 00");
    expected.extend(bytes(NODE));
    assert_eq!(written(&option), expected);
}

#[test]
fn the_last_node_comes_first_and_room_before_it() {
    let first = Node { node_id: Some(1), hop_limit: Some(64), ..Node::default() };
    let second = Node { node_id: Some(2), hop_limit: Some(63), ..Node::default() };
    let mut option = trace(TraceType::NODE, 3, vec![first, second]);
    option.namespace_id = 0x1234;
    (option.loopback, option.active) = (true, true);
    let expected = bytes("31 1e 00 00  1234 0b03 800000 00  00000000 00000000 00000000  3f000002 40000001");
    assert_eq!(written(&IoamOption::Trace(option)), expected);
}

#[test]
fn a_snapshot_follows_the_fields_and_counts_itself() {
    let option = IoamOption::Trace(trace(TraceType::SNAPSHOT | TraceType::QUEUE_DEPTH, 0, vec![node()]));
    let mut expected = bytes("31 36 00 00  0000 0800 020002 00  00007648");
    expected.extend(bytes(STATE));
    assert_eq!(written(&option), expected);
}

#[test]
fn a_wired_state_is_shorter() {
    let wired = State { rssi_dbm: None, snr_db: None, data_rate_bytes_per_s: None, mcs: None, ..state() };
    let node = Node { snapshot: Some(Snapshot::Ccplane(wired)), ..Node::default() };
    let option = IoamOption::Trace(trace(TraceType::SNAPSHOT, 0, vec![node]));
    let expected = bytes(
        "31 26 00 00  0000 0000 000002 00  06636302 00000050 0000208d 00000003 00000007 002625a0 00050002",
    );
    assert_eq!(written(&option), expected);
}

#[test]
fn the_first_version_is_read_and_has_neither_rate_nor_counters() {
    let first = |raw: &str| Snapshot::read(&bytes(raw), 0).unwrap();
    let known =
        State { link_rate_bytes_per_s: None, flow_missing_pkts: None, flow_dropped_pkts: None, ..state() };
    let wireless = "07 636301  00000050 0000208d 00000003 00000007  5d2a 822d  007bfa48  07ffffff";
    assert_eq!(first(wireless), (Some(Snapshot::Ccplane(known)), 32));
    let wired = State { rssi_dbm: None, snr_db: None, data_rate_bytes_per_s: None, mcs: None, ..known };
    let read = first("04 636301  00000050 0000208d 00000003 00000007");
    assert_eq!(read, (Some(Snapshot::Ccplane(wired)), 20));
}

#[test]
fn what_is_missing_has_all_bits_set() {
    let option = IoamOption::Trace(trace(ALL_FIELDS | TraceType::SNAPSHOT, 0, vec![Node::default()]));
    let raw = written(&option);
    assert_eq!(raw[12..72], [0xff; 60]);
    assert_eq!(raw[72..], [0, 0xff, 0xff, 0xff]); // no schema
    let decoded = decode(&insert(&tcp(), std::slice::from_ref(&option)).unwrap()).unwrap();
    assert_eq!(decoded.options[0].option, option);
}

#[test]
fn edge_to_edge_has_its_fields_in_order() {
    let edge = |e2e_type, sequence| {
        let both = (Some(1_700_000_000), Some(5));
        let asked = |bit| if e2e_type & bit != 0 { both } else { (None, None) };
        written(&IoamOption::EdgeToEdge(EdgeToEdge {
            namespace_id: 7,
            e2e_type,
            sequence,
            timestamp_s: asked(EdgeToEdge::TIMESTAMP_S).0,
            timestamp_fraction: asked(EdgeToEdge::TIMESTAMP_FRACTION).1,
        }))
    };
    assert_eq!(edge(0x8000, Some(1)), bytes("11 0e 00 03  0007 8000  00000000 00000001"));
    assert_eq!(edge(0x7000, Some(9)), bytes("11 12 00 03  0007 7000  00000009 6553f100 00000005"));
    assert_eq!(edge(0x1000, None), bytes("11 0a 00 03  0007 1000  00000005"));
}

#[test]
fn the_state_of_tcp_is_an_experiment() {
    let state = TcpState { cwnd_bytes: Some(14_480), mss_bytes: Some(1448), ..TcpState::default() };
    assert_eq!(written(&IoamOption::TcpState(state)), bytes("1e 0a 6363 01 01 05a8 00003890"));
    assert_eq!(written(&IoamOption::TcpState(TcpState::default())), bytes("1e 0a 6363 01 00 ffff ffffffff"));
    let of_super_packet = TcpState { first_sequence: Some(0xabcd), ..state };
    assert_eq!(written(&IoamOption::TcpState(of_super_packet)), bytes("1e 0c 6363 01 05 05a8 00003890 abcd"));
}

#[test]
fn what_is_not_of_a_super_packet_may_have_room_for_it() {
    let read = |raw: &str| {
        let header = bytes(&format!("06 01 {raw}"));
        let decoded = decode(&packet(60, &[&header[..], &tcp()[40..]].concat())).unwrap();
        assert_eq!(decoded.errors, []);
        decoded.options[0].option.clone()
    };
    let state = |first_sequence| {
        IoamOption::TcpState(TcpState { mss_bytes: Some(1448), first_sequence, ..TcpState::default() })
    };
    assert_eq!(read("1e 0c 6363 01 00 05a8 ffffffff abcd"), state(None));
    assert_eq!(read("1e 0c 6363 01 04 05a8 ffffffff abcd"), state(Some(0xabcd)));
    assert_eq!(read("1e 0a 6363 01 00 05a8 ffffffff 0100"), state(None));
}

#[test]
fn a_super_packets_state_lies_where_else_padding_would() {
    let [_, edge, _] = &options()[..] else { unreachable!() };
    let state = TcpState { first_sequence: Some(1), ..TcpState::default() };
    let made = build(&[IoamOption::TcpState(state), edge.clone()], 6).unwrap();
    assert_eq!(made.destination[..4], bytes("06 04 1e 0c")[..]);
    assert_eq!(made.destination[16..18], bytes("11 16")[..]);
    assert_eq!(made.destination.len(), build(&options()[1..], 6).unwrap().destination.len());
}

#[test]
fn a_source_that_wants_echoes_says_so_alongside_its_tcp() {
    let asks = TcpState { wants_echo: true, ..TcpState::default() };
    assert_eq!(written(&IoamOption::TcpState(asks)), bytes("1e 0a 6363 01 02 ffff ffffffff"));
}

#[test]
fn an_echo_is_an_experiment_of_another_kind() {
    let full = "1e 32 6363 02 01 03 02  00000007 0000000c 00000058 0000208d 00bebc20 00000004 \
                00000005 00000006 00000001 6553f100 000f423f";
    assert_eq!(written(&IoamOption::PathEcho(echo())), bytes(full));
    let nothing = format!("1e 32 6363 02 00 00 00 {} {}", "ffffffff".repeat(6), "00000000".repeat(5));
    assert_eq!(written(&IoamOption::PathEcho(PathEcho::default())), bytes(&nothing));
    let made = build(&[IoamOption::PathEcho(echo())], 6).unwrap();
    assert_eq!((made.destination.len(), &made.destination[..4]), (56, &bytes("06 06 0100")[..]));
}

#[test]
fn headers_begin_and_end_with_padding() {
    let made = build(&options(), 6).unwrap();
    assert_eq!(made.hop_by_hop[..6], bytes("3c 0f 0100 31 76")[..]);
    assert_eq!(made.destination[..6], bytes("06 04 0100 11 16")[..]);
    assert_eq!(made.destination[28..], bytes("1e 0a 6363 01 01 05a8 00003890")[..]);
    assert_eq!(made.hop_by_hop.len() % 8 + made.destination.len() % 8, 0);
    assert_eq!(build(&[], 6).unwrap(), crate::NewHeaders::default());
    let destination_only = build(&options()[1..], 17).unwrap();
    assert!(destination_only.hop_by_hop.is_empty());
    assert_eq!(destination_only.destination[0], 17);
}

#[test]
fn a_packet_with_options_is_longer_and_goes_to_the_same_ports() {
    let longer = insert(&tcp(), &options()).unwrap();
    assert_eq!(usize::from(u16::from_be_bytes([longer[4], longer[5]])), longer.len() - 40);
    assert_eq!(longer[6], 0);
    assert_eq!(longer[longer.len() - 25..], tcp()[40..]);
    let decoded = decode(&longer).unwrap();
    assert_eq!(decoded.flow.protocol, Some(6));
    assert_eq!((decoded.flow.src_port, decoded.flow.dst_port), (Some(4000), Some(5201)));
    let places: Vec<_> = decoded.options.iter().map(|found| (found.header, found.offset)).collect();
    assert_eq!(places, [(Kind::HopByHop, 44), (Kind::Destination, 172), (Kind::Destination, 196)]);
}

#[test]
fn headers_that_are_there_take_options_in_and_keep_other() {
    // Router alert in the first header, followed by a home address (201), which is aligned to 8n + 6.
    let alert = bytes("3c 00 05 02 0000 01 00");
    let home = bytes("06 02 01 02 0000 c9 10 fd000000000000000000000000000003");
    let segment = tcp()[40..].to_vec();
    let before = packet(0, &[&alert[..], &home, &segment].concat());
    let with = insert(&before, &options()).unwrap();
    assert_eq!(with[42..46], alert[2..6]);
    let decoded = decode(&with).unwrap();
    assert_eq!(decoded.errors, []);
    assert_eq!(decoded.options.iter().map(|found| &found.option).cloned().collect::<Vec<_>>(), options());
    assert_eq!(remove(&with).unwrap(), before);
}

#[test]
fn links_may_pad_packets() {
    let mut padded = tcp();
    padded.extend([0; 6]);
    let with = insert(&padded, &options()).unwrap();
    assert_eq!(with, insert(&tcp(), &options()).unwrap());
    assert_eq!(remove(&[&with[..], &[0; 6]].concat()).unwrap(), tcp());
}

#[test]
fn a_transit_node_fills_its_slot_and_nothing_else() {
    let types = TraceType::NODE | TraceType::SNAPSHOT;
    let room = trace(types, 14, vec![]);
    let source = insert(&tcp(), &[IoamOption::Trace(room.clone())]).unwrap();
    let mut on_the_way = source.clone();
    assert_eq!(fill(&mut on_the_way, 1, &node()).unwrap(), Filled::default()); // another namespace
    assert_eq!(on_the_way, source);
    let filled = Filled { filled: 1, flow_dropped_at: Some(98), ..Filled::default() };
    assert_eq!(fill(&mut on_the_way, 0, &node()).unwrap(), filled);
    // 12 words less 1 of the node and 8 of the snapshot.
    let mut expected = source.clone();
    expected[51] = 3;
    expected[56 + 12..56 + 56].copy_from_slice(&bytes(&format!("3f010203 {STATE}")));
    assert_eq!(on_the_way, expected);
    // The next one finds no room.
    assert_eq!(fill(&mut on_the_way, 0, &node()).unwrap(), Filled { overflowed: 1, ..Filled::default() });
    expected[50] |= 0x04;
    assert_eq!(on_the_way, expected);
    // A smaller one that would fit is not written from then on.
    let small = Node { node_id: Some(9), ..Node::default() };
    assert_eq!(fill(&mut on_the_way, 0, &small).unwrap(), Filled { overflowed: 1, ..Filled::default() });
    assert_eq!(on_the_way, expected);
    let decoded = decode(&on_the_way).unwrap();
    let IoamOption::Trace(read) = &decoded.options[0].option else { panic!("{decoded:?}") };
    assert!(read.overflow);
    assert_eq!(read.nodes[0].snapshot, node().snapshot);
}

#[test]
fn fields_of_the_future_are_filled_as_missing_and_passed_over() {
    // Bits 0, 12 and 21; a reserved bit to be ignored.
    let header = bytes("06 03 0100  31 16 00 00  0000 1803 800805 00  000000000000000000000000  01020000");
    let mut from_the_future = packet(0, &[&header[..], &tcp()[40..]].concat());
    assert_eq!(fill(&mut from_the_future, 0, &node()).unwrap().filled, 1);
    assert_eq!(from_the_future[56..68], bytes("3f010203 ffffffff ffffffff"));
    let decoded = decode(&from_the_future).unwrap();
    let IoamOption::Trace(read) = &decoded.options[0].option else { panic!("{decoded:?}") };
    assert_eq!(read.nodes, [Node { hop_limit: Some(63), node_id: Some(0x010203), ..Node::default() }]);
}

#[test]
fn incremental_traces_are_read_and_not_filled() {
    let header = bytes("06 02 0100  31 12 00 01  0000 087f 800000 00  3e000002 3f000001");
    let mut received = packet(0, &[&header[..], &tcp()[40..]].concat());
    let decoded = decode(&received).unwrap();
    let IoamOption::Trace(read) = &decoded.options[0].option else { panic!("{decoded:?}") };
    assert!(read.incremental);
    assert_eq!(read.remaining_words, 127);
    assert_eq!(read.nodes.iter().map(|node| node.node_id).collect::<Vec<_>>(), [Some(1), Some(2)]);
    assert_eq!(fill(&mut received, 0, &node()).unwrap(), Filled::default());
}

#[test]
fn options_that_must_not_change_are_not_filled() {
    let source = insert(&tcp(), &[IoamOption::Trace(trace(TraceType::NODE, 4, vec![]))]).unwrap();
    let mut immutable = source.clone();
    immutable[44] = 0x11;
    let mut elsewhere = source;
    (elsewhere[6], elsewhere[40]) = (60, 6); // the same header, for the destination
    for mut packet in [immutable, elsewhere] {
        assert_eq!(fill(&mut packet, 0, &node()).unwrap(), Filled::default());
    }
}

#[test]
fn other_kinds_are_shown_as_bytes_and_other_experiments_are_not_own() {
    let header =
        bytes("3b 03  0100  11 06 00 04 01020304  1e 04 1234 0000 0000  1e 01 aa 00  0106 000000000000");
    let decoded = decode(&packet(60, &header)).unwrap();
    assert_eq!(decoded.errors, []);
    let [one] = &decoded.options[..] else { panic!("{decoded:?}") };
    assert_eq!(one.option, IoamOption::Other { ioam_type: 4, data: bytes("01020304") });
}

#[test]
fn delays_saturate() {
    for (given, raw) in [(1 << 31, "80000000"), (u64::MAX, "80000000"), ((1 << 31) - 1, "7fffffff")] {
        let node = Node { transit_delay_ns: Some(given), ..Node::default() };
        let mut out = [0; 4];
        node.write(TraceType(TraceType::TRANSIT_DELAY), &mut out).unwrap();
        assert_eq!(out[..], bytes(raw));
        let (read, _) = Node::read(&out, TraceType(TraceType::TRANSIT_DELAY), 0).unwrap();
        assert_eq!(read.transit_delay_ns, Some(given.min(1 << 31)));
    }
}

#[test]
fn losses_are_counted_around() {
    let mut out = [0; 24];
    let state = State {
        lost_pkts: Some(State::LOST_MODULUS + 3),
        flow_missing_pkts: Some(State::FLOW_MODULUS),
        flow_dropped_pkts: Some(3 * State::FLOW_MODULUS + 4),
        ..State::default()
    };
    state.write(&mut out).unwrap();
    let read = State::read(State::SCHEMA_ID, &out, 0).unwrap().unwrap();
    assert_eq!((read.lost_pkts, read.flow_missing_pkts, read.flow_dropped_pkts), (Some(3), Some(0), Some(4)));
}

#[test]
fn later_fragments_have_no_ports() {
    let fragment =
        |offset: &str| packet(44, &[&bytes(&format!("06 00 {offset} 00000001"))[..], &tcp()[40..]].concat());
    assert_eq!(decode(&fragment("0001")).unwrap().flow.src_port, Some(4000));
    let later = decode(&fragment("0008")).unwrap().flow;
    assert_eq!((later.protocol, later.src_port), (None, None));
}
