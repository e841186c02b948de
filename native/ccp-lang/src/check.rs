//! Checks names, types and limits: everything that portus would reject, panic on or silently get wrong.
//!
//! As in portus, a new name that is the target of a bind becomes a local register with the type of the value, and a
//! bind ignores its target's type.

use std::collections::{HashMap, HashSet};

use crate::ast::{Ast, Decl, Expr, ExprKind, Literal, Operator, Statement};
use crate::error::{Pos, Problem};
use crate::ir::{MAX_LIVE_TMPS, MAX_REGISTERS};
use crate::prims::{self, PRIMITIVES};
use crate::suggest::nearest;

/// portus counts the temporaries of an expression in 8 bits, with silent wrap-around.
const MAX_TMPS: usize = 256;

pub(crate) fn check(ast: &Ast) -> Result<(), Vec<Problem>> {
    let mut checker = Checker::default();
    checker.declarations(ast);
    for clause in &ast.clauses {
        checker.condition(&clause.flag);
        for (statement, _) in &clause.body {
            if let Statement::Expr(expr) = statement {
                checker.statement(expr);
            }
        }
    }
    checker.limits(ast);
    if checker.problems.is_empty() { Ok(()) } else { Err(checker.problems) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Num,
    Bool,
    /// Already reported as an error.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Constant,
    Primitive,
    /// Local registers, Cwnd, Rate and Micros, which `if` and `ewma` cannot use.
    Plain,
    Declared,
    Tmp,
    /// None: an `if`, `!if` or `ewma` without a surrounding bind.
    Homeless(&'static str),
}

#[derive(Clone, Copy)]
struct Value {
    place: Place,
    kind: Type,
}

#[derive(Default)]
struct Cost {
    tmps: usize,
    live: usize,
    max_live: usize,
}

const OF_THE_DATAPATH: [&str; 3] = ["Flow.", "Ack.", "Int."];

fn is_of_the_datapath(name: &str) -> bool {
    OF_THE_DATAPATH.iter().any(|prefix| name.starts_with(prefix))
}

#[derive(Default)]
struct Checker {
    problems: Vec<Problem>,
    known: HashMap<String, Value>,
    complained: HashSet<String>,
    n_locals: usize,
}

fn type_of(literal: Literal) -> Type {
    match literal {
        Literal::Num(_) => Type::Num,
        Literal::Bool(_) => Type::Bool,
    }
}

impl Checker {
    fn problem(
        &mut self,
        slug: &'static str,
        at: Pos,
        message: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.problems.push(Problem::new(slug, at, message, why, fix));
    }

    fn declarations(&mut self, ast: &Ast) {
        for name in ["Micros", "Cwnd", "Rate"] {
            self.known.insert(name.to_string(), Value { place: Place::Plain, kind: Type::Num });
        }
        for prim in &PRIMITIVES {
            let kind = if prim.is_bool { Type::Bool } else { Type::Num };
            self.known.insert(prim.name.to_string(), Value { place: Place::Primitive, kind });
        }
        for Decl { name, init, at, .. } in ast.fields.iter().chain(&ast.decls) {
            let value = Value { place: Place::Declared, kind: type_of(*init) };
            match self.known.get(name).map(|v| v.place) {
                None if is_of_the_datapath(name) => self.problem(
                    "lang.reserved_name",
                    *at,
                    format!("`{name}` cannot be declared"),
                    "names that begin with `Flow.`, `Ack.` or `Int.` belong to the datapath",
                    format!("rename it, for example `{}`", name.replacen('.', "_", 1).to_lowercase()),
                ),
                None => {
                    self.known.insert(name.clone(), value);
                }
                Some(Place::Declared) => self.problem(
                    "lang.duplicate_name",
                    *at,
                    format!("`{name}` is declared twice"),
                    "a register has one initial value",
                    "remove one of the two, or rename it",
                ),
                Some(_) => self.problem(
                    "lang.reserved_name",
                    *at,
                    format!("`{name}` cannot be declared"),
                    "every program already has it",
                    "rename the register, or remove the declaration to use the datapath's",
                ),
            }
        }
    }

    fn limits(&mut self, ast: &Ast) {
        let is_report = |d: &&Decl| d.name.starts_with("Report.");
        let decls = || ast.fields.iter().chain(&ast.decls);
        let over = |registers: Vec<&Decl>| registers.get(MAX_REGISTERS).map(|d| d.at);
        for (kind, at) in [
            ("report", over(decls().filter(is_report).collect())),
            ("control", over(decls().filter(|d| !is_report(d)).collect())),
        ] {
            let Some(at) = at else { continue };
            self.problem(
                "lang.limit",
                at,
                format!("more than {MAX_REGISTERS} {kind} registers"),
                "a flow's slot in the kernel has no room for more",
                "compute derived values in the algorithm",
            );
        }
    }

    fn condition(&mut self, expr: &Expr) {
        if let ExprKind::Literal(Literal::Bool(_)) = expr.kind {
            return;
        }
        let value = self.whole(expr);
        let fix = match (&expr.kind, value.kind) {
            _ if matches!(value.place, Place::Homeless(_)) => {
                "bind it to a register, and compare that".to_string()
            }
            (_, Type::Unknown) => return,
            (_, Type::Bool) if value.place == Place::Tmp => return,
            (ExprKind::Name(name), Type::Bool) => format!("write `(|| {name} false)`"),
            (_, Type::Num) => "compare it with something, for example `(> X 0)`".to_string(),
            (_, Type::Bool) => "make the bind an expression of the clause before".to_string(),
        };
        self.problem(
            "lang.type",
            expr.at,
            "this is not a condition",
            "a condition is true, false, a comparison, or flags joined by && or ||",
            fix,
        );
    }

    fn statement(&mut self, expr: &Expr) {
        let value = self.whole(expr);
        if let Place::Homeless(spelling) = value.place {
            self.problem(
                "lang.type",
                expr.at,
                format!("`{spelling}` has no register to work on"),
                "it uses the register that the surrounding bind names",
                format!("write `(:= REGISTER ({spelling} ...))`"),
            );
        }
    }

    /// Checks a condition or a statement, which has all intermediate results for itself.
    fn whole(&mut self, expr: &Expr) -> Value {
        let mut cost = Cost::default();
        let value = self.expr(expr, &mut cost);
        for (limit, count, what) in [
            (MAX_TMPS, cost.tmps, "operators"),
            (MAX_LIVE_TMPS, cost.max_live, "intermediate results at one time"),
        ] {
            if count > limit {
                self.problem(
                    "lang.limit",
                    expr.at,
                    format!("this expression needs {count} {what}"),
                    format!("the limit is {limit}"),
                    "bind parts of it to registers first",
                );
            }
        }
        value
    }

    fn expr(&mut self, expr: &Expr, cost: &mut Cost) -> Value {
        match &expr.kind {
            ExprKind::Literal(literal) => Value { place: Place::Constant, kind: type_of(*literal) },
            ExprKind::Name(name) => self.name(name, expr.at),
            ExprKind::Apply { spelling, operator: Operator::Bind, operands, .. } => {
                self.bind(spelling, &operands[0], &operands[1], cost)
            }
            ExprKind::Apply { spelling, operator, operands, .. } => {
                let values = [self.expr(&operands[0], cost), self.expr(&operands[1], cost)];
                let (wanted, result) = match operator {
                    Operator::Arithmetic => (Some(Type::Num), Type::Num),
                    Operator::Compare => (Some(Type::Num), Type::Bool),
                    Operator::Logic => (Some(Type::Bool), Type::Bool),
                    Operator::Stateful | Operator::Bind => (None, Type::Unknown),
                };
                for (value, operand) in values.iter().zip(operands.iter()) {
                    self.operand(spelling, *value, wanted, operand);
                }
                cost.live -= values.iter().filter(|v| v.place == Place::Tmp).count();
                if *operator == Operator::Stateful {
                    return Value { place: Place::Homeless(spelling), kind: result };
                }
                cost.tmps += 1;
                cost.live += 1;
                cost.max_live = cost.max_live.max(cost.live);
                Value { place: Place::Tmp, kind: result }
            }
        }
    }

    fn operand(&mut self, spelling: &str, value: Value, wanted: Option<Type>, operand: &Expr) {
        if let Place::Homeless(inner) = value.place {
            self.problem(
                "lang.type",
                operand.at,
                format!("`{inner}` inside `{spelling}`"),
                format!("`{inner}` has no value of its own: it uses the register of a surrounding bind"),
                format!("bind it to a register first: `(:= REGISTER ({inner} ...))`"),
            );
            return;
        }
        let (needed, fix) = match wanted {
            Some(Type::Num) => ("two numbers", "convert the flag: `(:= N 0)`, then `(:= N (if FLAG 1))`"),
            Some(_) => ("two flags", "compare it with something, for example `(> X 0)`"),
            None => return,
        };
        if value.kind != Type::Unknown && Some(value.kind) != wanted {
            let got = if value.kind == Type::Num { "a number" } else { "a flag" };
            let message = format!("`{spelling}` takes {needed}, but this is {got}");
            self.problem("lang.type", operand.at, message, "flags and numbers cannot be mixed", fix);
        }
    }

    fn bind(&mut self, spelling: &str, target: &Expr, source: &Expr, cost: &mut Cost) -> Value {
        // Only a new name is bound before it exists; in all other cases portus evaluates the left side first.
        let new_local = match &target.kind {
            ExprKind::Name(name) if !self.known.contains_key(name) => self.new_local(name, target.at),
            _ => None,
        };
        let into = match (&new_local, &target.kind) {
            (None, ExprKind::Name(name)) if !self.known.contains_key(name) => {
                Value { place: Place::Plain, kind: Type::Unknown }
            }
            (None, _) => self.expr(target, cost),
            (Some(_), _) => Value { place: Place::Plain, kind: Type::Unknown },
        };
        let value = self.expr(source, cost);
        match into.place {
            Place::Constant | Place::Homeless(_) => {
                self.problem(
                    "lang.type",
                    target.at,
                    format!("`{spelling}` writes to a register, but this is not one"),
                    "the first operand of a bind is its target",
                    "write `(:= REGISTER VALUE)`",
                );
                return Value { place: Place::Plain, kind: Type::Unknown };
            }
            Place::Primitive => self.problem(
                "lang.read_only",
                target.at,
                "primitives cannot be written",
                "the datapath measures them",
                "bind to a register of the program; to control the flow, write Cwnd or Rate",
            ),
            Place::Plain | Place::Tmp if matches!(value.place, Place::Homeless(_)) => {
                let Place::Homeless(inner) = value.place else { return into };
                self.problem(
                    "lang.type",
                    target.at,
                    format!("`{inner}` cannot use this register"),
                    format!("`{inner}` uses registers that are declared in `(def ...)`"),
                    format!("declare one, write `(:= REGISTER ({inner} ...))`, and bind that here"),
                );
            }
            Place::Plain | Place::Tmp | Place::Declared => {}
        }
        cost.live -= (value.place == Place::Tmp) as usize;
        let Some(name) = new_local else { return into };
        let local = Value { place: Place::Plain, kind: value.kind };
        // The source may have bound the same name.
        if self.known.insert(name, local).is_none() {
            self.n_locals += 1;
        }
        local
    }

    /// Returns the name if it can become a local register.
    fn new_local(&mut self, name: &str, at: Pos) -> Option<String> {
        if name.starts_with("Report.") || is_of_the_datapath(name) {
            self.unknown(name, at);
            return None;
        }
        if self.n_locals == MAX_REGISTERS && self.complained.insert("local".into()) {
            self.problem(
                "lang.limit",
                at,
                format!("more than {MAX_REGISTERS} local registers"),
                "a flow's slot in the kernel has no room for more",
                "reuse registers for intermediate results",
            );
        }
        Some(name.to_string())
    }

    fn name(&mut self, name: &str, at: Pos) -> Value {
        if let Some(value) = self.known.get(name) {
            return *value;
        }
        self.unknown(name, at);
        Value { place: Place::Plain, kind: Type::Unknown }
    }

    fn unknown(&mut self, name: &str, at: Pos) {
        if !self.complained.insert(name.to_string()) {
            return;
        }
        let known = || self.known.keys().map(String::as_str);
        let near = nearest(name, known());
        let listed = |prefix: &str| {
            let mut names: Vec<&str> = known().filter(|n| n.starts_with(prefix)).collect();
            names.sort_unstable();
            names.join(" ")
        };
        let (slug, message, why, otherwise) = if let Some(field) = name.strip_prefix("Report.") {
            let fields = listed("Report.");
            let why = if fields.is_empty() {
                "the program declares no report registers".to_string()
            } else {
                format!("the report has {fields}")
            };
            let declare = format!("declare it: `(def (Report ({field} 0)) ...)`");
            ("lang.unknown_field", format!("no report register `{name}`"), why, declare)
        } else if let Some(prefix) = OF_THE_DATAPATH.into_iter().find(|p| name.starts_with(p)) {
            let why = match near.and_then(prims::find) {
                Some(i) if !PRIMITIVES[i as usize].unit.is_empty() => {
                    let prim = PRIMITIVES[i as usize];
                    format!("this datapath provides {} [{}]", prim.name, prim.unit)
                }
                _ => "this datapath does not provide this primitive".to_string(),
            };
            let all = format!("known are {}", listed(prefix));
            ("lang.unknown_field", format!("no field `{name}`"), why, all)
        } else {
            let why = "it is neither declared nor bound before this read".to_string();
            let declare = format!("declare it: `(def ({name} 0) ...)`");
            ("lang.unknown_name", format!("no register `{name}`"), why, declare)
        };
        let fix = near.map_or(otherwise, |near| format!("did you mean `{near}`?"));
        self.problem(slug, at, message, why, fix);
    }
}
