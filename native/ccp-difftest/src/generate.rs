//! Random programs as source text, well typed, with every operator in every spelling.

use ccp_lang::prims::{N_PORTUS_PRIMS, PRIMITIVES};

use crate::reference;
use crate::rng::Rng;

#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub max_registers: usize,
    pub max_locals: usize,
    /// Maximum operators in one expression: each needs a temporary.
    pub max_operators: usize,
    pub max_statements: usize,
    pub n_prims: usize,
    /// Bits of the largest constant.
    pub constant_bits: u32,
    pub comments: bool,
}

/// What libccp can run; the caller counts instructions.
pub const FOR_LIBCCP: Size = Size {
    max_registers: 12,
    max_locals: reference::MAX_LOCALS,
    max_operators: reference::MAX_TMPS,
    max_statements: 20,
    n_prims: N_PORTUS_PRIMS,
    constant_bits: 64,
    comments: true,
};

/// What portus can compile and send, and libccp can run.
pub const FOR_PORTUS: Size = Size { max_locals: 6, constant_bits: 31, comments: false, ..FOR_LIBCCP };

/// Exceeds libccp's limits in each way.
pub const WIDE: Size = Size {
    max_registers: 64,
    max_locals: 64,
    max_operators: 40,
    max_statements: 40,
    n_prims: PRIMITIVES.len(),
    constant_bits: 64,
    comments: true,
};

/// As [`WIDE`], with some hundreds of instructions.
pub const HUGE: Size = Size { max_operators: 90, max_statements: 120, ..WIDE };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Num,
    Bool,
}

#[derive(Clone, Debug)]
struct Name {
    text: String,
    kind: Kind,
}

/// Whether a program and its inputs provoke errors. Most programs should complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temper {
    /// Numbers stay small, differences and quotients are guarded.
    Calm,
    Wild,
}

impl Temper {
    pub fn random(rng: &mut Rng) -> Self {
        if rng.chance(70) { Temper::Calm } else { Temper::Wild }
    }

    /// Number of bits that a number may have, of `bits`.
    pub fn bits(self, bits: u32) -> u32 {
        match self {
            Temper::Calm => bits.min(24),
            Temper::Wild => bits,
        }
    }

    /// Percentage of operations that are guarded against errors.
    fn guarded(self) -> usize {
        match self {
            Temper::Calm => 99,
            Temper::Wild => 60,
        }
    }
}

pub fn program(rng: &mut Rng, size: &Size, temper: Temper) -> String {
    let mut generator = Generator {
        rng,
        size,
        temper,
        text: String::new(),
        declared: Vec::new(),
        locals: Vec::new(),
        n_new_locals: 0,
        operators_left: 0,
    };
    generator.program();
    generator.text
}

struct Generator<'a> {
    rng: &'a mut Rng,
    size: &'a Size,
    temper: Temper,
    text: String,
    declared: Vec<Name>,
    locals: Vec<Name>,
    n_new_locals: usize,
    operators_left: usize,
}

const ARITHMETIC: [&str; 13] =
    ["+", "add", "-", "sub", "*", "mul", "/", "div", "max", "max", "min", "min", "wrapped_max"];
const COMPARE: [&str; 6] = ["==", "eq", ">", "gt", "<", "lt"];
const LOGIC: [&str; 4] = ["&&", "and", "||", "or"];
const BIND: [&str; 2] = [":=", "bind"];

impl Generator<'_> {
    fn put(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn blank(&mut self) {
        let blank = match self.rng.below(40) {
            0 => "\n",
            1 => " \t ",
            2 if self.size.comments => " # a comment (with a parenthesis\n",
            _ => " ",
        };
        self.put(blank);
    }

    fn program(&mut self) {
        self.put("(def");
        let n_reports = self.rng.between(1, self.size.max_registers);
        let n_controls = self.rng.between(0, self.size.max_registers);
        self.blank();
        self.put("(Report");
        for i in 0..n_reports {
            self.declaration(&format!("r{i}"), "Report.");
        }
        self.put(")");
        for i in 0..n_controls {
            self.declaration(&format!("c{i}"), "");
        }
        self.put(")\n");
        let n_statements = self.rng.between(1, self.size.max_statements);
        let n_clauses = self.rng.between(1, n_statements.min(6));
        for _ in 0..n_clauses {
            self.clause(n_statements.div_ceil(n_clauses));
        }
    }

    fn declaration(&mut self, name: &str, prefix: &str) {
        self.blank();
        self.put("(");
        if self.rng.chance(50) {
            self.put("volatile ");
        }
        let kind = if self.rng.chance(25) { Kind::Bool } else { Kind::Num };
        self.put(name);
        self.blank();
        match kind {
            Kind::Num => self.constant(true),
            Kind::Bool => self.flag(),
        }
        self.put(")");
        self.declared.push(Name { text: format!("{prefix}{name}"), kind });
    }

    fn clause(&mut self, n_statements: usize) {
        self.put("(when");
        self.blank();
        self.operators_left = self.size.max_operators;
        match self.rng.below(10) {
            0..=3 => self.put("true"),
            4 => self.put("false"),
            _ => self.condition(),
        }
        let report_at = if self.rng.chance(35) { self.rng.below(n_statements) } else { n_statements };
        for i in 0..n_statements {
            self.put("\n  ");
            self.statement();
            if i == report_at {
                self.put("\n  (report)");
            }
        }
        if self.rng.chance(60) {
            self.put("\n  (fallthrough)");
        }
        self.put(")\n");
    }

    /// An operator that yields a flag: portus accepts no register as a condition.
    fn condition(&mut self) {
        self.operators_left -= 1;
        if self.rng.chance(60) {
            self.apply(&COMPARE, Kind::Num);
        } else {
            self.apply(&LOGIC, Kind::Bool);
        }
    }

    fn statement(&mut self) {
        self.operators_left = self.size.max_operators;
        match self.rng.below(20) {
            // Operators that work on a declared register.
            0..=5 => {
                let target = self.rng.pick(&self.declared).text.clone();
                self.open_bind(&target);
                match self.rng.below(5) {
                    0 | 1 => {
                        self.put("(ewma ");
                        if self.rng.chance(80) {
                            let tenths = self.rng.between(0, 12);
                            self.put(&tenths.to_string());
                        } else {
                            self.num();
                        }
                        self.blank();
                        self.num();
                        self.put("))");
                    }
                    branch => {
                        self.put(if branch == 2 { "(!if " } else { "(if " });
                        // Any number counts as true in the language.
                        if self.rng.chance(85) {
                            self.bool()
                        } else {
                            self.num()
                        }
                        self.blank();
                        if self.rng.chance(80) {
                            self.num()
                        } else {
                            self.bool()
                        }
                        self.put("))");
                    }
                }
            }
            6 => {
                let target = *self.rng.pick(&["Micros", "Cwnd", "Rate", "Micros"]);
                self.open_bind(target);
                self.num();
                self.put(")");
            }
            // Binds ignore types.
            7 => {
                let target = self.rng.pick(&self.declared).text.clone();
                self.open_bind(&target);
                if self.rng.chance(50) {
                    self.num()
                } else {
                    self.bool()
                }
                self.put(")");
            }
            8 => self.num(),
            9..=11 => self.bind_local(),
            // Typical for folds: sums and extremes over earlier values.
            12..=14 => {
                let nums: Vec<String> = self.named(Kind::Num);
                if nums.is_empty() {
                    return self.bind_local();
                }
                let target = self.rng.pick(&nums).clone();
                self.open_bind(&target);
                let op = *self.rng.pick(&["+", "max", "min", "wrapped_max"]);
                self.put(&format!("({op} {target} "));
                self.operators_left -= 1;
                self.num();
                self.put("))");
            }
            _ => {
                let kind = if self.rng.chance(70) { Kind::Num } else { Kind::Bool };
                self.bind_declared(kind);
            }
        }
    }

    fn open_bind(&mut self, target: &str) {
        let bind = *self.rng.pick(&BIND);
        self.put(&format!("({bind} {target}"));
        self.blank();
    }

    fn named(&self, kind: Kind) -> Vec<String> {
        self.declared.iter().filter(|n| n.kind == kind).map(|n| n.text.clone()).collect()
    }

    fn bind_declared(&mut self, kind: Kind) {
        let targets = self.named(kind);
        if targets.is_empty() {
            return self.bind_local();
        }
        let target = self.rng.pick(&targets).clone();
        self.open_bind(&target);
        self.value(kind);
        self.put(")");
    }

    /// Binds a local register, a new one if there is room.
    fn bind_local(&mut self) {
        let new = self.locals.is_empty() || self.n_new_locals < self.size.max_locals && self.rng.chance(40);
        if new {
            let kind = if self.rng.chance(75) { Kind::Num } else { Kind::Bool };
            // portus knows the name from here on, although the bind has not written to it yet.
            let text = format!("l{}", self.n_new_locals);
            self.n_new_locals += 1;
            self.open_bind(&text);
            self.value(kind);
            self.locals.push(Name { text, kind });
        } else {
            let Name { text, kind } = self.rng.pick(&self.locals).clone();
            self.open_bind(&text);
            self.value(kind);
        }
        self.put(")");
    }

    fn value(&mut self, kind: Kind) {
        match kind {
            Kind::Num => self.num(),
            Kind::Bool => self.bool(),
        }
    }

    fn apply(&mut self, spellings: &[&str], operands: Kind) {
        let spelling = *self.rng.pick(spellings);
        self.put(&format!("({spelling}"));
        self.blank();
        match spelling {
            "-" | "sub" if self.rng.chance(self.temper.guarded()) => {
                self.put("(max ");
                self.operators_left = self.operators_left.saturating_sub(1);
                self.num();
                let maximum = 1 << self.rng.between(3, 30);
                self.put(&format!(" {maximum})"));
                let minimum = self.rng.below(maximum);
                self.put(&format!(" {minimum}"));
            }
            "/" | "div" if self.rng.chance(self.temper.guarded()) => {
                self.num();
                let divisor = self.rng.number(20).max(1);
                self.put(&format!(" {divisor}"));
            }
            "*" | "mul" if self.rng.chance(self.temper.guarded()) => {
                let maximum = 1u64 << self.rng.between(3, 50.min(self.size.constant_bits as usize - 1));
                self.put("(min ");
                self.operators_left = self.operators_left.saturating_sub(1);
                self.num();
                let factor = self.rng.between(0, 1000);
                self.put(&format!(" {maximum}) {factor}"));
            }
            _ => {
                self.value(operands);
                self.blank();
                self.value(operands);
            }
        }
        self.put(")");
    }

    fn takes_operator(&mut self) -> bool {
        // One is reserved for the operator of a template.
        if self.operators_left < 2 || self.rng.chance(35) {
            return false;
        }
        self.operators_left -= 1;
        true
    }

    fn num(&mut self) {
        if self.takes_operator() {
            if self.rng.chance(4) {
                // A bind is also an expression.
                return self.bind_declared_num_or_constant();
            }
            return self.apply(&ARITHMETIC, Kind::Num);
        }
        match self.rng.below(10) {
            0..=2 => self.constant(false),
            3..=5 => {
                let prims = PRIMITIVES[..self.size.n_prims].iter().filter(|p| !p.is_bool).collect::<Vec<_>>();
                let name = self.rng.pick(&prims).name;
                self.put(name);
            }
            6 => {
                let name = *self.rng.pick(&["Micros", "Cwnd", "Rate"]);
                self.put(name);
            }
            _ => self.register(Kind::Num),
        }
    }

    fn bind_declared_num_or_constant(&mut self) {
        if self.named(Kind::Num).is_empty() {
            return self.constant(false);
        }
        self.bind_declared(Kind::Num);
    }

    fn bool(&mut self) {
        if self.takes_operator() {
            if self.rng.chance(60) {
                return self.apply(&COMPARE, Kind::Num);
            }
            return self.apply(&LOGIC, Kind::Bool);
        }
        match self.rng.below(10) {
            0 | 1 => self.flag(),
            2 | 3 => {
                let prims = PRIMITIVES[..self.size.n_prims].iter().filter(|p| p.is_bool).collect::<Vec<_>>();
                let name = self.rng.pick(&prims).name;
                self.put(name);
            }
            _ => self.register(Kind::Bool),
        }
    }

    /// A register declared or bound earlier, or else a constant.
    fn register(&mut self, kind: Kind) {
        let known: Vec<&Name> = self.declared.iter().chain(&self.locals).filter(|n| n.kind == kind).collect();
        if known.is_empty() {
            return self.value_constant(kind);
        }
        let name = self.rng.pick(&known).text.clone();
        self.put(&name);
    }

    fn value_constant(&mut self, kind: Kind) {
        match kind {
            Kind::Num => self.constant(false),
            Kind::Bool => self.flag(),
        }
    }

    fn flag(&mut self) {
        let flag = if self.rng.chance(50) { "true" } else { "false" };
        self.put(flag);
    }

    fn constant(&mut self, initial: bool) {
        if self.temper == Temper::Wild && self.rng.chance(5) {
            return self.put("+infinity");
        }
        let n = self.rng.number(self.temper.bits(64).min(self.size.constant_bits));
        // libccp treats this initial value as infinity.
        let n = if initial && n == reference::INFINITY { n - 1 } else { n };
        self.put(&n.to_string());
    }
}
