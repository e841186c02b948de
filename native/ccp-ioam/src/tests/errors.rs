//! Errors name the field and its offset.

use std::path::Path;

use crate::option::IoamOption;
use crate::samples::{ALL_FIELDS, bytes, echo, node, options, packet, state, tcp, trace};
use crate::{
    Capture, EdgeToEdge, Error, Node, PathEcho, Result, Snapshot, State, TcpState, TraceOption, TraceType,
    fill, insert, remove,
};

/// The first error in a packet with these bytes in an options header.
fn error_in(protocol: u8, header: &str) -> Error {
    let packet = packet(protocol, &bytes(header));
    crate::options(&packet)
        .unwrap()
        .find_map(|found| found.and_then(|found| found.option.to_option()).err())
        .unwrap()
}

#[test]
fn malformed_options_are_named() {
    for (header, slug, place) in [
        // Lengths beyond the end.
        ("3b 01 0100 31 06 00 00 0000 0800", "ioam.truncated", "extension header, byte 40"),
        ("3b 00 0100 31 20 00 00", "ioam.truncated", "option 0x31, byte 44"),
        ("3b 00 01 03 00000031", "ioam.truncated", "option 0x31, byte 47"),
        ("3b 00 0100 31 01 00 00", "ioam.truncated", "IOAM-Opt-Type, byte 47"),
        ("3b 01 0100 31 06 00 00 0000 0800 0102 0000", "ioam.truncated", "IOAM trace header, byte 48"),
        ("3b 01 0100 11 04 00 03 0000 0104 00000000", "ioam.truncated", "IOAM edge-to-edge option, byte 48"),
        ("3b 01 0100 11 06 00 03 0000 8000 0102 0000", "ioam.truncated", "IOAM edge-to-edge option, byte 48"),
        ("3b 01 0100 1e 0a 6363 02 00 0000 00000000", "ioam.bad_length", "path echo, byte 46"),
        (
            "3b 06 0100 1e 32 6363 02 01 0304 \
             ffffffffffffffffffffffffffffffffffffffffffffffff 0000000000000000000000000000000000000000",
            "ioam.bad_value",
            "path echo's hop, byte 51",
        ),
        // Places.
        (
            "3b 02 31 0a 00 00 0000 0000 000002 00 0108 0000000000000000",
            "ioam.bad_value",
            "Option Type, byte 42",
        ),
        // Traces: type, NodeLen, RemainingLen, data, snapshot.
        ("3b 01 0100 31 0a 00 00 0000 0000 000000 00", "ioam.bad_value", "IOAM-Trace-Type, byte 52"),
        ("3b 01 0100 31 0a 00 00 0000 1000 800000 00", "ioam.bad_value", "NodeLen, byte 50"),
        ("3b 01 0100 31 0a 00 00 0000 0801 800000 00", "ioam.bad_value", "RemainingLen, byte 51"),
        (
            "3b 02 0100 31 0c 00 00 0000 0800 800000 00 0000 01020000 0000",
            "ioam.bad_length",
            "Opt Data Len, byte 45",
        ),
        (
            "3b 02 0100 31 0e 00 00 0000 1000 c00000 00 00000000 01020000",
            "ioam.truncated",
            "node data, byte 56",
        ),
        (
            "3b 02 0100 31 0e 00 00 0000 0000 000002 00 01000000 01020000",
            "ioam.truncated",
            "Opaque State Snapshot, byte 56",
        ),
        (
            "3b 02 0100 31 0e 00 00 0000 0800 800002 00 00000000 01020000",
            "ioam.truncated",
            "Opaque State Snapshot Length, byte 60",
        ),
        (
            "3b 02 0100 31 0e 00 00 0000 0000 000002 00 00636301 01020000",
            "ioam.bad_length",
            "Opaque State Snapshot Length, byte 56",
        ),
        (
            "3b 02 0100 31 0e 00 00 0000 0000 000002 00 00636302 01020000",
            "ioam.bad_length",
            "Opaque State Snapshot Length, byte 56",
        ),
        // Edge to edge.
        ("3b 01 0100 11 06 00 03 0000 c000 0102 0000", "ioam.bad_value", "IOAM-E2E-Type, byte 50"),
        (
            "3b 02 0100 11 0a 00 03 0000 0000 00000000 0106 000000000000",
            "ioam.bad_length",
            "Opt Data Len, byte 45",
        ),
        // The state of TCP.
        ("3b 01 0100 1e 06 6363 0100 ffff 0102 0000", "ioam.bad_length", "TCP state, byte 46"),
        ("3b 01 0100 1e 07 6363 0100 ffffff 01 01 00", "ioam.bad_length", "TCP state, byte 46"),
        ("3b 01 0100 1e 0a 6363 0301 ffff 00000001", "ioam.bad_value", "TCP state version, byte 48"),
        ("3b 01 0100 1e 0a 6363 0100 ffff 00000001", "ioam.bad_value", "TCP state flags, byte 49"),
        ("3b 01 0100 1e 0a 6363 0101 ffff ffffffff", "ioam.bad_value", "TCP state flags, byte 49"),
    ] {
        let error = error_in(60, header);
        assert_eq!((error.slug, error.place), (slug, format!("{place} of the packet")), "{header}");
        assert!(!error.why.is_empty());
    }
}

#[test]
fn a_broken_option_hides_no_other() {
    let trace = "31 0a 00 00 0000 1000 800000 00";
    let header =
        bytes(&format!("3b 05 0100 {trace} 11 0a 00 03 0000 2000 00000005 {trace} 0106 000000000000"));
    let decoded = crate::decode(&packet(0, &header)).unwrap();
    assert_eq!((decoded.options.len(), decoded.errors.len()), (1, 2));
}

#[test]
fn hop_by_hop_headers_come_first_or_not_at_all() {
    let error = error_in(60, "00 00 0104 00000000 3b 00 0104 00000000");
    assert_eq!((error.slug, &error.place[..]), ("ioam.bad_value", "Next Header, byte 40 of the packet"));
    let decoded = crate::decode(&packet(60, &bytes("00 00 0104 00000000 3b 00 0104 00000000"))).unwrap();
    assert_eq!(decoded.flow.protocol, None);
}

#[test]
fn headers_alone_must_be_whole() {
    let refused = |header: &str| crate::header_options(crate::Kind::HopByHop, &bytes(header)).unwrap_err();
    assert_eq!(refused("3b").slug, "ioam.truncated");
    assert_eq!(refused("3b 01 0104 00000000").why, "its length is 16 bytes, but there are 8");
    assert_eq!(refused("3b 00 0104 00000000 00").slug, "ioam.bad_length");
}

#[test]
fn other_packets_are_none() {
    for other in [&[][..], &[0x60; 39], &[0x45; 60]] {
        assert_eq!(crate::options(other).unwrap_err().slug, "ioam.not_ipv6");
        assert_eq!(insert(other, &options()).unwrap_err().slug, "ioam.not_ipv6");
        assert_eq!(remove(other).unwrap_err().slug, "ioam.not_ipv6");
    }
}

#[test]
fn some_packets_take_no_options() {
    let fragment = packet(44, &bytes("3b000000 00000001"));
    let authenticated = packet(51, &bytes("3b010000 00000001 00000001"));
    let mut jumbo = tcp();
    jumbo[4..6].fill(0);
    for refused in [fragment, authenticated, jumbo] {
        assert_eq!(insert(&refused, &options()).unwrap_err().slug, "ioam.cannot_insert");
    }
    assert_eq!(insert(&tcp()[..50], &options()).unwrap_err().slug, "ioam.truncated");
    let full = packet(59, &[0; 65_500]);
    assert_eq!(insert(&full, &options()).unwrap_err().slug, "ioam.cannot_write");
    let many = vec![options()[1].clone(); 100];
    assert_eq!(insert(&tcp(), &many).unwrap_err().place, "Hdr Ext Len");
}

#[test]
fn what_was_cut_off_by_the_capture_may_lose_its_options() {
    let with = insert(&tcp(), &options()).unwrap();
    let cut = remove(&with[..with.len() - 10]).unwrap();
    assert_eq!(cut, tcp()[..tcp().len() - 10]);
}

#[test]
fn numbers_that_mean_missing_cannot_be_written() {
    let write = |node: Node| -> Result<()> {
        let trace_type = TraceType(ALL_FIELDS | TraceType::SNAPSHOT);
        node.write(trace_type, &mut vec![0; node.size(trace_type)])
    };
    macro_rules! refused {
        ($($field:ident: $($value:expr),+;)*) => {
            $($(
                let error = write(Node { $field: Some($value), ..Node::default() }).unwrap_err();
                assert_eq!((error.slug, &error.place[..]), ("ioam.cannot_write", stringify!($field)));
            )+)*
        };
    }
    refused! {
        hop_limit: 255;
        node_id: 0xff_ffff, 0x100_0000;
        ingress_if: 0xffff;
        egress_if: 0xffff;
        timestamp_s: u32::MAX;
        timestamp_fraction: u32::MAX;
        namespace_data: u32::MAX;
        queue_depth: u32::MAX;
        checksum_complement: u32::MAX;
        hop_limit_wide: 255;
        node_id_wide: 0xff_ffff_ffff_ffff, 1 << 56;
        ingress_if_wide: u32::MAX;
        egress_if_wide: u32::MAX;
        namespace_data_wide: u64::MAX;
        buffer_occupancy: u32::MAX;
    }
    let state = |state: State| write(Node { snapshot: Some(Snapshot::Ccplane(state)), ..Node::default() });
    for (wrong, place) in [
        (State { queue_free_pkts: Some(u32::MAX), ..State::default() }, "queue_free_pkts"),
        (State { arrival_pkts_per_s: Some(u32::MAX), ..State::default() }, "arrival_pkts_per_s"),
        (State { flow_count: Some(u32::MAX), ..State::default() }, "flow_count"),
        (State { link_rate_bytes_per_s: Some(u32::MAX), ..State::default() }, "link_rate_bytes_per_s"),
        (State { rssi_dbm: Some(-300.01), ..State::default() }, "rssi_dbm"),
        (State { rssi_dbm: Some(f64::NAN), ..State::default() }, "rssi_dbm"),
        (State { snr_db: Some(355.35), ..State::default() }, "snr_db"),
        (State { data_rate_bytes_per_s: Some(u32::MAX), ..State::default() }, "data_rate_bytes_per_s"),
        (State { mcs: Some(255), ..State::default() }, "mcs"),
    ] {
        assert_eq!(state(wrong).unwrap_err().place, place);
    }
    for (schema_id, bytes, place) in [
        (0xff_ffff, 4, "schema_id"),
        (State::SCHEMA_ID, 4, "schema_id"),
        (State::FIRST_SCHEMA_ID, 4, "schema_id"),
        (1, 3, "data"),
        (1, 1024, "data"),
    ] {
        let snapshot = Snapshot::Other { schema_id, data: vec![0; bytes] };
        let error = write(Node { snapshot: Some(snapshot), ..Node::default() }).unwrap_err();
        assert_eq!(error.place, place);
    }
}

#[test]
fn options_that_no_document_allows_are_not_written() {
    let edge = |edge| IoamOption::EdgeToEdge(edge);
    let known = EdgeToEdge { timestamp_s: Some(u32::MAX), e2e_type: 0x2000, ..EdgeToEdge::default() };
    for (option, place) in [
        (IoamOption::Trace(trace(0, 4, vec![])), "trace_type"),
        (IoamOption::Trace(trace(0x80_0800, 4, vec![])), "trace_type"),
        (IoamOption::Trace(trace(0x80_0001, 4, vec![])), "trace_type"),
        (IoamOption::Trace(trace(0x180_0000, 4, vec![])), "trace_type"),
        (IoamOption::Trace(trace(0x80_0000, 62, vec![])), "remaining_words"),
        (IoamOption::Trace(TraceOption { incremental: true, ..trace(0x80_0000, 4, vec![]) }), "incremental"),
        (edge(EdgeToEdge { e2e_type: 0xc000, sequence: Some(1), ..EdgeToEdge::default() }), "e2e_type"),
        (edge(EdgeToEdge { e2e_type: 0x0800, ..EdgeToEdge::default() }), "e2e_type"),
        (edge(EdgeToEdge { e2e_type: 0x8000, ..EdgeToEdge::default() }), "sequence"),
        (edge(EdgeToEdge { e2e_type: 0x4000, sequence: Some(1 << 32), ..EdgeToEdge::default() }), "sequence"),
        (edge(known), "timestamp_s"),
        (
            IoamOption::TcpState(TcpState {
                cwnd_bytes: Some(u32::MAX),
                mss_bytes: None,
                ..TcpState::default()
            }),
            "cwnd_bytes or mss_bytes",
        ),
        (
            IoamOption::TcpState(TcpState {
                cwnd_bytes: None,
                mss_bytes: Some(65535),
                ..TcpState::default()
            }),
            "cwnd_bytes or mss_bytes",
        ),
        (IoamOption::PathEcho(PathEcho { hop: Some(4), ..echo() }), "hop"),
        (IoamOption::PathEcho(PathEcho { hop: Some(0), ..echo() }), "hop"),
        (
            IoamOption::PathEcho(PathEcho { queue_pkts: Some(u32::MAX), ..echo() }),
            "a number of the bottleneck",
        ),
        (IoamOption::Other { ioam_type: 2, data: vec![] }, "kind"),
    ] {
        let error = insert(&tcp(), std::slice::from_ref(&option)).unwrap_err();
        assert_eq!((error.slug, &error.place[..]), ("ioam.cannot_write", place), "{option:?}");
    }
}

#[test]
fn a_node_that_cannot_be_written_changes_nothing() {
    let wrong = Node { queue_depth: Some(u32::MAX), ..node() };
    // The second trace would accept the node: it does not request the queue depth.
    for traces in
        [&[TraceType::QUEUE_DEPTH][..], &[TraceType::NODE, TraceType::NODE | TraceType::QUEUE_DEPTH]]
    {
        let traces: Vec<_> =
            traces.iter().map(|fields| IoamOption::Trace(trace(*fields, 10, vec![node()]))).collect();
        let before = insert(&tcp(), &traces).unwrap();
        let mut packet = before.clone();
        assert_eq!(fill(&mut packet, 0, &wrong).unwrap_err().place, "queue_depth");
        assert_eq!(packet, before);
    }
    let mut broken = packet(0, &bytes("3b 01 0100 31 0a 00 00 0000 1000 800000 00"));
    assert_eq!(fill(&mut broken, 0, &node()).unwrap_err().slug, "ioam.bad_value");
}

#[test]
fn json_must_be_what_is_meant() {
    for wrong in [
        r#"{"kind": "trace", "trace_type": 1, "colour": 2}"#,
        r#"{"kind": "no such"}"#,
        r#"{"kind": "trace", "nodes": [{"node_id": -1}]}"#,
        r#"{"kind": "other", "ioam_type": 2, "data": "0g"}"#,
        r#"{"kind": "other", "ioam_type": 2, "data": "000"}"#,
    ] {
        assert!(serde_json::from_str::<IoamOption>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn files_that_are_no_captures_are_refused() {
    let refused = |path: &Path| Capture::open(path).err().unwrap().slug;
    assert_eq!(refused(Path::new("/nowhere/at.pcap")), "ioam.cannot_read");
    assert_eq!(refused(Path::new("/dev/null")), "ioam.no_capture");
    assert_eq!(refused(Path::new(env!("CARGO_MANIFEST_PATH"))), "ioam.no_capture");
    assert_eq!(state().size(), 36);
}
