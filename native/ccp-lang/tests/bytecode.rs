//! Arbitrary bytecode is either rejected with a reason, or a program that runs.

use ccp_lang::bytecode::{Bytecode, decode, decode_with_rtt, encode};
use ccp_lang::prims::{NOTHING, PRIMITIVES};
use ccp_lang::{LangError, Layout, Machine, Program, Source, codegen, compile};
use proptest::prelude::*;

const TEXT: &str = "(def (Report (volatile acked 0) (most 7)) (step 3))
    (when (> Micros 10)
        (:= Report.acked (+ Report.acked Ack.bytes_acked))
        (:= Report.most (if (> Cwnd step) Cwnd))
        (:= doubled (* 2 Cwnd))
        (fallthrough))
    (when true (:= Cwnd doubled) (report))";

/// Offsets in the bytecode of `TEXT`: two events, three declarations, then instructions.
const EVENTS: usize = 0;
const DEFS: usize = 32;
const INSTRS: usize = DEFS + 48;

fn compiled(text: &str) -> Program {
    compile(&Source { text, name: "p", origin: "o", first_line: 1 }).unwrap_or_else(|e| panic!("{e}"))
}

fn to_bytes() -> (u32, u32, Vec<u8>) {
    encode(&compiled(TEXT)).unwrap()
}

fn read((n_events, n_instrs, raw): &(u32, u32, Vec<u8>)) -> Result<Program, LangError> {
    decode(&Bytecode { n_events: *n_events, n_instrs: *n_instrs, raw, name: "3", origin: "the agent" })
}

/// The error for `TEXT` with some bytes replaced.
fn refusal(changes: &[(usize, u8)]) -> LangError {
    let mut sent = to_bytes();
    for (at, byte) in changes {
        sent.2[*at] = *byte;
    }
    read(&sent).expect_err("it is rejected")
}

#[test]
fn what_was_encoded_is_decoded_and_does_the_same() {
    let (before, after) = (compiled(TEXT), read(&to_bytes()).unwrap());
    assert_eq!(after.reports.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(), ["r0", "r1"]);
    let mut machines = [Machine::new(), Machine::new()];
    for now_us in [100, 105, 130] {
        let mut prims = NOTHING;
        prims[0] = 1448;
        let reports = [&before, &after].into_iter().zip(&mut machines).map(|(program, machine)| {
            if now_us == 100 {
                machine.reset(program, 100);
            }
            machine.imp[4] = 14480;
            assert!(machine.invoke(program, &prims, now_us).unwrap().report);
            machine.take_report(program)
        });
        let reports: Vec<_> = reports.collect();
        assert_eq!(reports[0], reports[1]);
    }
    assert_ne!(after.uid, read(&encode(&compiled(&TEXT.replace("10", "11"))).unwrap()).unwrap().uid);
}

#[test]
fn an_ack_without_a_sample_has_the_smoothed_rtt_where_that_is_asked_for() {
    let text = "(def (Report (rtt 0) (volatile minrtt +infinity) (twice 0)))
        (when (> Flow.rtt_sample_us 0)
            (:= Report.rtt Flow.rtt_sample_us)
            (:= Report.minrtt (min Report.minrtt Flow.rtt_sample_us))
            (:= seen Flow.rtt_sample_us)
            (:= Report.twice (* 2 seen))
            (report))";
    let (n_events, n_instrs, raw) = encode(&compiled(text)).unwrap();
    let code = Bytecode { n_events, n_instrs, raw: &raw, name: "3", origin: "the agent" };
    let program = decode_with_rtt(&code).unwrap();
    let mut machine = Machine::new();
    machine.reset(&program, 0);
    let mut prims = NOTHING;
    let index = |name| PRIMITIVES.iter().position(|prim| prim.name == name).unwrap();
    prims[index("Flow.srtt_us")] = 300;
    for (sample, reported) in [(None, [300, 300, 600]), (Some(40), [40, 40, 80]), (None, [300, 300, 600])] {
        prims[index("Flow.rtt_sample_us")] = sample.unwrap_or(NOTHING[index("Flow.rtt_sample_us")]);
        assert!(machine.invoke(&program, &prims, 10).unwrap().report);
        assert_eq!(machine.take_report(&program), reported);
    }
    assert_eq!(program.instrs.len(), decode(&code).unwrap().instrs.len() + 4);
    let (n_events, n_instrs, raw) = crate::to_bytes();
    let code = Bytecode { n_events, n_instrs, raw: &raw, name: "3", origin: "the agent" };
    assert_eq!(decode_with_rtt(&code), decode(&code), "it reads no RTT");
}

#[test]
fn the_rtt_takes_one_local_register() {
    let binds: String = (0..64).map(|i| format!("(:= l{i} Flow.rtt_sample_us)")).collect();
    let text = format!("(def (Report (a 0))) (when true {binds} (:= Report.a l0) (report))");
    let (n_events, n_instrs, raw) = encode(&compiled(&text)).unwrap();
    let code = Bytecode { n_events, n_instrs, raw: &raw, name: "3", origin: "the agent" };
    assert!(decode(&code).is_ok());
    assert!(decode_with_rtt(&code).unwrap_err().to_string().contains("one is for the RTT"));
}

#[test]
fn what_no_compiler_makes_is_refused_with_its_place() {
    type Case = (&'static str, &'static [(usize, u8)], u32);
    let cases: &[Case] = &[
        ("operator 15", &[(INSTRS, 15)], 4),
        ("a declaration among instructions", &[(INSTRS + 16, 2)], 5),
        ("a result of kind 1", &[(INSTRS + 17, 1)], 5),
        ("a result of kind 5, number 9", &[(INSTRS + 33, 5), (INSTRS + 34, 9)], 6),
        ("an operand of kind 4, number 15", &[(INSTRS + 16 + 11, 4), (INSTRS + 16 + 12, 15)], 5),
        ("an operand of kind 2, number 0", &[(INSTRS + 16 + 11, 2), (INSTRS + 16 + 12, 0)], 5),
        ("an intermediate result that was never written", &[(INSTRS + 16 + 11, 7), (INSTRS + 16 + 12, 9)], 5),
        ("a condition without a value", &[(INSTRS + 1, 7), (INSTRS + 2, 0)], 4),
        ("an event of instructions 3 + 255", &[(EVENTS + 4, 255)], 1),
        ("EventFlag is written here", &[(INSTRS + 16 + 1, 2), (INSTRS + 16 + 2, 0)], 5),
        ("`r1` is declared and `r0` is not", &[(DEFS + 2, 5), (DEFS + 7, 5)], 1),
        ("a second declaration of `r0`", &[(DEFS + 18, 0), (DEFS + 23, 0)], 2),
        ("`r0` begins with an operand of kind 4", &[(DEFS + 11, 4)], 1),
        ("a declaration of a register of kind 7", &[(DEFS + 6, 7)], 1),
    ];
    for (message, changes, line) in cases {
        let error = refusal(changes);
        assert_eq!(error.slug, "lang.bytecode", "{error}");
        let all = std::iter::once(&error).chain(&error.context.more);
        let found = all
            .clone()
            .find(|e| e.message.starts_with(message))
            .unwrap_or_else(|| panic!("{message}: {error}"));
        assert_eq!((found.line, found.context.origin.as_str()), (*line, "the agent"), "{found}");
    }
}

#[test]
fn bytes_that_are_too_few_or_too_many_are_refused() {
    let sent = to_bytes();
    for cut in [1, 16] {
        let error = read(&(sent.0, sent.1, sent.2[cut..].to_vec())).unwrap_err();
        assert!(error.message.contains("bytes are not 2 events"), "{error}");
    }
    assert!(read(&(u32::MAX, u32::MAX, sent.2)).is_err());
}

#[test]
fn a_report_without_registers_is_refused_because_it_would_say_that_the_flow_closed() {
    let error = read(&encode(&compiled("(def (x 1)) (when true (report))")).unwrap()).unwrap_err();
    assert_eq!(error.message, "a report without registers");
}

#[test]
fn more_than_a_fold_may_have_is_refused() {
    let body = "(:= Report.y (+ Report.y 1))".repeat(500);
    let mut sent = encode(&compiled(&format!("(def (Report (y 0))) (when true {body})"))).unwrap();
    assert!(read(&sent).is_ok());
    // The same body twice.
    let event = sent.2[..16].to_vec();
    sent.2.splice(..0, event);
    sent.0 += 1;
    let error = read(&sent).unwrap_err();
    assert_eq!((error.slug, error.message.as_str()), ("lang.limit", "2002 instructions"));
}

#[test]
fn events_that_overlap_do_not_multiply_the_work_of_rejecting_them() {
    // As many events as a datagram has room for, each over as many instructions, all of which are wrong.
    let n = 2000u32;
    let mut raw: Vec<u8> = (0..n).flat_map(|_| [0, n, 0, n].map(u32::to_le_bytes)).flatten().collect();
    let unwritten = [[0, 7, 1, 0, 0, 0], [7, 0, 0, 0, 0, 7], [0, 0, 0, 0, 0, 0]].concat();
    (0..n).for_each(|_| raw.extend(&unwritten[..16]));
    let error = read(&(n, n, raw)).unwrap_err();
    assert_eq!(error.slug, "lang.limit");
    assert!(error.context.more.len() <= 1, "{} errors", error.context.more.len());
}

#[test]
fn what_portus_datapaths_do_not_have_is_not_encoded() {
    let text =
        "(def (Report (y 1073741823)))\n(when true\n(:= Report.y Int.age_us)\n(:= Report.y 2147483648))";
    let error = encode(&compiled(text)).unwrap_err();
    let all: Vec<_> =
        std::iter::once(&error).chain(&error.context.more).map(|e| (e.line, e.message.as_str())).collect();
    assert_eq!(error.slug, "lang.limit");
    let expected =
        [(1, "the initial value 1073741823"), (3, "no field `Int.age_us`"), (4, "the number 2147483648")];
    assert_eq!(all, expected);
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn nothing_panics_whatever_comes(
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![0..16u8, any::<u8>()]), 1..4)
    ) {
        let mut sent = to_bytes();
        let n = sent.2.len();
        for (at, byte) in changes {
            sent.2[at.index(n)] = byte;
        }
        if let Ok(program) = read(&sent) {
            codegen(&program, &LAYOUT).unwrap();
            let mut machine = Machine::new();
            machine.reset(&program, 1);
            let _ = machine.invoke(&program, &NOTHING, 20);
        }
    }
}
