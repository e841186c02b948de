//! Each operator's results, computed manually; "machine.c" and "ccp.c" are libccp 1.2.0's.

use ccp_lang::prims::{MAX_PRIMITIVES, find};
use ccp_lang::{FoldError, Folded, Implicit, Machine, Program, Source, compile};

const INF: u64 = u64::MAX;

fn program(text: &str) -> Program {
    let source = Source { text, name: "default", origin: "test", first_line: 1 };
    compile(&source).unwrap_or_else(|e| panic!("{e}"))
}

/// Returns Report.x, initially 7, after a bind of `expr` with Ack.bytes_acked = `a` and Ack.ecn_bytes = `b`.
fn bound(expr: &str, a: u64, b: u64) -> Result<u64, FoldError> {
    let text = format!("(def (Report (x 7))) (when true (:= Report.x {expr}))")
        .replace(" A", " Ack.bytes_acked")
        .replace(" B", " Ack.ecn_bytes");
    let program = program(&text);
    let mut machine = Machine::new();
    machine.reset(&program, 0);
    let mut prims = [0; MAX_PRIMITIVES];
    prims[find("Ack.bytes_acked").unwrap() as usize] = a;
    prims[find("Ack.ecn_bytes").unwrap() as usize] = b;
    let outcome = machine.invoke(&program, &prims, 0);
    if outcome.is_err() {
        assert_eq!(machine.report[0], 7, "an error writes nothing");
    }
    outcome.map(|_| machine.report[0])
}

#[test]
fn add_stops_on_overflow() {
    assert_eq!(bound("(+ A B)", 2, 3), Ok(5));
    assert_eq!(bound("(add A B)", INF, 0), Ok(INF));
    assert_eq!(bound("(+ A B)", INF, 1), Err(FoldError::AddOverflow));
}

#[test]
fn sub_stops_below_zero() {
    assert_eq!(bound("(- A B)", 3, 3), Ok(0));
    assert_eq!(bound("(sub A B)", 3, 4), Err(FoldError::SubUnderflow));
}

#[test]
fn mul_stops_where_libccp_notices() {
    assert_eq!(bound("(* A B)", 6, 7), Ok(42));
    // machine.c compares the product with its left factor only: 3 * 2^63 mod 2^64 = 2^63 is not below 3.
    assert_eq!(bound("(mul A B)", 3, 1 << 63), Ok(1 << 63));
    // Swapped, it is not below 2^63 either.
    assert_eq!(bound("(mul A B)", 1 << 63, 3), Ok(1 << 63));
    // 2^63 * 2 mod 2^64 = 0, which is.
    assert_eq!(bound("(mul A B)", 1 << 63, 2), Err(FoldError::MulOverflow));
    assert_eq!(bound("(mul A B)", 5, 0), Ok(0));
}

#[test]
fn div_rounds_down_and_stops_on_zero() {
    assert_eq!(bound("(/ A B)", 7, 2), Ok(3));
    assert_eq!(bound("(div A B)", 7, 0), Err(FoldError::DivByZero));
}

#[test]
fn comparisons_are_unsigned() {
    for (op, less, same, more) in
        [("<", 1, 0, 0), ("lt", 1, 0, 0), (">", 0, 0, 1), ("gt", 0, 0, 1), ("==", 0, 1, 0)]
    {
        let expr = format!("({op} A B)");
        assert_eq!(
            [bound(&expr, 1, INF), bound(&expr, 5, 5), bound(&expr, INF, 1)],
            [Ok(less), Ok(same), Ok(more)]
        );
    }
    assert_eq!(bound("(eq A B)", 5, 5), Ok(1));
}

#[test]
fn max_and_min_are_unsigned() {
    assert_eq!(bound("(max A B)", 1, INF), Ok(INF));
    assert_eq!(bound("(min A B)", 1, INF), Ok(1));
}

#[test]
fn wrapped_max_compares_32_bit_sequence_numbers() {
    assert_eq!(bound("(wrapped_max A B)", 10, 20), Ok(20));
    // 5 comes 11 after 2^32 - 6.
    assert_eq!(bound("(wrapped_max A B)", 5, 0xffff_fffa), Ok(5));
    // machine.c: 0 means "none yet", and the other one is returned in full.
    assert_eq!(bound("(wrapped_max A B)", 0, 1 << 40), Ok(1 << 40));
    assert_eq!(bound("(wrapped_max A B)", 1 << 40, 0), Ok(1 << 40));
    // Otherwise the upper halves are lost.
    assert_eq!(bound("(wrapped_max A B)", (1 << 40) + 20, 10), Ok(20));
    // Exactly half way round, dif32 counts one step less through the wrap: the smaller number wins.
    assert_eq!(bound("(wrapped_max A B)", 1, 0x8000_0001), Ok(1));
    assert_eq!(bound("(wrapped_max A B)", 0x8000_0001, 1), Ok(1));
}

#[test]
fn ewma_keeps_tenths_of_the_old_value() {
    // (7 * 7 + 3 * 100) / 10
    assert_eq!(bound("(ewma 7 A)", 100, 0), Ok(34));
    // machine.c: 10 - 12 wraps, and so does the product: 12 * 7 - 2 * 20 = 44.
    assert_eq!(bound("(ewma 12 A)", 20, 0), Ok(4));
    // 12 * 7 - 2 * 100 = -116, a huge number.
    assert_eq!(bound("(ewma 12 A)", 100, 0), Ok((0u64.wrapping_sub(116)) / 10));
}

#[test]
fn ewma_takes_the_first_value_as_it_is() {
    let program = program("(def (Report (x 0))) (when true (:= Report.x (ewma 9 Ack.bytes_acked)))");
    let mut machine = Machine::new();
    machine.reset(&program, 0);
    let mut prims = [0; MAX_PRIMITIVES];
    prims[0] = 55;
    machine.invoke(&program, &prims, 0).unwrap();
    assert_eq!(machine.report[0], 55);
}

#[test]
fn if_and_not_if_write_or_leave() {
    assert_eq!(bound("(if (> A 3) 9)", 4, 0), Ok(9));
    assert_eq!(bound("(if (> A 3) 9)", 3, 0), Ok(7));
    assert_eq!(bound("(!if (> A 3) 9)", 4, 0), Ok(7));
    assert_eq!(bound("(!if (> A 3) 9)", 3, 0), Ok(9));
    // Any nonzero number is true.
    assert_eq!(bound("(if A 9)", 2, 0), Ok(9));
}

#[test]
fn and_is_a_product_and_or_a_sum() {
    // As compiled by portus: two true flags make 2.
    assert_eq!(bound("(|| (> A 0) (> B 0))", 1, 1), Ok(2));
    assert_eq!(bound("(or (> A 0) (> B 0))", 0, 0), Ok(0));
    assert_eq!(bound("(&& (> A 0) (> B 0))", 1, 1), Ok(1));
    assert_eq!(bound("(and (> A 0) (> B 0))", 1, 0), Ok(0));
}

#[test]
fn constants_have_64_bits() {
    assert_eq!(bound("18446744073709551615", 0, 0), Ok(INF));
    assert_eq!(bound("+infinity", 0, 0), Ok(INF));
    assert_eq!(bound("(max 4294967296 B)", 0, 0), Ok(1 << 32));
}

#[test]
fn a_register_is_read_when_the_operator_is_reached() {
    // portus evaluates left first, but a register has no code: the bind on the right precedes the sum.
    assert_eq!(bound("(+ Report.x (:= Report.x 5))", 0, 0), Ok(10));
}

/// Returns the reports of `runs` runs at 10, 20, ... us.
fn reports(program: &Program, machine: &mut Machine, runs: u64) -> Vec<Option<Vec<u64>>> {
    machine.reset(program, 0);
    (1..=runs)
        .map(|i| {
            let Folded { report } = machine.invoke(program, &[1; MAX_PRIMITIVES], 10 * i).unwrap();
            report.then(|| machine.take_report(program))
        })
        .collect()
}

#[test]
fn volatile_registers_go_back_after_a_report_and_no_others() {
    let program = program(
        "(def (Report (volatile a 5) (b 5)) (volatile c 5) (d 5))
         (when true
             (:= Report.a (+ Report.a 1)) (:= Report.b (+ Report.b 1)) (:= c (+ c 1)) (:= d (+ d 1))
             (report))",
    );
    let mut machine = Machine::new();
    assert_eq!(reports(&program, &mut machine, 2), [Some(vec![6, 6]), Some(vec![6, 7])]);
    assert_eq!(machine.control[..2], [5, 7]);
}

#[test]
fn a_report_that_is_not_taken_goes_into_the_next() {
    let program = program("(def (Report (volatile n 0))) (when true (:= Report.n (+ Report.n 1)) (report))");
    let mut machine = Machine::new();
    machine.reset(&program, 0);
    for _ in 0..2 {
        assert!(machine.invoke(&program, &[0; MAX_PRIMITIVES], 0).unwrap().report);
    }
    assert_eq!(machine.take_report(&program), [2]);
}

#[test]
fn the_first_true_clause_is_the_last_unless_it_falls_through() {
    let program = program(
        "(def (Report (a 0) (b 0) (c 0)))
         (when false (:= Report.a 1))
         (when true (:= Report.b 1))
         (when true (:= Report.c 1))",
    );
    let mut machine = Machine::new();
    reports(&program, &mut machine, 1);
    assert_eq!(machine.report[..3], [0, 1, 0]);
}

#[test]
fn one_fallthrough_holds_for_the_rest_of_the_run() {
    // machine.c resets SHOULD_FALLTHROUGH before the first clause only.
    let program = program(
        "(def (Report (a 0) (b 0) (c 0)))
         (when true (:= Report.a 1) (fallthrough))
         (when true (:= Report.b 1))
         (when true (:= Report.c 1))",
    );
    let mut machine = Machine::new();
    reports(&program, &mut machine, 1);
    assert_eq!(machine.report[..3], [1, 1, 1]);
}

#[test]
fn micros_counts_from_its_last_write() {
    let program = program(
        "(def (Report (seen 0)))
         (when (> Micros 15) (:= Report.seen Micros) (:= Micros 3) (report))",
    );
    let mut machine = Machine::new();
    // 10, 20 (report; 3 at 20), 13, 23 (report; 3 at 40), 13
    let expected = [None, Some(vec![20]), None, Some(vec![23]), None];
    assert_eq!(reports(&program, &mut machine, 5), expected);
    assert_eq!(machine.time_zero_us, 37);
    assert_eq!(machine.imp[Implicit::Micros as usize], 13);
}

#[test]
fn an_error_keeps_what_was_written_and_drops_the_report() {
    let program = program(
        "(def (Report (volatile a 0) (b 0)))
         (when true (report) (:= Report.a 9) (:= Report.b (/ 1 (- Ack.now Ack.now))))",
    );
    let mut machine = Machine::new();
    machine.reset(&program, 0);
    assert_eq!(machine.invoke(&program, &[0; MAX_PRIMITIVES], 1), Err(FoldError::DivByZero));
    assert_eq!(machine.report[..2], [9, 0]);
}

#[test]
fn a_new_program_starts_from_its_own_values() {
    let first = program("(def (Report (a 1)) (c 2)) (when true (:= l 3) (:= Report.a 8) (:= c 9))");
    let second = program("(def (Report (b 4)) (d 5)) (when true (:= l Micros))");
    let mut machine = Machine::new();
    reports(&first, &mut machine, 1);
    machine.reset(&second, 100);
    assert_eq!(
        (machine.report[0], machine.control[0], machine.local[0], machine.time_zero_us),
        (4, 5, 0, 100)
    );
}

#[test]
fn ack_now_is_the_clock() {
    let program = program("(def (Report (t 0))) (when true (:= Report.t Ack.now) (report))");
    assert_eq!(reports(&program, &mut Machine::new(), 1), [Some(vec![10])]);
}

#[test]
fn primitives_of_our_own_are_read_like_ccps() {
    let program = program(
        "(def (own 3) (Report (m 0) (limited 0)))
         (when (|| Flow.app_limited false)
             (:= Report.m (+ own Flow.min_rtt_us))
             (:= Report.limited Flow.app_limited))",
    );
    let (min_rtt, limited) = (find("Flow.min_rtt_us").unwrap(), find("Flow.app_limited").unwrap());
    assert_eq!(program.prims_used, 1 << min_rtt | 1 << limited);
    assert_eq!(program.primitives(), ["Flow.min_rtt_us", "Flow.app_limited"]);
    let mut prims = [0; MAX_PRIMITIVES];
    prims[min_rtt as usize] = 40;
    prims[limited as usize] = 1;
    let mut machine = Machine::new();
    machine.reset(&program, 0);
    machine.invoke(&program, &prims, 0).unwrap();
    assert_eq!(machine.report[..2], [43, 1]);
}

#[test]
fn a_write_to_micros_needs_the_clock() {
    let used = |body: &str| program(&format!("(def (x 0)) (when true {body} (report))")).primitives();
    assert_eq!(used("(:= Micros 0)"), ["Ack.now"]);
    assert!(used("(:= x Micros)").is_empty());
}

#[test]
fn reports_and_controls_keep_the_order_of_their_declaration() {
    let program = program(
        "(def (z 1) (Report (volatile b 2) (a true)) (volatile y 3) (Report.c 4))
         (when true (report))",
    );
    let names =
        |registers: &[ccp_lang::Register]| registers.iter().map(|r| r.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&program.reports), ["b", "a", "c"]);
    assert_eq!(names(&program.controls), ["z", "y"]);
    let a = &program.reports[1];
    assert_eq!((a.is_bool, a.volatile, a.init), (true, false, 1));
    assert!(program.controls[1].volatile);
}

#[test]
fn comments_and_layout_mean_nothing() {
    let plain = program("(def (Report (a 0))) (when true (:= Report.a (+ Report.a 1)) (report))");
    let odd = program(
        "# portus panics on most of these
         ( def # none
           (Report # (b 1)
             ( a 0 ) ) )
         (when # always
            true (:=   Report.a (+ # the sum
              Report.a 1))
            # and then
            ( report )) # the end",
    );
    assert_eq!(plain.uid, odd.uid);
    let ops = |p: &Program| p.instrs.iter().map(|i| (i.op, i.res, i.left, i.right)).collect::<Vec<_>>();
    assert_eq!(ops(&plain), ops(&odd));
}

#[test]
fn other_programs_have_other_uids() {
    let one = program("(def (Report (a 0))) (when true (report))");
    let other = program("(def (Report (b 0))) (when true (report))");
    assert_ne!(one.uid, other.uid);
    assert_ne!(one.uid, 0);
}

#[test]
fn instructions_know_their_line() {
    let text = "(def (Report (a 0)))\n(when\n  (> Micros 3)\n  (:= Report.a\n    (+ 1 2))\n  (report))";
    let source = Source { text, name: "default", origin: "a.py", first_line: 41 };
    let program = compile(&source).unwrap();
    assert_eq!(program.instrs.iter().map(|i| i.line).collect::<Vec<_>>(), [43, 44, 44, 46]);
    assert_eq!(program.events[0].line, 42);
}
