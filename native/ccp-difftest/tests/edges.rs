//! Tests every operator, with its operands in all places, on all pairs of numbers near arithmetic limits.

use ccp_difftest::is_root;
use ccp_difftest::kernel::Kernel;
use ccp_difftest::machines::{Inputs, Machines};
use ccp_lang::prims::MAX_PRIMITIVES;
use ccp_lang::{Reg, Source, compile};

const EDGES: [u64; 20] = [
    0,
    1,
    2,
    9,
    10,
    11,
    0x7fff_fffe,
    0x7fff_ffff,
    0x8000_0000,
    0x8000_0001,
    0xffff_fffe,
    0xffff_ffff,
    0x1_0000_0000,
    0x1_0000_0001,
    0x1_8000_0001,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0x8000_0000_0000_0001,
    u64::MAX - 1,
    u64::MAX,
];

const NUMBERS: [&str; 10] = ["+", "-", "*", "/", "max", "min", "wrapped_max", "==", ">", "<"];

/// Operands as seen by the code generator; (+ x 0) would be folded away, (- x z) with z = 0 is a result.
const PLACES: [(&str, &str); 4] = [("a", "b"), ("(- a z)", "b"), ("a", "(- b z)"), ("(- a z)", "(- b z)")];

/// Statements that use `(op left right)`, and the comparison `left` beyond `right` of fold programs, in every
/// possible way.
fn statements(op: &str, left: &str, right: &str) -> Vec<String> {
    let mut values = vec![format!("({op} {left} {right})")];
    if op == "==" {
        for extreme in ["max", "min"] {
            values.push(format!("(== ({extreme} {left} {right}) {right})"));
            values.push(format!("(== {left} ({extreme} {left} {right}))"));
        }
    }
    values.into_iter().flat_map(|value| statements_with(op, value, left, right)).collect()
}

fn statements_with(op: &str, value: String, left: &str, right: &str) -> Vec<String> {
    let mut all = vec![format!("(:= Report.n {value})")];
    match op {
        "==" | ">" | "<" => all.extend([
            format!("(:= Report.n (if {value} 5))"),
            format!("(:= Report.n (!if {value} Micros))"),
            format!("(:= Report.n (if (&& {value} (> a 9)) 5))"),
            format!("(:= Report.n (!if (|| {value} (> a 9)) 5))"),
            format!("(:= Report.n (!if (&& (> a 9) (|| {value} (> b 9))) 5))"),
            // The flag is used as a number.
            format!("(:= Report.n (&& {value} flag))"),
            format!("(:= Report.n (|| flag {value}))"),
            format!("(:= Report.n (|| (== a 10) {value}))"),
            // A flag with an arbitrary number: the sum may overflow.
            format!("(:= odd a) (:= Report.n (if (|| odd {value}) 5))"),
            format!("(:= odd a) (:= Report.n (&& {value} odd))"),
            // The compared value is written before the test.
            format!("(:= Report.n (if (&& {value} (> (:= a 12) 9)) 5))"),
        ]),
        _ => all.extend([
            format!("(:= Report.n (ewma {left} {right}))"),
            format!("(:= Report.n (ewma 3 {value}))"),
            format!("(:= Micros {value})"),
            format!("(:= Report.n (- {value} 1))"),
            format!("(:= Report.n (if {value} {right}))"),
            // The value is unused: its error, if any, must happen all the same.
            value,
        ]),
    }
    all
}

fn try_all(kernel: Option<&Kernel>, text: &str, pairs: &[(u64, u64)]) -> usize {
    let program = compile(&Source { text, name: "default", origin: "edges", first_line: 1 })
        .unwrap_or_else(|e| panic!("{text}\n{e}"));
    let mut machines = Machines::new(&program, kernel, true).unwrap_or_else(|e| panic!("{text}\n{e}"));
    for (i, &(a, b)) in pairs.iter().enumerate() {
        let flag = i as u64 % 2;
        let updates = vec![(Reg::Control(0), a), (Reg::Control(1), b), (Reg::Control(2), flag)];
        let now_us = 1000 + i as u64;
        let inputs =
            Inputs { prims: [1; MAX_PRIMITIVES], now_us, cwnd_bytes: 3, rate_bytes_per_s: 4, updates };
        machines
            .run(&inputs)
            .unwrap_or_else(|difference| panic!("{text}\na={a} b={b} flag={flag}: {difference}"));
    }
    pairs.len()
}

const DECLARATIONS: &str = "(def (Report (n 7)) (a 0) (b 0) (flag false) (z 0) (odd true))";

fn all_pairs() -> Vec<(u64, u64)> {
    EDGES.iter().flat_map(|a| EDGES.iter().map(|b| (*a, *b))).collect()
}

#[test]
fn machines_agree_where_arithmetic_turns() {
    let kernel = is_root().then(|| Kernel::new().unwrap());
    let pairs = all_pairs();
    let mut runs = 0;
    for op in NUMBERS {
        for (left, right) in PLACES {
            for statement in statements(op, left, right) {
                let text = format!("{DECLARATIONS} (when true {statement} (report))");
                runs += try_all(kernel.as_ref(), &text, &pairs);
            }
            if let "==" | ">" | "<" = op {
                for condition in
                    [format!("({op} {left} {right})"), format!("(|| ({op} {left} {right}) (> (:= b 9) 9))")]
                {
                    let text = format!("{DECLARATIONS} (when {condition} (report))");
                    runs += try_all(kernel.as_ref(), &text, &pairs);
                }
            }
        }
    }
    println!("{runs} runs agree{}", if is_root() { "" } else { "; kernel eBPF skipped: needs root" });
}

#[test]
fn machines_agree_where_one_operand_is_a_constant_at_an_edge() {
    let kernel = is_root().then(|| Kernel::new().unwrap());
    let mut runs = 0;
    for op in NUMBERS {
        for edge in EDGES {
            let pairs: Vec<(u64, u64)> = EDGES.iter().map(|a| (*a, 3)).collect();
            for (left, right) in [("a".to_string(), edge.to_string()), (edge.to_string(), "a".to_string())] {
                for value in [format!("({op} {left} {right})"), format!("(ewma {left} {right})")] {
                    let text = format!("{DECLARATIONS} (when true (:= Report.n {value}) (report))");
                    runs += try_all(kernel.as_ref(), &text, &pairs);
                }
            }
            // Two constants: folded, or a certain error.
            let text =
                format!("{DECLARATIONS} (when true (:= Report.n ({op} {edge} {})) (report))", EDGES[8]);
            runs += try_all(kernel.as_ref(), &text, &[(1, 1)]);
            let text =
                format!("{DECLARATIONS} (when true (:= Report.n ({op} {} {edge})) (report))", EDGES[5]);
            runs += try_all(kernel.as_ref(), &text, &[(1, 1)]);
        }
    }
    println!("{runs} runs agree{}", if is_root() { "" } else { "; kernel eBPF skipped: needs root" });
}

/// 3 * r = 2^64 + 5: the product exceeds 3, so libccp accepts it, and is below 3 * 3.
#[test]
fn machines_agree_on_products_that_wrapped_unnoticed() {
    let kernel = is_root().then(|| Kernel::new().unwrap());
    let pairs = [(3, 6_148_914_691_236_517_207), (6_148_914_691_236_517_207, 3), (3, 3)];
    for statement in
        ["(:= Report.n (- (* (max a 3) (max b 3)) 9))", "(:= Report.n (max (* (max a 3) (max b 3)) 7))"]
    {
        let text = format!("{DECLARATIONS} (when true {statement} (report))");
        assert_eq!(try_all(kernel.as_ref(), &text, &pairs), 3);
    }
}
