//! Flattens a checked program to instructions: operands first, left before right, each result in an intermediate
//! register. Order and numbering are portus', since libccp runs its output; `tests/portus.rs` compares the two.

use std::collections::HashMap;

use crate::Source;
use crate::ast::{Ast, Expr, ExprKind, Literal, Operator, Statement};
use crate::error::{Pos, Problem};
use crate::ir::{Event, Implicit, Instr, MAX_INSTRS, Op, Parts, Program, Reg, Register};
use crate::prims::PRIMITIVES;

/// Flattens `ast`, which `check::check` has accepted. Errors: `lang.limit` if it is too long.
pub(crate) fn flatten(ast: &Ast, uid: u32, source: &Source) -> Result<Program, Problem> {
    let mut flat = Flat::new(ast, source);
    let mut events = Vec::with_capacity(ast.clauses.len());
    for clause in &ast.clauses {
        let flag_start = flat.instrs.len();
        flat.condition(&clause.flag)?;
        let body_start = flat.instrs.len();
        for (statement, at) in &clause.body {
            flat.statement(statement, *at)?;
        }
        events.push(Event {
            flag_start,
            n_flag: body_start - flag_start,
            body_start,
            n_body: flat.instrs.len() - body_start,
            line: source.line(clause.at.line),
        });
    }
    Ok(Parts {
        uid,
        instrs: flat.instrs,
        events,
        reports: flat.reports,
        controls: flat.controls,
        locals: flat.locals,
    }
    .assembled(source))
}

struct Flat<'a> {
    source: &'a Source<'a>,
    known: HashMap<String, Reg>,
    reports: Vec<Register>,
    controls: Vec<Register>,
    /// In the order of first use.
    locals: Vec<String>,
    instrs: Vec<Instr>,
    n_tmps: u8,
    line: u32,
}

impl<'a> Flat<'a> {
    fn new(ast: &Ast, source: &'a Source<'a>) -> Self {
        let (mut reports, mut controls) = (Vec::new(), Vec::new());
        let mut known: HashMap<_, _> = [Implicit::Micros, Implicit::Cwnd, Implicit::Rate]
            .map(|implicit| (format!("{implicit:?}"), Reg::Implicit(implicit)))
            .into();
        let prims = PRIMITIVES.iter().zip(0..);
        known.extend(prims.map(|(prim, i)| (prim.name.to_string(), Reg::Prim(i))));
        for decl in ast.fields.iter().chain(&ast.decls) {
            let (is_bool, init) = match decl.init {
                Literal::Num(n) => (false, n),
                Literal::Bool(b) => (true, u64::from(b)),
            };
            let field = decl.name.strip_prefix("Report.");
            let name = field.unwrap_or(&decl.name).to_string();
            let register = Register { name, is_bool, volatile: decl.volatile, init };
            let (file, reg): (_, fn(u8) -> Reg) =
                if field.is_some() { (&mut reports, Reg::Report) } else { (&mut controls, Reg::Control) };
            known.insert(decl.name.clone(), reg(file.len() as u8));
            file.push(register);
        }
        Flat { source, known, reports, controls, locals: vec![], instrs: vec![], n_tmps: 0, line: 0 }
    }

    fn begin(&mut self, at: Pos) {
        self.n_tmps = 0;
        self.line = self.source.line(at.line);
    }

    fn push(&mut self, op: Op, res: Reg, left: Reg, right: Reg) {
        self.instrs.push(Instr { op, res, left, right, line: self.line });
    }

    fn set(&mut self, implicit: Implicit, to: Reg) {
        let reg = Reg::Implicit(implicit);
        self.push(Op::Bind, reg, reg, to);
    }

    fn condition(&mut self, flag: &Expr) -> Result<(), Problem> {
        self.begin(flag.at);
        let value = self.expr(flag);
        match self.instrs.last_mut() {
            Some(last) if matches!(value, Reg::Tmp(_)) => last.res = Reg::Implicit(Implicit::EventFlag),
            _ => self.set(Implicit::EventFlag, value),
        }
        self.within_limit(flag.at)
    }

    fn statement(&mut self, statement: &Statement, at: Pos) -> Result<(), Problem> {
        self.begin(at);
        match statement {
            Statement::Report => self.set(Implicit::ShouldReport, Reg::Imm(1)),
            Statement::Fallthrough => self.set(Implicit::ShouldContinue, Reg::Imm(1)),
            Statement::Expr(expr) => {
                self.expr(expr);
            }
        }
        self.within_limit(at)
    }

    fn within_limit(&self, at: Pos) -> Result<(), Problem> {
        if self.instrs.len() <= MAX_INSTRS {
            return Ok(());
        }
        Err(Problem::new(
            "lang.limit",
            at,
            format!("more than {MAX_INSTRS} instructions"),
            "a fold runs on every ACK; its length is limited",
            "move work into the algorithm, or share results through registers",
        ))
    }

    /// Appends the code of an expression; returns the place of its value.
    fn expr(&mut self, expr: &Expr) -> Reg {
        match &expr.kind {
            ExprKind::Literal(Literal::Num(n)) => Reg::Imm(*n),
            ExprKind::Literal(Literal::Bool(b)) => Reg::Imm(u64::from(*b)),
            ExprKind::Name(name) => self.name(name),
            ExprKind::Apply { operator: Operator::Bind, operands, .. } => {
                let [target, source] = &**operands;
                let res = self.expr(target);
                self.bind(res, source);
                res
            }
            ExprKind::Apply { op, operands, .. } => {
                let [left, right] = [0, 1].map(|i| self.expr(&operands[i]));
                let res = Reg::Tmp(self.n_tmps);
                self.n_tmps += 1;
                self.push(*op, res, left, right);
                res
            }
        }
    }

    /// Appends the code that writes `source` to `res`; `if`, `!if` and `ewma` write themselves.
    fn bind(&mut self, res: Reg, source: &Expr) {
        if let ExprKind::Apply { op, operator: Operator::Stateful, operands, .. } = &source.kind {
            let [left, right] = [0, 1].map(|i| self.expr(&operands[i]));
            self.push(*op, res, left, right);
        } else {
            let value = self.expr(source);
            self.push(Op::Bind, res, res, value);
        }
    }

    /// Returns the register of this name; an unknown name is a bind's target and becomes a local register.
    fn name(&mut self, name: &str) -> Reg {
        if let Some(reg) = self.known.get(name) {
            return *reg;
        }
        let reg = Reg::Local(self.locals.len() as u8);
        self.locals.push(name.to_string());
        self.known.insert(name.to_string(), reg);
        reg
    }
}
