//! Portable programs have the same effect in other datapaths as here.

use ccp_difftest::generate::{self, Size, Temper};
use ccp_difftest::reference::Reference;
use ccp_difftest::rng::Rng;
use ccp_lang::bytecode::{Bytecode, decode};
use ccp_lang::portable::{CCPLANE, LIBCCP, Portable, portable};
use ccp_lang::prims::{MAX_PRIMITIVES, N_PORTUS_PRIMS, PRIMITIVES, Prims};
use ccp_lang::{Implicit, Machine, Program, Source, compile};

const PROGRAMS: usize = 2000;

/// Exceeds libccp's temporaries, local registers and constants, but rarely its instructions.
const LARGE: Size = Size {
    max_registers: 24,
    max_locals: 24,
    max_operators: 40,
    max_statements: 24,
    n_prims: N_PORTUS_PRIMS,
    constant_bits: 64,
    comments: false,
};

/// The same with primitives that other datapaths lack.
const DERIVING: Size = Size { n_prims: 29, ..LARGE };

fn inputs(rng: &mut Rng, temper: Temper) -> Prims {
    let mut prims = [0; MAX_PRIMITIVES];
    for (value, prim) in prims.iter_mut().zip(&PRIMITIVES[..N_PORTUS_PRIMS]) {
        *value = rng.number(if prim.is_bool { 1 } else { temper.bits(32) });
        if prim.name == "Flow.rtt_sample_us" && (*value == 0 || rng.chance(20)) {
            *value = u64::from(u32::MAX);
        }
    }
    prims
}

fn programs(size: Size) -> impl Iterator<Item = (Rng, Temper, String, Program, Portable)> {
    (0..).filter_map(move |seed| {
        let mut rng = Rng::new(seed);
        let temper = Temper::random(&mut rng);
        let text = generate::program(&mut rng, &size, temper);
        let program = compile(&Source { text: &text, name: "p", origin: "o", first_line: 1 }).ok()?;
        // Registers that messages do not set start with 32 bits there, also for infinity.
        let volatile = program.controls.iter().filter(|register| register.volatile);
        let infinite = program.reports.iter().chain(volatile).any(|register| register.init == u64::MAX);
        let sent = portable(&program, &LIBCCP).ok().filter(|_| !infinite)?;
        Some((rng, temper, text, program, sent))
    })
}

#[test]
fn libccp_reports_of_what_it_gets_what_the_interpreter_reports_of_the_program() {
    let (mut reports, mut runs, mut maximum) = (0, 0, 0);
    for (mut rng, temper, text, program, sent) in programs(LARGE).take(PROGRAMS) {
        maximum = maximum.max(sent.n_instrs);
        let libccp = Reference::portable(&sent);
        let mut machine = Machine::new();
        let (mut now_us, mut acked) = (1 + rng.number(30), 0);
        for run in 0..8 {
            now_us += rng.number(20);
            if run == 0 {
                machine.reset(&program, now_us);
            }
            let prims = inputs(&mut rng, temper);
            let (cwnd, rate) = (rng.number(temper.bits(32)), rng.number(temper.bits(32)));
            machine.imp[Implicit::Cwnd as usize] = cwnd;
            machine.imp[Implicit::Rate as usize] = rate;
            let outcome = machine.invoke(&program, &prims, now_us);
            let reference = libccp.invoke(&prims, now_us, cwnd, rate);
            assert_eq!(outcome, reference.outcome, "run {run} of\n{text}");
            acked += prims[0];
            if let Ok(folded) = outcome {
                let own = folded.report.then(|| machine.take_report(&program));
                let n = program.reports.len();
                assert_eq!(
                    own.as_deref(),
                    reference.report.as_ref().map(|sent| &sent[..n]),
                    "run {run} of\n{text}"
                );
                if let Some(report) = &reference.report {
                    let place = |name: &str| sent.head.iter().find(|(known, _)| *known == name).unwrap().1;
                    let head = |name: &str| report[usize::from(place(name))];
                    assert_eq!(
                        head("cwnd_bytes"),
                        machine.imp[Implicit::Cwnd as usize],
                        "run {run} of\n{text}"
                    );
                    assert_eq!(head("acked_bytes"), std::mem::take(&mut acked), "run {run} of\n{text}");
                    reports += 1;
                }
            }
            let n = program.controls.len();
            assert_eq!(machine.control[..n], reference.registers.control[..n], "run {run} of\n{text}");
            assert_eq!(machine.time_zero_us, reference.registers.time_zero_us, "run {run} of\n{text}");
            runs += 1;
        }
    }
    println!("{PROGRAMS} programs, {runs} runs, {reports} reports, the largest of {maximum} instructions");
    assert!(reports * 10 > runs, "hardly any program reports");
}

#[test]
fn libccp_derives_what_datapaths_that_take_our_programs_derive() {
    let (mut reports, mut runs) = (0, 0);
    for (mut rng, temper, text, program, sent) in programs(DERIVING).take(PROGRAMS / 4) {
        let Ok(other) = portable(&program, &CCPLANE) else { continue };
        let Portable { n_events, n_instrs, raw, .. } = &other;
        let (n_events, n_instrs) = (*n_events, *n_instrs);
        let code = Bytecode { n_events, n_instrs, raw, name: "sent", origin: "<generated>" };
        let read = decode(&code).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let libccp = Reference::portable(&sent);
        let mut machine = Machine::new();
        let mut now_us = 1 + rng.number(30);
        for run in 0..8 {
            now_us += rng.number(20);
            if run == 0 {
                machine.reset(&read, now_us);
                for (index, value) in &other.begin {
                    machine.control[usize::from(*index)] = *value;
                }
            }
            let prims = inputs(&mut rng, temper);
            let (cwnd, rate) = (rng.number(temper.bits(32)), rng.number(temper.bits(32)));
            machine.imp[Implicit::Cwnd as usize] = cwnd;
            machine.imp[Implicit::Rate as usize] = rate;
            let outcome = machine.invoke(&read, &prims, now_us);
            let reference = libccp.invoke(&prims, now_us, cwnd, rate);
            assert_eq!(outcome, reference.outcome, "run {run} of\n{text}");
            let own = outcome.is_ok_and(|folded| folded.report).then(|| machine.take_report(&read));
            assert_eq!(own, reference.report, "run {run} of\n{text}");
            reports += usize::from(own.is_some());
            runs += 1;
        }
    }
    assert!(runs > PROGRAMS && reports * 10 > runs, "{reports} reports in {runs} runs");
}

/// The window of a datapath with whole segments after `n_acks` ACKs, each of which adds `grows_bytes`.
fn window_of_whole_segments(grows_bytes: u64, n_acks: u64) -> u64 {
    const MSS_BYTES: u64 = 1448;
    let text = format!("(def (Report (n 0)))\n(when true (:= Cwnd (+ Cwnd {grows_bytes})))");
    let program = compile(&Source { text: &text, name: "p", origin: "o", first_line: 1 }).unwrap();
    let Portable { n_events, n_instrs, raw, carried, .. } = &portable(&program, &CCPLANE).unwrap();
    let (n_events, n_instrs) = (*n_events, *n_instrs);
    let read = decode(&Bytecode { n_events, n_instrs, raw, name: "sent", origin: "<generated>" }).unwrap();
    let mut machine = Machine::new();
    machine.reset(&read, 1);
    for (_, index, _) in carried.iter().filter(|(name, ..)| *name == "mss_bytes") {
        machine.control[usize::from(*index)] = MSS_BYTES;
    }
    let mut cwnd_pkts = 10;
    for ack in 0..n_acks {
        machine.imp[Implicit::Cwnd as usize] = cwnd_pkts * MSS_BYTES;
        machine.invoke(&read, &[0; MAX_PRIMITIVES], 2 + ack).unwrap();
        cwnd_pkts = machine.imp[Implicit::Cwnd as usize] / MSS_BYTES;
    }
    cwnd_pkts
}

#[test]
fn a_window_grows_by_parts_of_a_segment_where_a_datapath_takes_whole_ones() {
    assert_eq!(window_of_whole_segments(100, 29), 12);
    assert_eq!(window_of_whole_segments(1447, 1000), 1009);
    assert_eq!(window_of_whole_segments(0, 1000), 10);
}

#[test]
fn a_second_loss_of_one_flight_does_not_begin_another_recovery() {
    const MSS_BYTES: u64 = 1448;
    let text = "(def (Report (state 0)))\n(when true (:= Report.state Flow.ca_state) (report))";
    let program = compile(&Source { text, name: "p", origin: "o", first_line: 1 }).unwrap();
    let libccp = Reference::portable(&portable(&program, &LIBCCP).unwrap());
    let mut now_us = 1;
    let mut state = |acked_pkts: u64, lost_pkts: u64, cwnd_pkts: u64| {
        let mut prims = [0; MAX_PRIMITIVES];
        for (name, value) in
            [("Ack.bytes_acked", acked_pkts * MSS_BYTES), ("Ack.lost_pkts_sample", lost_pkts)]
        {
            prims[PRIMITIVES.iter().position(|prim| prim.name == name).unwrap()] = value;
        }
        now_us += 1000;
        libccp.invoke(&prims, now_us, cwnd_pkts * MSS_BYTES, 0).report.unwrap()[0]
    };
    assert_eq!(state(1, 0, 55), 0);
    assert_eq!(state(1, 1, 55), 3);
    // Sent after the window was full and before the first loss was detected; the window has been halved since.
    assert_eq!(state(56, 1, 26), 3);
    assert_eq!(state(12, 0, 26), 0);
}
