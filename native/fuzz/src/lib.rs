//! What several targets need: seeds, packets, and a program's way through the compiler.

use std::path::PathBuf;

use ccp_ioam::{EdgeToEdge, IoamOption, Node, PathEcho, Snapshot, State, TcpState, TraceOption, TraceType};
use ccp_lang::bytecode::{Bytecode, decode, encode};
use ccp_lang::portable::{CCPLANE, LIBCCP, Portable, portable};
use ccp_lang::prims::NOTHING;
use ccp_lang::{Layout, Machine, Program, Source, codegen, compile};

/// Folder for a target's seeds; a target that has it in its environment only writes them.
const SEEDS: &str = "CCPLANE_FUZZ_SEEDS";

/// Writes the seeds and exits, if that is asked for.
pub fn seeds(make: impl FnOnce() -> Vec<Vec<u8>>) {
    let Some(folder) = std::env::var_os(SEEDS).map(PathBuf::from) else { return };
    for (number, seed) in make().iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number}")), seed).expect("the folder can be written");
    }
    std::process::exit(0);
}

/// An IPv6 packet with TCP.
pub fn packet() -> Vec<u8> {
    let tcp = [&[0x0f, 0xa0, 0x14, 0x51, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0][..], b"hello"]
        .concat();
    let mut packet = vec![0x60, 0, 0, 0, 0, tcp.len() as u8, 6, 64];
    for last in [1, 2] {
        packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    packet.extend(tcp);
    packet
}

/// Telemetry of each kind.
pub fn options() -> Vec<IoamOption> {
    let state = State {
        queue_free_pkts: Some(80),
        arrival_pkts_per_s: Some(8333),
        flow_count: Some(3),
        lost_pkts: Some(7),
        link_rate_bytes_per_s: Some(2_500_000),
        flow_missing_pkts: Some(5),
        flow_dropped_pkts: Some(2),
        rssi_dbm: Some(-61.5),
        snr_db: Some(33.25),
        data_rate_bytes_per_s: Some(8_125_000),
        mcs: Some(7),
    };
    let node = Node {
        hop_limit: Some(63),
        node_id: Some(7),
        timestamp_s: Some(1_700_000_000),
        timestamp_fraction: Some(999_999),
        transit_delay_ns: Some(1_500_000),
        queue_depth: Some(30_280),
        snapshot: Some(Snapshot::Ccplane(state)),
        ..Node::default()
    };
    let fields = TraceType::NODE
        | TraceType::TIMESTAMP_S
        | TraceType::TIMESTAMP_FRACTION
        | TraceType::TRANSIT_DELAY
        | TraceType::QUEUE_DEPTH
        | TraceType::SNAPSHOT;
    vec![
        IoamOption::Trace(TraceOption {
            trace_type: TraceType(fields),
            remaining_words: 14,
            nodes: vec![node],
            ..TraceOption::default()
        }),
        IoamOption::EdgeToEdge(EdgeToEdge {
            namespace_id: 0,
            e2e_type: 0xb000,
            sequence: Some(0x0102_0304_0506_0708),
            timestamp_s: Some(1_700_000_000),
            timestamp_fraction: Some(5),
        }),
        IoamOption::TcpState(TcpState {
            cwnd_bytes: Some(14_480),
            mss_bytes: Some(1448),
            wants_echo: true,
            first_sequence: Some(9),
        }),
        IoamOption::PathEcho(echo()),
    ]
}

pub fn echo() -> PathEcho {
    PathEcho {
        hops: 3,
        all_known: true,
        hop: Some(2),
        node_id: Some(7),
        losses_link: 6,
        ..PathEcho::default()
    }
}

/// Programs of the language.
pub const TEXTS: [&str; 3] = [
    "(def (Report (volatile acked 0) (most 7)) (step 3))
     (when (> Micros 10)
         (:= Report.acked (+ Report.acked Ack.bytes_acked))
         (:= Report.most (if (> Cwnd step) Cwnd))
         (:= doubled (* 2 Cwnd))
         (fallthrough))
     (when true (:= Cwnd doubled) (report))",
    "(def (Report (rtt 0) (volatile minrtt +infinity)) (volatile c 1))
     (when (> Flow.rtt_sample_us 0)
         (:= Report.rtt (ewma 2 Flow.rtt_sample_us))
         (:= Report.minrtt (min Report.minrtt Flow.rtt_sample_us))
         (report))
     (when (|| (== c 1) (&& (< Micros 5) (> Ack.lost_pkts_sample 0))) (:= Rate (/ Rate 2)) (:= Micros 0))",
    "(def (Report (q 0))) (when true (:= Report.q (!if (> Int.queue_pkts 3) (wrapped_max 1 2))) (report))",
];

pub fn compiled(text: &str) -> Option<Program> {
    compile(&Source { text, name: "p", origin: "o", first_line: 1 }).ok()
}

const LAYOUT: Layout = Layout {
    control: 0,
    local: 512,
    report: 1024,
    time_zero_us: 1536,
    fold_error: 1544,
    inband: 1552,
    prim: 0,
    imp: 400,
};

/// Runs an accepted program, and compiles it for the kernel.
pub fn exercise(program: &Program) {
    let _ = codegen(program, &LAYOUT);
    for prim in [NOTHING[0], 1, u64::MAX] {
        let mut machine = Machine::new();
        machine.reset(program, 1);
        let mut prims = NOTHING;
        prims.fill(prim);
        for now_us in [1, 2, u64::MAX] {
            if machine.invoke(program, &prims, now_us).is_ok_and(|folded| folded.report) {
                assert_eq!(machine.take_report(program).len(), program.reports.len());
            }
        }
    }
}

/// Adapts a compiled program to third-party datapaths, and decodes what they receive.
pub fn send(program: &Program) {
    for target in [LIBCCP, CCPLANE] {
        if let Ok(made) = portable(program, &target) {
            let Portable { n_events, n_instrs, raw, .. } = &made;
            let code = Bytecode { n_events: *n_events, n_instrs: *n_instrs, raw, name: "p", origin: "o" };
            match decode(&code) {
                Ok(read) => assert_eq!(read.reports.len(), made.n_reports),
                Err(error) => assert_eq!(target, LIBCCP, "{error}"),
            }
        }
    }
    if let Ok((n_events, n_instrs, raw)) = encode(program) {
        // A report without registers says that the flow closed, which no program may.
        let _ = decode(&Bytecode { n_events, n_instrs, raw: &raw, name: "p", origin: "o" });
    }
}
