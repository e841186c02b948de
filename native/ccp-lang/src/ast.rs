//! The grammar of the language: lists to declarations, clauses and expressions.

use crate::error::{Pos, Problem};
use crate::ir::Op;
use crate::read::Form;
use crate::suggest::nearest;

/// An operator's spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Arithmetic,
    Compare,
    Logic,
    Bind,
    /// `if`, `!if` and `ewma`: they use the register that the surrounding bind names.
    Stateful,
}

/// All spellings of operators that portus accepts; several may mean the same. Flags are 0 and 1, or more
/// where `||` adds them.
const OPERATORS: [(&str, Operator, Op); 26] = [
    ("+", Operator::Arithmetic, Op::Add),
    ("add", Operator::Arithmetic, Op::Add),
    ("-", Operator::Arithmetic, Op::Sub),
    ("sub", Operator::Arithmetic, Op::Sub),
    ("*", Operator::Arithmetic, Op::Mul),
    ("mul", Operator::Arithmetic, Op::Mul),
    ("/", Operator::Arithmetic, Op::Div),
    ("div", Operator::Arithmetic, Op::Div),
    ("max", Operator::Arithmetic, Op::Max),
    ("min", Operator::Arithmetic, Op::Min),
    ("wrapped_max", Operator::Arithmetic, Op::MaxWrap),
    ("==", Operator::Compare, Op::Equiv),
    ("eq", Operator::Compare, Op::Equiv),
    (">", Operator::Compare, Op::Gt),
    ("gt", Operator::Compare, Op::Gt),
    ("<", Operator::Compare, Op::Lt),
    ("lt", Operator::Compare, Op::Lt),
    ("&&", Operator::Logic, Op::Mul),
    ("and", Operator::Logic, Op::Mul),
    ("||", Operator::Logic, Op::Add),
    ("or", Operator::Logic, Op::Add),
    (":=", Operator::Bind, Op::Bind),
    ("bind", Operator::Bind, Op::Bind),
    ("if", Operator::Stateful, Op::If),
    ("!if", Operator::Stateful, Op::NotIf),
    ("ewma", Operator::Stateful, Op::Ewma),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Literal {
    Num(u64),
    Bool(bool),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expr {
    pub kind: ExprKind,
    pub at: Pos,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExprKind {
    Literal(Literal),
    Name(String),
    Apply { spelling: &'static str, operator: Operator, op: Op, operands: Box<[Expr; 2]> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Statement {
    Report,
    Fallthrough,
    Expr(Expr),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decl {
    /// Including `Report.` for report registers.
    pub name: String,
    pub volatile: bool,
    pub init: Literal,
    pub at: Pos,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clause {
    pub flag: Expr,
    pub body: Vec<(Statement, Pos)>,
    pub at: Pos,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ast {
    pub fields: Vec<Decl>,
    pub decls: Vec<Decl>,
    pub clauses: Vec<Clause>,
}

/// Returns the program in `forms`, or all its grammar errors.
pub(crate) fn parse(forms: &[Form]) -> Result<Ast, Vec<Problem>> {
    let mut parser = Parser::default();
    let ast = parser.program(forms);
    if parser.problems.is_empty() { Ok(ast) } else { Err(parser.problems) }
}

/// Returns why `name` cannot be the name of a register, and the fix.
fn misread(name: &str) -> Option<(String, String)> {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
    if !name.chars().all(legal) {
        return Some((
            "names are letters, digits, `.` and `_`".to_string(),
            "rename it; an operator comes first in its list, followed by a space".to_string(),
        ));
    }
    if name.starts_with("__") {
        return Some(("names that begin with `__` belong to the compiler".into(), "rename it".into()));
    }
    let prefix = ["true", "false"].into_iter().find(|p| name.starts_with(p))?;
    Some((after_prefix(name, prefix), "rename it".into()))
}

/// Describes how portus misreads a name that begins with a word of the language.
fn after_prefix(name: &str, prefix: &str) -> String {
    format!("portus reads `{prefix}` and then `{}`", &name[prefix.len()..])
}

#[derive(Default)]
struct Parser {
    problems: Vec<Problem>,
}

impl Parser {
    fn problem(&mut self, at: Pos, message: impl Into<String>, why: &str, fix: impl Into<String>) {
        self.problems.push(Problem::new("lang.syntax", at, message, why, fix));
    }

    fn program(&mut self, forms: &[Form]) -> Ast {
        let mut ast = Ast::default();
        let shape = "a program is `(def ...)` followed by one or more `(when CONDITION ...)`";
        let start = forms.first().map_or(Pos { line: 1, column: 1 }, Form::at);
        let mut rest = forms;
        match forms.first() {
            Some(Form::List(items, _)) if items.first().and_then(Form::atom) == Some("def") => {
                self.definitions(&items[1..], &mut ast);
                rest = &forms[1..];
            }
            _ => {
                self.problem(start, "the program does not begin with `(def ...)`", shape, "put `(def)` first")
            }
        }
        for form in rest {
            match form {
                Form::List(items, at) if items.first().and_then(Form::atom) == Some("when") => {
                    ast.clauses.extend(self.clause(&items[1..], *at));
                }
                other => {
                    let message = "only `(when CONDITION ...)` is allowed here";
                    self.problem(other.at(), message, shape, "put this into the body of a `when`");
                }
            }
        }
        if ast.clauses.is_empty() && self.problems.is_empty() {
            self.problem(start, "the program has no `when`", shape, "add `(when true ...)`");
        }
        ast
    }

    fn definitions(&mut self, items: &[Form], ast: &mut Ast) {
        let mut report_seen = false;
        for item in items {
            let report = match item {
                Form::List(inner, at) if inner.first().and_then(Form::atom) == Some("Report") => {
                    Some((inner, *at))
                }
                _ => None,
            };
            let Some((inner, at)) = report else {
                ast.decls.extend(self.declaration(item, ""));
                continue;
            };
            if report_seen {
                self.problem(at, "a second `(Report ...)`", "a program has one report", "merge the two");
            } else if inner.len() == 1 {
                self.problem(
                    at,
                    "`(Report)` has no fields",
                    "a report carries at least one register",
                    "declare one, for example `(Report (volatile acked 0))`, or remove it",
                );
            }
            report_seen = true;
            for field in &inner[1..] {
                ast.fields.extend(self.declaration(field, "Report."));
            }
        }
    }

    fn declaration(&mut self, form: &Form, prefix: &str) -> Option<Decl> {
        const SHAPE: &str = "a declaration is `(NAME VALUE)` or `(volatile NAME VALUE)`";
        const EXAMPLE: &str = "write, for example, `(acked 0)`";
        let at = form.at();
        let (volatile, name, value) = match form {
            Form::List(items, _) => match items.as_slice() {
                [name, value] => (false, name, value),
                [word, name, value] if word.atom() == Some("volatile") => (true, name, value),
                _ => {
                    self.problem(at, "this is not a declaration", SHAPE, EXAMPLE);
                    return None;
                }
            },
            Form::Atom(text, _) => {
                self.problem(at, format!("`{text}` is not a declaration"), SHAPE, EXAMPLE);
                return None;
            }
        };
        let (Some(name_text), Some(value_text)) = (name.atom(), value.atom()) else {
            self.problem(at, "this is not a declaration", SHAPE, EXAMPLE);
            return None;
        };
        let init = match self.atom(value_text, value.at())? {
            ExprKind::Literal(literal) => literal,
            _ => {
                self.problem(
                    value.at(),
                    format!("`{value_text}` is not an initial value"),
                    "the initial value of a register is a constant",
                    "write a number, +infinity, true or false",
                );
                return None;
            }
        };
        if name_text.starts_with("volatile") {
            let why = after_prefix(name_text, "volatile");
            self.problem(name.at(), format!("`{name_text}` cannot be declared"), &why, "rename it");
            return None;
        }
        match self.atom(name_text, name.at())? {
            ExprKind::Name(name_text) => {
                Some(Decl { name: format!("{prefix}{name_text}"), volatile, init, at: name.at() })
            }
            _ => {
                self.problem(name.at(), format!("`{name_text}` is not a name"), SHAPE, EXAMPLE);
                None
            }
        }
    }

    fn clause(&mut self, items: &[Form], at: Pos) -> Option<Clause> {
        let [condition, body @ ..] = items else {
            self.problem(
                at,
                "`when` without a condition",
                "a clause is `(when CONDITION EXPRESSION ...)`",
                "write `(when true ...)` for every ACK",
            );
            return None;
        };
        let flag = self.expr(condition);
        if body.is_empty() {
            self.problem(
                at,
                "`when` without a body",
                "a clause is `(when CONDITION EXPRESSION ...)`",
                "add an expression, or remove the clause",
            );
        }
        let mut statements = Vec::new();
        for form in body {
            let statement = match command(form) {
                Some("report") => Some(Statement::Report),
                Some(_) => Some(Statement::Fallthrough),
                None => self.expr(form).map(Statement::Expr),
            };
            statements.extend(statement.map(|s| (s, form.at())));
        }
        Some(Clause { flag: flag?, body: statements, at })
    }

    fn expr(&mut self, form: &Form) -> Option<Expr> {
        let at = form.at();
        if let Some(word) = command(form) {
            self.problem(
                at,
                format!("`({word})` is not allowed inside an expression"),
                "it would run regardless of the expression's value",
                format!("put `({word})` directly into the body of a `when` with that condition"),
            );
            return None;
        }
        match form {
            Form::Atom(text, _) => Some(Expr { kind: self.atom(text, at)?, at }),
            Form::List(items, _) => self.apply(items, at),
        }
    }

    fn apply(&mut self, items: &[Form], at: Pos) -> Option<Expr> {
        let Some(head) = items.first().and_then(Form::atom) else {
            self.problem(
                at,
                "this list does not begin with an operator",
                "an expression is `(OPERATOR OPERAND OPERAND)`",
                "write the operator first, or remove the parentheses",
            );
            return None;
        };
        let Some(&(spelling, operator, op)) = OPERATORS.iter().find(|(spelling, ..)| *spelling == head)
        else {
            self.unknown_operator(head, items.len(), items[0].at());
            return None;
        };
        let operands: Vec<Option<Expr>> = items[1..].iter().map(|form| self.expr(form)).collect();
        let Ok([left, right]) = <[Option<Expr>; 2]>::try_from(operands) else {
            self.problem(
                at,
                format!("`{head}` has {} operands", items.len() - 1),
                "every operator takes two operands",
                if items.len() > 3 {
                    format!("nest: `({head} A ({head} B C))`")
                } else {
                    format!("write `({head} A B)`")
                },
            );
            return None;
        };
        let operands = Box::new([left?, right?]);
        Some(Expr { kind: ExprKind::Apply { spelling, operator, op, operands }, at })
    }

    fn unknown_operator(&mut self, head: &str, n_items: usize, at: Pos) {
        let glued =
            OPERATORS.iter().find(|(s, ..)| !s.as_bytes()[0].is_ascii_alphabetic() && head.starts_with(s));
        let fix = if n_items == 1 {
            format!("remove the parentheses around `{head}` if it is a register")
        } else if let Some((spelling, ..)) = glued {
            format!("put a space after `{spelling}`")
        } else if let Some(near) = nearest(head, OPERATORS.iter().map(|(s, ..)| *s)) {
            format!("did you mean `{near}`?")
        } else {
            "the operators are + - * / max min wrapped_max == > < && || := if !if ewma".to_string()
        };
        self.problem(at, format!("there is no operator `{head}`"), "a list begins with an operator", fix);
    }

    fn atom(&mut self, text: &str, at: Pos) -> Option<ExprKind> {
        let literal = match text {
            "true" => Literal::Bool(true),
            "false" => Literal::Bool(false),
            "+infinity" => Literal::Num(u64::MAX),
            _ => {
                let digits = text.trim_start_matches(['-', '+']);
                if digits.starts_with(|c: char| c.is_ascii_digit()) {
                    return self.number(text, at).map(|n| ExprKind::Literal(Literal::Num(n)));
                }
                if let Some((why, fix)) = misread(text) {
                    self.problem(at, format!("`{text}` is not a name"), &why, fix);
                    return None;
                }
                return Some(ExprKind::Name(text.to_string()));
            }
        };
        Some(ExprKind::Literal(literal))
    }

    fn number(&mut self, text: &str, at: Pos) -> Option<u64> {
        let all_digits = text.bytes().all(|b| b.is_ascii_digit());
        if let (true, Ok(n)) = (all_digits, text.parse()) {
            return Some(n);
        }
        let (why, fix) = if all_digits {
            ("registers have 64 bits", "the largest number is 18446744073709551615, or write +infinity")
        } else if text.starts_with('-') {
            ("registers are unsigned", "subtract with `-`, or rearrange the comparison")
        } else if text.contains('.') {
            (
                "registers hold integers",
                "use a scaled factor: `(/ (* x 7) 10)` for 0.7 x; ewma takes its weight in tenths",
            )
        } else {
            (
                "a number consists of decimal digits, and a name does not begin with a digit",
                "write digits only, or rename it",
            )
        };
        self.problems.push(Problem::new("lang.number", at, format!("`{text}` is not a number"), why, fix));
        None
    }
}

fn command(form: &Form) -> Option<&str> {
    match form {
        Form::List(items, _) if items.len() == 1 => {
            items[0].atom().filter(|word| matches!(*word, "report" | "fallthrough"))
        }
        _ => None,
    }
}
