//! For any text: a result without a panic, and a program only if the code generator accepts it.

use ccp_lang::prims::MAX_PRIMITIVES;
use ccp_lang::{Insn, Layout, Machine, Source, codegen, compile};
use proptest::prelude::*;

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

/// Words of the language, including problematic ones for portus.
const WORDS: &[&str] = &[
    "(",
    "(",
    "(",
    ")",
    ")",
    ")",
    "(def",
    "(Report",
    "(volatile",
    "(when",
    "true",
    "false",
    "+infinity",
    "0",
    "1",
    "18446744073709551615",
    "99999999999999999999",
    "-1",
    "1.5",
    "x",
    "y",
    "Report.x",
    "Report.y",
    "Cwnd",
    "Rate",
    "Micros",
    "Ack.now",
    "Flow.mss",
    "Flow.was_timeout",
    "Flow.app_limited",
    "Flow.nothing",
    "__eventFlag",
    "truex",
    "volatilex",
    "(+",
    "(-",
    "(*",
    "(/",
    "(max",
    "(min",
    "(wrapped_max",
    "(ewma",
    "(if",
    "(!if",
    "(&&",
    "(||",
    "(>",
    "(<",
    "(==",
    "(:=",
    "(bind",
    "(maxx",
    "(+1",
    "(report)",
    "(fallthrough)",
    "# note\n",
    "\n",
    "\u{161}",
    "#",
];

/// Checks that code falls through at its end, preserves R6 and R7, and calls nothing.
fn check_code(insns: &[Insn]) -> Result<(), TestCaseError> {
    let mut wide = false;
    for (at, insn) in insns.iter().enumerate() {
        let [code, regs, low, high, ..] = insn.to_u64().to_le_bytes();
        // The second half of a 64-bit constant is not an instruction.
        if std::mem::replace(&mut wide, code == 0x18) {
            continue;
        }
        let (class, written) = (code & 7, regs & 15);
        let is_jump = class == 5 || class == 6;
        if is_jump {
            let to = at as i64 + 1 + i64::from(i16::from_le_bytes([low, high]));
            prop_assert!((0..=insns.len() as i64).contains(&to), "a jump leads to {}", to);
        }
        prop_assert!(!is_jump || (code != 0x85 && code != 0x95), "a call or an exit");
        let writes_register = matches!(class, 0 | 1 | 4 | 7);
        prop_assert!(!writes_register || !matches!(written, 6 | 7 | 10), "R{} is written", written);
    }
    prop_assert!(!insns.is_empty() && !wide);
    Ok(())
}

fn check(text: &str) -> Result<(), TestCaseError> {
    match compile(&Source { text, name: "p", origin: "o", first_line: 1 }) {
        Err(error) => {
            let lines = text.lines().count().max(1) as u32;
            for error in std::iter::once(&error).chain(&error.context.more) {
                prop_assert!((1..=lines).contains(&error.line) && error.column >= 1, "{}", error);
                prop_assert!(!error.message.is_empty() && !error.why.is_empty() && !error.fix.is_empty());
            }
        }
        Ok(program) => {
            check_code(&codegen(&program, &LAYOUT).unwrap())?;
            let mut machine = Machine::new();
            machine.reset(&program, 0);
            let _ = machine.invoke(&program, &[7; MAX_PRIMITIVES], 9);
        }
    }
    Ok(())
}

/// An expression that is mostly well typed.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "x",
        "Report.y",
        "flag",
        "local",
        "3",
        "+infinity",
        "true",
        "Flow.mss",
        "Cwnd",
    ]);
    leaf.prop_map(str::to_string).prop_recursive(5, 40, 2, |inner| {
        let ops =
            ["+", "-", "*", "/", "max", "wrapped_max", ">", "==", "&&", "||", ":=", "if", "!if", "ewma"];
        (prop::sample::select(ops.to_vec()), inner.clone(), inner)
            .prop_map(|(op, left, right)| format!("({op} {left} {right})"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_gets_an_answer(text in "\\PC{0,80}") {
        check(&text)?;
    }

    #[test]
    fn any_words_get_an_answer(words in prop::collection::vec(prop::sample::select(WORDS.to_vec()), 0..60)) {
        check(&words.join(" "))?;
        check(&words.concat())?;
    }

    #[test]
    fn any_body_gets_an_answer(
        condition in expression(),
        body in prop::collection::vec(expression(), 1..6),
    ) {
        let decls = "(def (x 1) (flag true) (Report (y 2)))";
        let start = "(when true (:= local 1) (fallthrough))";
        check(&format!("{decls}\n{start}\n(when {condition}\n{})", body.join("\n")))?;
        check(&format!("{decls}\n{start}\n(when true\n{})", body.join("\n")))?;
    }

    #[test]
    fn a_program_survives_the_loss_of_any_piece(from in 0usize..330, len in 1usize..20) {
        let text = include_str!("programs/typical.ccp");
        let from = from.min(text.len());
        let mut cut = text.to_string();
        cut.replace_range(from..(from + len).min(text.len()), "");
        check(&cut)?;
    }
}
