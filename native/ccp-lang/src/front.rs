//! portus as the compiler's front end: a checked program goes in as text and comes back as instructions.
//!
//! portus gets a text without comments and with one space between words, so that none of the oddities of its
//! own reader matter (it panics on comments in a body, and takes `(max5 x)` for `(max 5 x)`).

use std::fmt::Write;

use portus::lang as portus_lang;

use crate::Source;
use crate::ast::{Ast, Decl, Expr, ExprKind, Literal, Statement};
use crate::check::Facts;
use crate::code::Code;
use crate::error::{Pos, Problem};
use crate::ir::{Event, Implicit, Instr, Op, Program, Reg, Register};
use crate::prims::{N_PORTUS_PRIMS, PRIMITIVES};

/// portus' parser takes some kilobytes of stack a nested parenthesis in an unoptimised build.
const STACK_BYTES: usize = 16 << 20;

/// Returns the program that `ast` describes.
pub(crate) fn compile(ast: &Ast, facts: Facts, source: &Source) -> Result<Program, Problem> {
    let start = ast.clauses.first().map_or(Pos { line: 1, column: 1 }, |clause| clause.at);
    let refused = |why: String| {
        let message = "portus, the front end of the compiler, refuses this program";
        let fix = "this is a defect of the compiler: please report it with the program";
        Problem::new("lang.portus", start, message, why, fix)
    };
    let text = canonical(ast, facts.prims);
    let (bin, scope) = run_portus(text.clone()).map_err(refused)?;
    let translation = Translation::new(ast, &scope);
    let n_defs = bin.instrs.iter().take_while(|i| format!("{:?}", i.op) == "Def").count();
    // Where each condition and statement begins, and its line.
    let lines = facts.runs.iter().flat_map(|(n, at)| std::iter::repeat_n(source.line(at.line), *n));
    let instrs = bin.instrs[n_defs..]
        .iter()
        .zip(lines.clone())
        .map(|(instr, line)| {
            // The types of portus' instructions and operators cannot be named from here.
            let regs = [&instr.res, &instr.left, &instr.right];
            translation.instr(&format!("{:?}", instr.op), regs, line)
        })
        .collect::<Option<Vec<Instr>>>()
        .ok_or_else(|| refused("it uses a register in a way that no datapath can run".into()))?;
    if lines.count() != bin.instrs.len() - n_defs {
        return Err(refused("its number of instructions is not the expected one".into()));
    }
    let events = bin.events.iter().zip(&ast.clauses).map(|(event, clause)| Event {
        flag_start: event.flag_idx as usize - n_defs,
        n_flag: event.num_flag_instrs as usize,
        body_start: event.body_idx as usize - n_defs,
        n_body: event.num_body_instrs as usize,
        line: source.line(clause.at.line),
    });
    let mut locals = vec![String::new(); facts.locals.len()];
    for name in facts.locals {
        if let Some(portus_lang::Reg::Local(i, _)) = scope.get(&name) {
            locals[*i as usize] = name;
        }
    }
    let mut program = Program {
        uid: uid(&text),
        name: source.name.to_string(),
        origin: source.origin.to_string(),
        first_line: source.first_line,
        instrs,
        events: events.collect(),
        reports: translation.reports,
        controls: translation.controls,
        n_local: locals.len(),
        locals,
        prims_used: facts.prims,
        code: Code::default(),
    };
    program.code = Code::new(&program);
    Ok(program)
}

/// Runs portus on a thread of its own: it recurses, and it panics where it should refuse.
fn run_portus(text: String) -> Result<(portus_lang::Bin, portus_lang::Scope), String> {
    std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .name("ccp-lang-portus".into())
        .spawn(move || portus_lang::compile(text.as_bytes(), &[]).map_err(|e| e.0))
        .map_err(|e| format!("no thread to run it on: {e}"))?
        .join()
        .unwrap_or_else(|_| Err("it panicked".into()))
}

/// Returns FNV-1a of the text; 0 is kept for "no program".
fn uid(text: &str) -> u32 {
    let hash = text.bytes().fold(0x811c_9dc5_u32, |h, byte| (h ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.max(1)
}

/// Returns the text for portus. Primitives that it does not know are declared as control registers.
fn canonical(ast: &Ast, prims_used: u64) -> String {
    let mut text = String::from("(def");
    for (i, prim) in PRIMITIVES.iter().enumerate().skip(N_PORTUS_PRIMS) {
        if prims_used >> i & 1 == 1 {
            write_decl(
                &mut text,
                prim.name,
                false,
                if prim.is_bool { Literal::Bool(false) } else { Literal::Num(0) },
            );
        }
    }
    if !ast.fields.is_empty() {
        text.push_str("(Report");
        for Decl { name, volatile, init, .. } in &ast.fields {
            write_decl(&mut text, &name["Report.".len()..], *volatile, *init);
        }
        text.push(')');
    }
    for Decl { name, volatile, init, .. } in &ast.decls {
        write_decl(&mut text, name, *volatile, *init);
    }
    text.push(')');
    for clause in &ast.clauses {
        text.push_str("(when ");
        write_expr(&mut text, &clause.flag);
        for (statement, _) in &clause.body {
            text.push(' ');
            match statement {
                Statement::Report => text.push_str("(report)"),
                Statement::Fallthrough => text.push_str("(fallthrough)"),
                Statement::Expr(expr) => write_expr(&mut text, expr),
            }
        }
        text.push(')');
    }
    text
}

fn write_decl(text: &mut String, name: &str, volatile: bool, init: Literal) {
    text.push_str(if volatile { "(volatile " } else { "(" });
    text.push_str(name);
    text.push(' ');
    write_literal(text, init);
    text.push(')');
}

fn write_literal(text: &mut String, literal: Literal) {
    match literal {
        Literal::Num(u64::MAX) => text.push_str("+infinity"),
        Literal::Num(n) => write!(text, "{n}").expect("writing to a string"),
        Literal::Bool(b) => write!(text, "{b}").expect("writing to a string"),
    }
}

fn write_expr(text: &mut String, expr: &Expr) {
    match &expr.kind {
        ExprKind::Literal(literal) => write_literal(text, *literal),
        ExprKind::Name(name) => text.push_str(name),
        ExprKind::Apply { spelling, operands, .. } => {
            text.push('(');
            text.push_str(spelling);
            for operand in operands.iter() {
                text.push(' ');
                write_expr(text, operand);
            }
            text.push(')');
        }
    }
}

/// portus' registers in terms of ours.
struct Translation {
    reports: Vec<Register>,
    controls: Vec<Register>,
    /// By portus' number of a control register.
    control_regs: Vec<Reg>,
}

impl Translation {
    fn new(ast: &Ast, scope: &portus_lang::Scope) -> Self {
        let mut reports = Vec::new();
        let mut controls = Vec::new();
        let mut by_number = Vec::new();
        for decl in ast.fields.iter().chain(&ast.decls) {
            let register = Register {
                name: decl.name.strip_prefix("Report.").unwrap_or(&decl.name).to_string(),
                is_bool: matches!(decl.init, Literal::Bool(_)),
                volatile: decl.volatile,
                init: match decl.init {
                    Literal::Num(n) => n,
                    Literal::Bool(b) => u64::from(b),
                },
            };
            match scope.get(&decl.name) {
                Some(portus_lang::Reg::Report(i, ..)) => reports.push((*i, register)),
                Some(portus_lang::Reg::Control(i, ..)) => {
                    by_number.push((*i, Reg::Control(controls.len() as u8)));
                    controls.push(register);
                }
                _ => {}
            }
        }
        for (i, prim) in PRIMITIVES.iter().enumerate().skip(N_PORTUS_PRIMS) {
            if let Some(portus_lang::Reg::Control(number, ..)) = scope.get(prim.name) {
                by_number.push((*number, Reg::Prim(i as u8)));
            }
        }
        reports.sort_by_key(|(i, _)| *i);
        by_number.sort_by_key(|(i, _)| *i);
        Translation {
            reports: reports.into_iter().map(|(_, register)| register).collect(),
            controls,
            control_regs: by_number.into_iter().map(|(_, reg)| reg).collect(),
        }
    }

    fn instr(&self, op_name: &str, regs: [&portus_lang::Reg; 3], line: u32) -> Option<Instr> {
        let [res, left, right] = regs.map(|reg| self.reg(reg));
        let translated = Instr { op: op(op_name)?, res: res?, left: left?, right: right?, line };
        (!matches!(translated.res, Reg::Prim(_) | Reg::Imm(_))).then_some(translated)
    }

    fn reg(&self, reg: &portus_lang::Reg) -> Option<Reg> {
        Some(match reg {
            portus_lang::Reg::Report(i, ..) => Reg::Report(*i),
            portus_lang::Reg::Control(i, ..) => *self.control_regs.get(*i as usize)?,
            portus_lang::Reg::Local(i, _) => Reg::Local(*i),
            portus_lang::Reg::Implicit(i, _) => Reg::Implicit(*Implicit::ALL.get(*i as usize)?),
            portus_lang::Reg::Primitive(i, _) => Reg::Prim(*i),
            portus_lang::Reg::Tmp(i, _) => Reg::Tmp(*i),
            portus_lang::Reg::ImmNum(n) => Reg::Imm(*n),
            portus_lang::Reg::ImmBool(b) => Reg::Imm(u64::from(*b)),
            portus_lang::Reg::None => return None,
        })
    }
}

/// Returns the operator that portus prints as `name`: its type is not public.
fn op(name: &str) -> Option<Op> {
    Some(match name {
        "Add" => Op::Add,
        "Bind" => Op::Bind,
        "Div" => Op::Div,
        "Equiv" => Op::Equiv,
        "Ewma" => Op::Ewma,
        "Gt" => Op::Gt,
        "If" => Op::If,
        "Lt" => Op::Lt,
        "Max" => Op::Max,
        "MaxWrap" => Op::MaxWrap,
        "Min" => Op::Min,
        "Mul" => Op::Mul,
        "NotIf" => Op::NotIf,
        "Sub" => Op::Sub,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::Clause;

    const SOURCE: Source = Source { text: "", name: "default", origin: "alg.py", first_line: 40 };

    /// Returns a program that no check has seen: `(def) (when FLAG (report))`.
    fn unchecked(flag: ExprKind) -> Ast {
        let at = Pos { line: 3, column: 5 };
        let clause = Clause { flag: Expr { kind: flag, at }, body: vec![(Statement::Report, at)], at };
        Ast { clauses: vec![clause], ..Ast::default() }
    }

    #[test]
    fn what_portus_refuses_is_an_error_with_its_reason() {
        let ast = unchecked(ExprKind::Name("Micros".into()));
        let problem = compile(&ast, Facts::default(), &SOURCE).unwrap_err();
        assert_eq!((problem.slug, problem.at.line), ("lang.portus", 3));
        assert!(problem.why.contains("must result in bool"), "{}", problem.why);
    }

    #[test]
    fn a_panic_of_portus_is_an_error() {
        let mut ast = unchecked(ExprKind::Name("Report.x".into()));
        let at = Pos { line: 1, column: 1 };
        ast.fields.push(Decl { name: "Report.x".into(), volatile: false, init: Literal::Bool(true), at });
        let problem = compile(&ast, Facts::default(), &SOURCE).unwrap_err();
        assert_eq!((problem.slug, problem.why.as_str()), ("lang.portus", "it panicked"));
    }

    #[test]
    fn a_count_of_instructions_that_is_off_is_an_error() {
        let ast = unchecked(ExprKind::Literal(Literal::Bool(true)));
        let at = Pos { line: 1, column: 1 };
        for runs in [vec![(1, at)], vec![(3, at)]] {
            let problem = compile(&ast, Facts { runs, ..Facts::default() }, &SOURCE).unwrap_err();
            assert!(problem.why.contains("number of instructions"), "{}", problem.why);
        }
    }
}
