//! The verifier accepts the largest programs of every shape without exploring the same code repeatedly. Two
//! branches at each of n conditions are 2^n paths, unless the verifier detects that they join; it gives up
//! after a million instructions.

use ccp_difftest::is_root;
use ccp_difftest::kernel::Kernel;
use ccp_difftest::machines::{Inputs, Machines};
use ccp_lang::prims::MAX_PRIMITIVES;
use ccp_lang::{Program, Reg, Source, compile};

fn repeat(n: usize, f: impl Fn(usize) -> String) -> String {
    (0..n).map(f).collect::<Vec<_>>().join("\n")
}

fn nested(n: usize, innermost: &str, f: impl Fn(usize, String) -> String) -> String {
    (0..n).fold(innermost.to_string(), |inner, i| f(i, inner))
}

fn program(statements: &str) -> Program {
    let reports = repeat(64, |i| format!("(volatile r{i} {i})"));
    let controls = repeat(64, |i| format!("(c{i} {})", if i % 4 == 3 { "true" } else { "5" }));
    let text = format!("(def (Report {reports}) {controls}) {statements}");
    compile(&Source { text: &text, name: "default", origin: "limits", first_line: 1 })
        .unwrap_or_else(|e| panic!("{e}"))
}

fn in_body(statements: String) -> String {
    format!("(when true {statements} (report))")
}

/// Program shapes that could make the verifier explore many paths.
fn shapes() -> Vec<(&'static str, Program)> {
    let r = |i: usize| format!("Report.r{}", i % 64);
    let c = |i: usize| format!("c{}", i % 63 / 4 * 4);
    let compare = |i: usize| format!("(> {} {})", r(i), c(i));
    vec![
        (
            "conditional binds",
            in_body(repeat(500, |i| format!("(:= {} (if {} {}))", r(i), compare(i), c(i)))),
        ),
        (
            "conditional binds on joined conditions",
            in_body(repeat(160, |i| {
                format!(
                    "(:= {} (!if (|| (&& {} {}) {}) {}))",
                    r(i),
                    compare(i),
                    compare(i + 1),
                    compare(i + 2),
                    c(i)
                )
            })),
        ),
        ("extremes", in_body(repeat(330, |i| format!("(:= {} (max (min {} {}) 3))", r(i), r(i + 1), c(i))))),
        (
            "extremes of one another",
            in_body(
                repeat(4, |i| {
                    format!(
                        "(:= {} {})",
                        r(i),
                        nested(120, "1", |j, e| { format!("(max {e} (min {} {}))", r(j), c(j)) })
                    )
                })
                .replace("(:= Report.r3", "(:= Micros"),
            ),
        ),
        ("sequence numbers", in_body(repeat(500, |i| format!("(:= {} (wrapped_max {0} {}))", r(i), c(i))))),
        ("averages", in_body(repeat(900, |i| format!("(:= {} (ewma 7 {}))", r(i), c(i))))),
        (
            "checked products",
            in_body(repeat(330, |i| format!("(:= {} (+ 1 (* {} {})))", r(i), r(i + 1), c(i)))),
        ),
        (
            "one long conjunction",
            format!(
                "(when {} (report))",
                nested(100, "(> Micros 1)", |i, e| { format!("(&& {e} {})", compare(i)) })
            ),
        ),
        (
            "one long disjunction",
            format!(
                "(when {} (report))",
                nested(100, "(> Micros 1)", |i, e| { format!("(|| {e} {})", compare(i)) })
            ),
        ),
        (
            "a condition of sums",
            format!(
                "(when {} (report))",
                nested(22, "(> Micros 1)", |i, e| {
                    format!("(|| (> (+ {} 1) (max {} 2)) {e})", r(i), c(i))
                })
            ),
        ),
        // The compared value is overwritten before the test, so the flags must be stored as numbers.
        (
            "flags as numbers",
            format!(
                "(when {} (report))",
                nested(22, "(> (:= c0 3) 1)", |i, e| { format!("(&& (> {} c0) {e})", r(i)) })
            ),
        ),
        (
            "counted flags",
            in_body(repeat(20, |i| {
                format!("(:= {} {})", r(i), nested(20, "c3", |j, e| { format!("(|| {e} {})", compare(j)) }))
            })),
        ),
        (
            "24 intermediate results",
            in_body(repeat(18, |i| {
                format!("(:= {} {})", r(i), nested(24, "1", |j, e| { format!("(+ (+ {} {j}) {e})", r(j)) }))
            })),
        ),
        ("many clauses", repeat(300, |i| format!("(when {} (:= {} 5) (fallthrough))", compare(i), r(i)))),
        (
            "clauses that may be the last",
            repeat(300, |i| {
                let fallthrough = if i % 2 == 0 { "(fallthrough)" } else { "" };
                format!("(when {} (:= {} 5) {fallthrough})", compare(i), r(i))
            }),
        ),
    ]
    .into_iter()
    .map(|(name, text)| (name, program(&text)))
    .collect()
}

#[test]
fn large_programs_load_and_agree() {
    if !is_root() {
        println!("kernel eBPF skipped: needs root");
        return;
    }
    let kernel = Kernel::new().unwrap();
    for (name, program) in shapes() {
        let mut machines =
            Machines::new(&program, Some(&kernel), false).unwrap_or_else(|e| panic!("{name}: {e}"));
        let (insns, verified) = (machines.n_insns(), machines.verified_insns());
        println!("{name}: {} instructions, eBPF {insns}, verified {verified}", program.instrs.len());
        assert!(
            verified < 8 * insns as u32,
            "{name}: the verifier processed {verified} for {insns} instructions"
        );
        for i in 0..20 {
            let updates =
                (0..64).map(|j| (Reg::Control(j), u64::from(j) * i % 7 * u64::from(j % 4 != 3))).collect();
            let inputs = Inputs {
                prims: [i; MAX_PRIMITIVES],
                now_us: 10 * i,
                cwnd_bytes: 3,
                rate_bytes_per_s: 4,
                updates,
            };
            machines.run(&inputs).unwrap_or_else(|difference| panic!("{name}: {difference}"));
        }
    }
}
