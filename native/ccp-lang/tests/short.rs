//! What shortens a program for libccp.

use ccp_lang::portable::{CCPLANE, LIBCCP, portable};
use ccp_lang::{Source, compile};

/// Length of a program with these lines in an unconditional clause.
fn length(lines: &str) -> u32 {
    let text = format!("(def (Report (r 0)) (a 0) (b 0) (c 0))\n(when true {lines})");
    let program = compile(&Source { text: &text, name: "p", origin: "o", first_line: 1 }).unwrap();
    portable(&program, &LIBCCP).unwrap().n_instrs
}

#[test]
fn a_condition_takes_the_form_that_costs_min() {
    let given = length("(:= Report.r (if a 1))");
    for (more, condition) in [
        (0, "(> a 0)"),
        (0, "(== a 0)"),
        (1, "(== a b)"),
        (1, "(== (max a b) a)"),
        (1, "(== (min a b) a)"),
        (1, "(|| (> a 0) (> b 0))"),
        (1, "(|| (== a 0) (== b 0))"),
        (1, "(&& (> a 0) (> b 0))"),
        (2, "(&& (> a 0) (== b 0))"),
        (3, "(&& (== (max a b) a) (< b c))"),
        (2, "(|| (== a 0) (== (max b c) c))"),
    ] {
        let length = length(&format!("(:= Report.r (if {condition} 1))"));
        assert_eq!(length - given, more, "{condition}");
    }
}

#[test]
fn a_number_that_something_reads_stays_what_it_is() {
    // The flags add up to 2.
    let sum = length("(:= Report.r (|| (> a 0) (> b 0)))");
    let decides = length("(:= Report.r (if (|| (> a 0) (> b 0)) 1))");
    assert_eq!(sum, decides + 1);
}

#[test]
fn clauses_that_always_hold_cost_nothing() {
    let one = length("(:= Report.r a) (:= b (+ b 1)) (:= c (+ c 1)) (fallthrough)) (when (> b c) (report)");
    let three = length(
        "(:= Report.r a) (fallthrough)) (when true (:= b (+ b 1)) (fallthrough)) (when true (:= c (+ c 1)) \
         (fallthrough)) (when (> b c) (report) (fallthrough)",
    );
    assert_eq!(one, three);
}

#[test]
fn what_an_agent_can_send_is_not_computed() {
    let floor = length("(:= Report.r (max a (* 2 Flow.mss)))");
    assert_eq!(floor, length("(:= Report.r (max a b))"));
    let text = "(def (Report (r 0)))\n(when true (:= Report.r (* 2 Flow.mss)) (report))";
    let program = compile(&Source { text, name: "p", origin: "o", first_line: 1 }).unwrap();
    let factors = |target| {
        let carried = portable(&program, target).unwrap().carried;
        carried
            .iter()
            .filter(|(name, ..)| *name == "mss_bytes")
            .map(|(.., factor)| *factor)
            .collect::<Vec<_>>()
    };
    assert_eq!(factors(&LIBCCP), [1, 2]);
    assert_eq!(factors(&CCPLANE), [1]);
}

#[test]
fn a_total_that_a_program_reports_is_the_agents_too() {
    let text = "(def (Report (volatile acked 0) (volatile n 0)))
        (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (:= Report.n (+ Report.n 1)) (report))";
    let program = compile(&Source { text, name: "p", origin: "o", first_line: 1 }).unwrap();
    let sent = portable(&program, &LIBCCP).unwrap();
    assert!(sent.head.contains(&("acked_bytes", 0)));
    assert!(sent.head.iter().all(|(name, place)| (*place == 0) == (*name == "acked_bytes")));
    assert_eq!(sent.n_reports, program.reports.len() + sent.head.len() - 1);
}
