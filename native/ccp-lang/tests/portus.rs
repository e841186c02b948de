//! Instructions equal those of portus for the same text, register by register.

use ccp_lang::bytecode::{Bytecode, decode, encode, number};
use ccp_lang::{Implicit, Instr, Program, Reg, Register, Source, compile};
use portus::lang as portus;
use proptest::prelude::*;

/// The operator of declarations.
const DEF: u8 = 2;

fn reg(reference: &portus::Reg) -> Reg {
    match reference {
        portus::Reg::Report(i, ..) => Reg::Report(*i),
        portus::Reg::Control(i, ..) => Reg::Control(*i),
        portus::Reg::Local(i, _) => Reg::Local(*i),
        portus::Reg::Implicit(i, _) => Reg::Implicit(Implicit::ALL[usize::from(*i)]),
        portus::Reg::Primitive(i, _) => Reg::Prim(*i),
        portus::Reg::Tmp(i, _) => Reg::Tmp(*i),
        portus::Reg::ImmNum(n) => Reg::Imm(*n),
        portus::Reg::ImmBool(b) => Reg::Imm(u64::from(*b)),
        portus::Reg::None => panic!("an operand that is nowhere"),
    }
}

fn own(instr: &Instr) -> (u8, [Reg; 3]) {
    (number(instr.op), [instr.res, instr.left, instr.right])
}

/// Compiles a text with both. Returns our program, if we accept it.
fn same(text: &str) -> Option<Program> {
    let program = compile(&Source { text, name: "p", origin: "o", first_line: 1 }).ok()?;
    let (bin, scope) = portus::compile(text.as_bytes(), &[]).expect("portus accepts what we accept");
    // The types of portus' instructions and events cannot be named here.
    let reference = bin.instrs.iter().map(|i| {
        let number = i.clone().into_iter().next().expect("an instruction has octets").expect("an operator");
        (number, [&i.res, &i.left, &i.right])
    });
    let n_defs = reference.clone().take_while(|(number, _)| *number == DEF).count();
    let reference: Vec<_> = reference.skip(n_defs).map(|(number, regs)| (number, regs.map(reg))).collect();
    assert_eq!(program.instrs.iter().map(own).collect::<Vec<_>>(), reference, "{text}");
    let their_events = bin.events.iter();
    let their_events: Vec<_> = their_events
        .map(|e| [e.flag_idx, e.num_flag_instrs, e.body_idx, e.num_body_instrs].map(|n| n as usize))
        .collect();
    let our_events: Vec<_> = program
        .events
        .iter()
        .map(|e| [e.flag_start + n_defs, e.n_flag, e.body_start + n_defs, e.n_body])
        .collect();
    assert_eq!(our_events, their_events, "{text}");
    for (name, registers) in [("Report.", &program.reports), ("", &program.controls)] {
        for (i, register) in registers.iter().enumerate() {
            let reference = scope.get(&format!("{name}{}", register.name)).map(reg);
            let own = if name.is_empty() { Reg::Control(i as u8) } else { Reg::Report(i as u8) };
            assert_eq!(reference, Some(own), "{text}");
        }
    }
    if let Ok(raw) = bin.serialize() {
        same_bytes(&program, &raw, [bin.events.len() as u32, bin.instrs.len() as u32]);
    }
    Some(program)
}

/// A program reduced to what the wire carries: constants of 32 bits, and no names.
fn on_the_wire(program: &Program) -> Program {
    let shortened = |n: u64| if n == u64::MAX { u64::from(u32::MAX) } else { n };
    let short = |reg: Reg| if let Reg::Imm(n) = reg { Reg::Imm(shortened(n)) } else { reg };
    let nameless = |update: char, registers: &[Register]| {
        let each = registers.iter().enumerate();
        let each = each.map(|(i, register)| Register {
            name: format!("{update}{i}"),
            is_bool: false,
            volatile: register.volatile,
            init: shortened(register.init),
        });
        each.collect()
    };
    let mut program = program.clone();
    program.instrs = program
        .instrs
        .into_iter()
        .map(|i| Instr { left: short(i.left), right: short(i.right), ..i })
        .collect();
    program.reports = nameless('r', &program.reports);
    program.controls = nameless('c', &program.controls);
    program
}

/// A program without its lines, which are instruction numbers on the wire.
fn meaning(program: &Program) -> impl PartialEq + std::fmt::Debug + use<> {
    let instrs: Vec<_> = program.instrs.iter().map(own).collect();
    let events: Vec<_> =
        program.events.iter().map(|e| [e.flag_start, e.n_flag, e.body_start, e.n_body]).collect();
    (instrs, events, program.reports.clone(), program.controls.clone(), program.prims_used)
}

fn same_bytes(program: &Program, reference: &[u8], [n_events, n_instrs]: [u32; 2]) {
    let decoded = |raw: &[u8]| {
        decode(&Bytecode { n_events, n_instrs, raw, name: "p", origin: "portus" })
            .unwrap_or_else(|e| panic!("{e}"))
    };
    let expected = meaning(&on_the_wire(program));
    assert_eq!(meaning(&decoded(reference)), expected, "what portus sends");
    let own = encode(program).unwrap_or_else(|e| panic!("portus sends it: {e}"));
    assert_eq!((own.0, own.1), (n_events, n_instrs));
    // portus declares registers in the order of their names.
    let (events, instrs) = (16 * n_events as usize, 16 * n_instrs as usize);
    let sorted = |raw: &[u8]| {
        let n_defs = raw[events..].chunks(16).take_while(|instr| instr[0] == DEF).count();
        let mut defs: Vec<_> = raw[events..][..16 * n_defs].chunks(16).map(<[u8]>::to_vec).collect();
        defs.sort();
        [&raw[..events], &defs.concat(), &raw[events + 16 * n_defs..]].concat()
    };
    assert_eq!(own.2.len(), events + instrs);
    assert_eq!(sorted(&own.2), sorted(reference), "what we would send");
}

#[test]
fn a_typical_program_is_the_same() {
    let text = include_str!("programs/typical.ccp");
    let without_comments: Vec<_> = text.lines().map(|line| line.split('#').next().unwrap_or("")).collect();
    assert!(same(&without_comments.join("\n")).is_some(), "portus' primitives only");
}

#[test]
fn every_operator_is_the_same_by_each_of_its_names() {
    let numbers = ["+", "add", "-", "sub", "*", "mul", "/", "div", "max", "min", "wrapped_max"];
    let flags = ["==", "eq", ">", "gt", "<", "lt"];
    let logic = ["&&", "and", "||", "or"];
    let stateful = ["if", "!if", "ewma"];
    let each = |ops: &[&str], make: fn(&str) -> String| ops.iter().map(|op| make(op)).collect::<Vec<_>>();
    let bodies = [
        each(&numbers, |op| format!("(:= x ({op} Cwnd Flow.rtt_sample_us))")),
        each(&flags, |op| format!("(:= f ({op} Micros 3))")),
        each(&logic, |op| format!("(bind f ({op} Flow.was_timeout true))")),
        each(&stateful, |op| format!("(:= x ({op} 4 Rate))")),
    ];
    for body in bodies.concat() {
        let text = format!(
            "(def (Report (y 1)) (x 1) (f false))(when true (report))(when (|| f false) {body} (fallthrough))"
        );
        assert!(same(&text).is_some(), "{body}");
    }
}

/// A number or a flag, so that most programs are valid.
fn expression(is_flag: bool) -> impl Strategy<Value = String> {
    let numbers =
        prop::sample::select(vec!["x", "Report.y", "7", "+infinity", "Cwnd", "Ack.bytes_acked", "Rate"]);
    let flags = prop::sample::select(vec!["flag", "Report.f", "true", "Flow.was_timeout"]);
    let both = (numbers, flags).prop_map(|(n, f)| (n.to_string(), f.to_string()));
    let made = both.prop_recursive(4, 24, 2, |inner| {
        let numeric = prop::sample::select(vec!["+", "-", "*", "/", "max", "min", "wrapped_max", ":="]);
        let compare = prop::sample::select(vec![">", "<", "=="]);
        let logic = prop::sample::select(vec!["&&", "||"]);
        (inner.clone(), inner, numeric, compare, logic, any::<bool>()).prop_map(
            |(a, b, n, c, l, compared)| {
                let target = if n == ":=" { "x" } else { &a.0 };
                let number = format!("({n} {target} {})", b.0);
                let flag = if compared {
                    format!("({c} {} {})", a.0, b.0)
                } else {
                    format!("({l} {} {})", a.1, b.1)
                };
                (number, flag)
            },
        )
    });
    made.prop_map(move |(number, flag)| if is_flag { flag } else { number })
}

fn statement() -> impl Strategy<Value = String> {
    let target = prop::sample::select(vec!["x", "Report.y", "local", "other", "Cwnd", "Micros"]);
    let stateful = prop::sample::select(vec!["if", "!if"]);
    let number = (target, expression(false)).prop_map(|(to, e)| format!("(:= {to} {e})"));
    let kept = (stateful, expression(true), expression(false));
    prop_oneof![
        4 => number,
        2 => kept.prop_map(|(op, flag, e)| format!("(:= Report.y ({op} {flag} {e}))")),
        1 => expression(false).prop_map(|e| format!("(:= x (ewma 3 {e}))")),
        1 => (expression(false), expression(true)).prop_map(|(e, f)| format!("(:= outer (+ (:= inner {e}) (:= x 2)))(:= flag {f})")),
        1 => Just("(report)".to_string()),
        1 => Just("(fallthrough)".to_string()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_program_is_the_same(
        clauses in prop::collection::vec((expression(true), prop::collection::vec(statement(), 1..6)), 1..4)
    ) {
        let decls = "(def (x 1) (flag true) (Report (y 2) (volatile f false)))";
        let clauses = clauses.iter().map(|(flag, body)| format!("(when (&& {flag} true) {})", body.join(" ")));
        let taken = same(&format!("{decls}{}", clauses.collect::<String>()));
        prop_assume!(taken.is_some()); // expressions may be too large
    }
}
