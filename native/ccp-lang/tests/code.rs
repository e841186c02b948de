//! The kernel code keeps its guarantees and its length.

use ccp_lang::{Layout, Program, Source, codegen, codegen_with_lines, compile};

const LAYOUT: Layout = Layout {
    control: 0,
    local: 512,
    report: 1024,
    time_zero_us: 1536,
    fold_error: 1544,
    inband: 1552,
    prim: 48,
    imp: 0,
};

fn program(text: &str) -> Program {
    let source = Source { text, name: "default", origin: "test", first_line: 1 };
    compile(&source).unwrap_or_else(|e| panic!("{e}"))
}

fn length(text: &str) -> usize {
    codegen(&program(text), &LAYOUT).unwrap().len()
}

/// Number of instructions of a statement, without those of every program.
fn cost(statement: &str) -> usize {
    let decls = "(def (Report (n 7) (seen false)) (done false) (m 3))";
    let with = |body: &str| length(&format!("{decls} (when true {body} (report))"));
    with(statement) - with("")
}

#[test]
fn common_statements_are_short() {
    // After the program, once: a jump over the error exit, R0, and the store to fold_error.
    let first_check = 3;
    for (statement, maximum) in [
        ("(:= Report.n Ack.bytes_acked)", 2),
        ("(:= Report.n 5)", 1),
        ("(:= Report.n (+ Report.n Ack.bytes_acked))", 5 + first_check),
        ("(:= Report.n (+ Report.n 1))", 4 + first_check),
        ("(:= Report.n (- m Report.n))", 5 + first_check),
        ("(:= Report.n (min Report.n Flow.rtt_sample_us))", 5),
        ("(:= Report.n (max m 1))", 4),
        ("(:= Report.n (* m 2))", 6 + first_check),
        ("(:= Report.n (/ m 8))", 3),
        ("(:= Report.n (ewma 9 Flow.rtt_sample_us))", 7),
        ("(:= Report.n (if Flow.was_timeout 1))", 3),
        ("(:= Report.n (if (> Ack.lost_pkts_sample 0) m))", 4),
        ("(:= Report.n (!if (|| done (> Ack.lost_pkts_sample 0)) 1))", 5),
        ("(:= Report.seen (> m 3))", 5),
        ("(:= Micros 0)", 3),
        ("(:= Report.n (+ 2 3))", 1),
        ("(:= Report.n (* m 1))", 2),
        ("(:= m m)", 0),
        ("(+ 2 3)", 0),
        ("(max m 3)", 0),
    ] {
        assert!(
            cost(statement) <= maximum,
            "{statement} takes {} instructions, not {maximum}",
            cost(statement)
        );
    }
}

#[test]
fn a_whole_fold_is_short() {
    assert!(length(include_str!("programs/typical.ccp")) <= 49);
}

#[test]
fn code_that_cannot_be_reached_is_not_written() {
    let report = length("(def) (when true (report))");
    assert_eq!(length("(def) (when true (report)) (when (> Micros 5) (report))"), report);
    assert_eq!(length("(def) (when false (:= x 1)) (when true (report))"), report);
}

#[test]
fn every_instruction_has_a_line_of_the_program() {
    let text = include_str!("programs/typical.ccp");
    let (insns, lines) = codegen_with_lines(&program(text), &LAYOUT).unwrap();
    assert_eq!(insns.len(), lines.len());
    let of_the_average = lines.iter().filter(|line| **line == 12).count();
    assert_eq!(of_the_average, 7, "line 12 is the moving average");
    assert!(lines.iter().all(|line| (8..=text.lines().count() as u32).contains(line)));
}
