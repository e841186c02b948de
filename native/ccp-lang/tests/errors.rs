//! Every error: its slug, its place, and its fix.

use std::collections::BTreeSet;

use ccp_lang::{LangError, SLUGS, Source, compile};

fn refusal(text: &str) -> LangError {
    let source = Source { text, name: "default", origin: "alg.py", first_line: 100 };
    match compile(&source) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(error) => error,
    }
}

/// A rejected program; line and column, and parts of the message, the reason and the fix.
struct Case(&'static str, &'static str, (u32, u32), &'static str, &'static str, &'static str);

const IN_BODY: &str =
    "(def (Report (volatile acked 0)) (seen 0) (done false))\n(when true\n  BODY\n  (report))";

#[rustfmt::skip]
const CASES: &[Case] = &[
    // The text as a whole.
    Case("", "lang.syntax", (1, 1),
        "does not begin with `(def ...)`", "(when CONDITION", "put `(def)` first"),
    Case("(when true (report))", "lang.syntax", (1, 1),
        "does not begin", "a program is", "put `(def)` first"),
    Case("(def)", "lang.syntax", (1, 1), "no `when`", "a program is", "add `(when true ...)`"),
    Case("(def)\n(when true (report)", "lang.syntax", (2, 1),
        "`(` is never closed", "ends inside", "missing `)`"),
    Case("(def)\n(when true (report)))", "lang.syntax", (2, 21),
        "`)` without `(`", "already closed", "remove it"),
    Case("(def)\n (report)", "lang.syntax", (2, 2), "only `(when", "a program is", "into the body"),
    Case("(def)\n(when true\u{a0}(report))", "lang.syntax", (2, 11),
        "the character", "ASCII", "copy and paste"),
    Case("(def) (when)", "lang.syntax", (1, 7), "without a condition", "a clause is", "(when true ...)"),
    Case("(def) (when true)", "lang.syntax", (1, 7), "without a body", "a clause is", "add an expression"),
    // Declarations.
    Case("(def x) (when true (report))", "lang.syntax", (1, 6),
        "`x` is not a declaration", "(NAME VALUE)", "(acked 0)"),
    Case("(def (x)) (when true (report))", "lang.syntax", (1, 6),
        "not a declaration", "(NAME VALUE)", "(acked 0)"),
    Case("(def ((x) 0)) (when true (report))", "lang.syntax", (1, 6), "not a declaration", "(NAME", "(acked 0)"),
    Case("(def (7 0)) (when true (report))", "lang.syntax", (1, 7),
        "`7` is not a name", "(NAME VALUE)", "(acked 0)"),
    Case("(def (x y)) (when true (report))", "lang.syntax", (1, 9),
        "not an initial value", "constant", "write a number"),
    Case("(def (volatile_x 0)) (when true (report))", "lang.syntax", (1, 7),
        "`volatile_x`", "portus reads", "rename"),
    Case("(def (truth 0) (trueish 0)) (when true (report))", "lang.syntax", (1, 17),
        "`trueish`", "`true` and then `ish`", "rename"),
    Case("(def (__x 0)) (when true (report))", "lang.syntax", (1, 7),
        "`__x`", "belong to the compiler", "rename"),
    Case("(def (Report)) (when true (report))", "lang.syntax", (1, 6),
        "no fields", "at least one", "declare one"),
    Case("(def (Report (a 0)) (Report (b 0))) (when true (report))", "lang.syntax", (1, 21),
        "a second", "one report", "merge"),
    Case("(def (a 0)\n (a 1)) (when true (report))", "lang.duplicate_name", (2, 3),
        "declared twice", "one initial", "remove one"),
    Case("(def (Cwnd 0)) (when true (report))", "lang.reserved_name", (1, 7),
        "`Cwnd` cannot", "already has it", "rename"),
    Case("(def (Flow.mss 0)) (when true (report))", "lang.reserved_name", (1, 7),
        "`Flow.mss` cannot", "already", "rename"),
    Case("(def (Flow.x 0)) (when true (report))", "lang.reserved_name", (1, 7),
        "`Flow.x`", "the datapath", "`flow_x`"),
    // Expressions.
    Case("(+ 1)", "lang.syntax", (3, 3), "`+` has 1 operands", "takes two", "`(+ A B)`"),
    Case("(max 1 2 3)", "lang.syntax", (3, 3), "has 3 operands", "takes two", "(max A (max B C))"),
    Case("(mx 1 2)", "lang.syntax", (3, 4),
        "no operator `mx`", "begins with an operator", "did you mean `max`?"),
    Case("(frobnicate 1 2)", "lang.syntax", (3, 4), "no operator", "begins with", "the operators are"),
    Case("(+1 2)", "lang.syntax", (3, 4), "no operator `+1`", "begins with", "a space after `+`"),
    Case("(:= seen (seen))", "lang.syntax", (3, 13),
        "no operator `seen`", "begins with", "remove the parentheses"),
    Case("(:= seen ())", "lang.syntax", (3, 12),
        "does not begin with an operator", "(OPERATOR", "operator first"),
    Case("(:= seen (if done (report)))", "lang.syntax", (3, 21),
        "`(report)` is not allowed", "regardless", "of a `when`"),
    Case("(:= se-en 1)", "lang.syntax", (3, 7), "`se-en` is not a name", "letters", "rename"),
    Case("(:= seen -5)", "lang.number", (3, 12), "`-5` is not a number", "unsigned", "subtract"),
    Case("(:= seen 0.7)", "lang.number", (3, 12), "`0.7` is not a number", "integers", "scaled"),
    Case("(:= seen 1e6)", "lang.number", (3, 12), "`1e6` is not a number", "decimal digits", "digits only"),
    Case("(:= seen 18446744073709551616)", "lang.number", (3, 12), "not a number", "64 bits", "+infinity"),
    // Names.
    Case("(:= seen sen)", "lang.unknown_name", (3, 12),
        "no register `sen`", "before this read", "did you mean `seen`?"),
    Case("(:= local local)", "lang.unknown_name", (3, 13),
        "`local`", "before this read", "declare it: `(def (local 0) ...)`"),
    Case("(:= Report.ackd 1)", "lang.unknown_field", (3, 7),
        "`Report.ackd`", "the report has Report.acked", "`Report.acked`?"),
    Case("(:= Report.zzz 1)", "lang.unknown_field", (3, 7),
        "`Report.zzz`", "the report has", "(def (Report (zzz 0)) ...)"),
    Case("(:= seen Flow.rtt_sample_ms)", "lang.unknown_field", (3, 12), "no field `Flow.rtt_sample_ms`",
        "this datapath provides Flow.rtt_sample_us [us]", "did you mean `Flow.rtt_sample_us`?"),
    Case("(:= seen Ack.bananas)", "lang.unknown_field", (3, 12),
        "`Ack.bananas`", "does not provide this primitive", "Ack.ecn_bytes"),
    Case("(:= Flow.mss 3)", "lang.read_only", (3, 7), "cannot be written", "measures", "write Cwnd or Rate"),
    Case("(:= Ack.now 3)", "lang.read_only", (3, 7), "cannot be written", "measures", "write Cwnd or Rate"),
    // Types.
    Case("(:= seen (+ 1 done))", "lang.type", (3, 17),
        "`+` takes two numbers, but this is a flag", "mix", "(if FLAG 1)"),
    Case("(:= done (&& seen true))", "lang.type", (3, 16),
        "`&&` takes two flags, but this is a number", "mix", "(> X 0)"),
    Case("(:= done (== done 1))", "lang.type", (3, 16), "`==` takes two numbers", "mix", "convert the flag"),
    Case("(:= 3 seen)", "lang.type", (3, 7), "this is not one", "is its target", "(:= REGISTER VALUE)"),
    Case("(:= (if done 3) seen)", "lang.type", (3, 7),
        "this is not one", "is its target", "(:= REGISTER VALUE)"),
    Case("(if done 3)", "lang.type", (3, 3),
        "`if` has no register to work on", "the surrounding bind", "(:= REGISTER (if"),
    Case("(:= seen (+ 1 (ewma 3 seen)))", "lang.type", (3, 17), "`ewma` inside `+`", "of its own", "bind it"),
    Case("(:= Cwnd (if done 3))", "lang.type", (3, 7),
        "`if` cannot use this register", "declared in `(def ...)`", "declare one"),
    Case("(:= fresh (!if done 3))", "lang.type", (3, 7),
        "`!if` cannot use this register", "declared", "declare one"),
];

const CONDITIONS: &[(&str, &str)] = &[
    ("Flow.was_timeout", "write `(|| Flow.was_timeout false)`"),
    ("seen", "(> X 0)"),
    ("(+ seen 1)", "(> X 0)"),
    ("(:= done true)", "clause before"),
    ("(if done true)", "bind it to a register"),
];

/// The program of a case: its text, or its text as the third line of a body.
fn text_of(case: &Case) -> String {
    let whole = case.0.is_empty() || case.0.starts_with("(def") || case.0.starts_with("(when");
    if whole { case.0.to_string() } else { IN_BODY.replace("BODY", case.0) }
}

#[test]
fn refusals_say_what_where_why_and_what_to_do() {
    for case in CASES {
        let Case(_, slug, (line, column), message, why, fix) = case;
        let error = refusal(&text_of(case));
        let place = (error.line - 99, error.column);
        assert_eq!((error.slug, place), (*slug, (*line, *column)), "{error}");
        assert!(error.message.contains(message), "{message:?} is not in\n{error}");
        assert!(error.why.contains(why), "{why:?} is not in\n{error}");
        assert!(error.fix.contains(fix), "{fix:?} is not in\n{error}");
        assert!(error.context.more.is_empty(), "one mistake, one error:\n{error}");
    }
}

#[test]
fn conditions_that_are_none_say_what_to_write() {
    for (condition, fix) in CONDITIONS {
        let error = refusal(&format!("(def (seen 0) (done false))\n(when {condition} (report))"));
        assert_eq!((error.slug, error.line, error.column), ("lang.type", 101, 7), "{error}");
        assert!(error.message.contains("not a condition") && error.fix.contains(fix), "{error}");
    }
}

#[test]
fn what_the_remedies_propose_is_accepted() {
    for body in [
        "(:= seen (max 1 (max 2 3)))",
        "(:= seen (+ 1 2))",
        "(:= n 0) (:= seen (if done 1)) (:= n seen)",
        "(:= done (&& (> seen 0) true))",
    ] {
        let text = IN_BODY.replace("BODY", body);
        compile(&Source { text: &text, name: "default", origin: "alg.py", first_line: 1 }).unwrap();
    }
    for condition in ["(|| Flow.was_timeout false)", "(> 1 0)", "true"] {
        let text = format!("(def) (when {condition} (report))");
        compile(&Source { text: &text, name: "default", origin: "alg.py", first_line: 1 }).unwrap();
    }
}

#[test]
fn an_error_reads_as_four_lines() {
    let text = IN_BODY.replace("BODY", "(:= seen Flow.rtt_sample_ms)");
    assert_eq!(
        refusal(&text).to_string(),
        "lang.unknown_field: no field `Flow.rtt_sample_ms`\n  \
           at   alg.py:102:12, program \"default\", line 3\n  \
           why  this datapath provides Flow.rtt_sample_us [us]\n  \
           fix  did you mean `Flow.rtt_sample_us`?"
    );
}

#[test]
fn all_mistakes_come_in_one_report() {
    let error = refusal("(def (a 0) (a 1))\n(when true (:= a b) (:= a b)\n (:= a (+ c true)))");
    let all: Vec<_> = std::iter::once(&error).chain(&error.context.more).map(|e| (e.slug, e.line)).collect();
    let expected = [
        ("lang.duplicate_name", 100),
        ("lang.unknown_name", 101),
        ("lang.unknown_name", 102),
        ("lang.type", 102),
    ];
    assert_eq!(all, expected, "{error}");
    assert_eq!(error.to_string().matches("  fix  ").count(), 4);
}

/// A program with `n` statements, registers or operands, made by `f`.
fn many(n: usize, f: impl Fn(usize) -> String) -> String {
    (0..n).map(f).collect::<Vec<_>>().join(" ")
}

fn nested(depth: usize, f: impl Fn(String) -> String) -> String {
    (0..depth).fold("1".to_string(), |inner, _| f(inner))
}

#[test]
fn limits_are_exact() {
    let body = |statements: String| format!("(def (Report (x 0)) (y 0)) (when true {statements})");
    type Make = Box<dyn Fn(usize) -> String>;
    let cases: Vec<(&str, usize, Make)> = vec![
        (
            "64 report registers",
            64,
            Box::new(|n| format!("(def (Report {})) (when true (report))", many(n, |i| format!("(r{i} 0)")))),
        ),
        (
            "64 control registers",
            64,
            Box::new(|n| format!("(def {}) (when true (report))", many(n, |i| format!("(c{i} 0)")))),
        ),
        ("64 local registers", 64, Box::new(move |n| body(many(n, |i| format!("(:= l{i} 0)"))))),
        // The condition is also an instruction.
        ("1024 instructions", 1023, Box::new(move |n| body(many(n, |_| "(:= y Report.x)".to_string())))),
        ("256 operators", 256, Box::new(move |n| body(format!("(:= y {})", many_sums(n))))),
        // Each pair waits for the inner ones; the innermost operand is a constant.
        (
            "24 intermediate results",
            24,
            Box::new(move |n| body(format!("(:= y {})", nested(n, |e| format!("(+ (+ y 1) {e})"))))),
        ),
        // The program, the bind and the `when` are surrounding lists.
        (
            "256 levels",
            254,
            Box::new(move |n| body(format!("(:= y {})", nested(n, |e| format!("(+ {e} y)"))))),
        ),
    ];
    for (what, maximum, make) in cases {
        let text = make(maximum);
        let source = Source { text: &text, name: "default", origin: "alg.py", first_line: 1 };
        compile(&source).unwrap_or_else(|e| panic!("{what}: {e}"));
        let error = refusal(&make(maximum + 1));
        assert_eq!(error.slug, "lang.limit", "{what}: {error}");
        assert!(error.context.more.is_empty(), "{what}: {error}");
    }
}

/// `n` sums in a shape that needs few levels and few live results.
fn many_sums(n: usize) -> String {
    match n {
        0 => "y".to_string(),
        n => format!("(+ {} {})", many_sums((n - 1) / 2), many_sums((n - 1).div_ceil(2))),
    }
}

#[test]
fn every_slug_has_a_case() {
    let mut tested: BTreeSet<&str> = CASES.iter().map(|case| case.1).collect();
    tested.insert("lang.limit"); // limits_are_exact
    tested.insert("lang.bytecode"); // bytecode.rs
    assert_eq!(tested, SLUGS.into_iter().collect());
}
