//! The messages in `messages.txt`, used in the tests of `ccp_quic::wire`, are portus' own, byte for byte.

use portus::lang::{self, Reg, Type};
use portus::serialize::{Msg, changeprog, create, install, measure, ready, serialize, update_field};

const KEPT: &str = include_str!("messages.txt");

const TEXT: &str = "(def (Report (volatile acked 0)) (step 3))
    (when (> Micros 10) (:= Report.acked (+ Report.acked Ack.bytes_acked)) (fallthrough))
    (when true (:= Cwnd step) (report))";

fn hex(raw: &[u8]) -> String {
    raw.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn to_bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

fn kept(name: &str) -> &'static str {
    KEPT.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        .unwrap_or_else(|| panic!("{name}"))
}

fn made() -> Vec<(&'static str, Vec<u8>)> {
    let (bin, _) = lang::compile(TEXT.as_bytes(), &[]).unwrap();
    let fields = vec![
        (Reg::Control(0, Type::Num(None), false), 7),
        (Reg::Control(1, Type::Num(None), true), 8),
        (Reg::Implicit(4, Type::Num(None)), 14480),
        (Reg::Implicit(5, Type::Num(None)), u64::from(u32::MAX)),
    ];
    let [num_events, num_instrs] = [bin.events.len(), bin.instrs.len()].map(|n| n as u32);
    let created = create::Msg {
        sid: 9,
        init_cwnd: 14480,
        mss: 1448,
        src_ip: 0x0100_000a,
        src_port: 35091,
        dst_ip: 0x0200_000a,
        dst_port: 5001,
        cong_alg: None,
    };
    let measured = measure::Msg { sid: 9, program_uid: 2, num_fields: 2, fields: vec![5, u64::MAX] };
    let closed = measure::Msg { sid: 9, program_uid: 0, num_fields: 0, fields: vec![] };
    let installed = install::Msg { sid: 0, program_uid: 2, num_events, num_instrs, instrs: bin };
    let updated = update_field::Msg { sid: 9, num_fields: 4, fields: fields.clone() };
    let changed = changeprog::Msg { sid: 9, program_uid: 2, num_fields: 4, fields };
    vec![
        ("create", serialize(&created).unwrap()),
        ("measure", serialize(&measured).unwrap()),
        ("close", serialize(&closed).unwrap()),
        ("install", serialize(&installed).unwrap()),
        ("update", serialize(&updated).unwrap()),
        ("change", serialize(&changed).unwrap()),
        ("ready", serialize(&ready::Msg { id: 3 }).unwrap()),
    ]
}

#[test]
fn what_is_kept_is_what_portus_sends() {
    for (name, raw) in made() {
        assert_eq!(kept(name), hex(&raw), "{name}");
    }
}

/// portus itself cannot send one.
#[test]
fn portus_reads_the_name_of_the_algorithm_that_a_flow_asks_for() {
    let raw = to_bytes(kept("create-bbr"));
    match Msg::from_buf(&raw).unwrap() {
        (Msg::Cr(created), n) => {
            assert_eq!((created.cong_alg.as_deref(), created.sid, n), (Some("bbr"), 9, raw.len()));
        }
        other => panic!("{other:?}"),
    }
}
