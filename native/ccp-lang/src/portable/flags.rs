//! Conditions with fewer instructions.
//!
//! If a number is only tested, any nonzero number will do. So `x > 0` is `x`; "both" is the smaller of two, "one of
//! them" the larger; and "not x, but f" is `x < f` for a flag f of 0 or 1. Of a condition the cheapest form is
//! computed: a deciding number or a flag, of itself or of its opposite.

mod chosen;

use std::collections::{HashMap, HashSet};

use crate::ir::{Implicit, Instr, Op, Reg};
use crate::prims::PRIMITIVES;

/// Forms of a condition: not 0 where it holds, the same for its opposite, 1 where it holds, or where its
/// opposite holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Form {
    Decides,
    OppositeDecides,
    Flag,
    OppositeFlag,
}

use Form::{Decides, Flag, OppositeDecides, OppositeFlag};

impl Form {
    /// Each may be computed from earlier ones.
    const ALL: [Form; 4] = [Flag, Decides, OppositeFlag, OppositeDecides];

    fn opposite(self) -> Self {
        match self {
            Decides => OppositeDecides,
            OppositeDecides => Decides,
            Flag => OppositeFlag,
            OppositeFlag => Flag,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Literal {
    node: usize,
    negated: bool,
}

impl Literal {
    fn not(self) -> Self {
        Literal { negated: !self.negated, ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Flag(Reg),
    NonZero(Reg),
    Less(Reg, Reg),
    Equal(Reg, Reg),
    Both(Literal, Literal),
}

struct Node {
    kind: Kind,
    /// The instruction before which it can be computed.
    at: usize,
    last_use: usize,
    /// Maximum of the original number.
    maximum: u64,
    costs: [usize; 4],
}

#[derive(Clone, Copy, Debug)]
enum Recipe {
    Lifecycle(Reg),
    As(Form),
    One(Op, Operand, Operand),
    /// `a` is not below `b`: it is the larger of both.
    NotLess(Reg, Reg),
}

#[derive(Clone, Copy, Debug)]
enum Operand {
    Reg(Reg),
    Form(usize, Form),
}

/// Returns a run with fewer instructions; it must not write an intermediate result twice.
pub fn decided(run: &[Instr], is_flag: &impl Fn(Reg) -> bool) -> Vec<Instr> {
    let mut net = Net { run, is_flag, nodes: Vec::new(), of_tmp: HashMap::new(), known: HashMap::new() };
    net.read();
    net.keep_what_escapes();
    net.price();
    let wanted = net.choose();
    net.written(&wanted).unwrap_or_else(|| run.to_vec())
}

struct Net<'a, F> {
    run: &'a [Instr],
    is_flag: &'a F,
    nodes: Vec<Node>,
    of_tmp: HashMap<Reg, Literal>,
    /// Conditions of registers at some time: by the number of writes to them.
    known: HashMap<(Kind, [usize; 2]), usize>,
}

/// Effects of the chosen conditions on each instruction.
#[derive(Default)]
struct Wanted {
    recipes: HashMap<(usize, Form), Recipe>,
    /// Whether an `if` becomes its opposite.
    turned: HashSet<usize>,
}

impl<F: Fn(Reg) -> bool> Net<'_, F> {
    fn writes_before(&self, reg: Reg, at: usize) -> usize {
        if matches!(reg, Reg::Imm(_) | Reg::Prim(_) | Reg::Tmp(_)) {
            return 0;
        }
        self.run[..at].iter().filter(|instr| instr.res == reg).count()
    }

    fn node(&mut self, kind: Kind, at: usize, maximum: u64) -> usize {
        let versions = match kind {
            Kind::Flag(a) | Kind::NonZero(a) => [self.writes_before(a, at), 0],
            Kind::Less(a, b) | Kind::Equal(a, b) => [self.writes_before(a, at), self.writes_before(b, at)],
            Kind::Both(..) => [0, 0],
        };
        let nodes = &mut self.nodes;
        *self.known.entry((kind, versions)).or_insert_with(|| {
            nodes.push(Node { kind, at, last_use: at, maximum, costs: [0; 4] });
            nodes.len() - 1
        })
    }

    fn plain(&mut self, kind: Kind, at: usize) -> Literal {
        Literal { node: self.node(kind, at, 1), negated: false }
    }

    fn read(&mut self) {
        for (at, instr) in self.run.iter().enumerate() {
            if let Some(literal) = self.condition(at, instr) {
                self.of_tmp.insert(instr.res, literal);
            }
        }
    }

    fn condition(&mut self, at: usize, instr: &Instr) -> Option<Literal> {
        if !matches!(instr.res, Reg::Tmp(_) | Reg::Implicit(Implicit::EventFlag)) {
            return None;
        }
        let (left, right) = (instr.left, instr.right);
        let compares = matches!(instr.op, Op::Lt | Op::Gt | Op::Equiv);
        if compares && [left, right].iter().any(|reg| self.of_tmp.contains_key(reg)) {
            return None; // its numbers are flags
        }
        match instr.op {
            Op::Lt => Some(self.less(left, right, at)),
            Op::Gt => Some(self.less(right, left, at)),
            Op::Equiv => Some(self.equal(left, right, at)),
            Op::Mul | Op::Min => self.both(left, right, at, false),
            Op::Add | Op::Max => self.both(left, right, at, true),
            _ => None,
        }
    }

    fn less(&mut self, left: Reg, right: Reg, at: usize) -> Literal {
        match (left, right) {
            (Reg::Imm(0), x) => self.plain(Kind::NonZero(x), at),
            (x, Reg::Imm(1)) => self.plain(Kind::NonZero(x), at).not(),
            (x, Reg::Imm(n)) if n > 0 => self.plain(Kind::Less(Reg::Imm(n - 1), x), at).not(),
            _ => self.plain(Kind::Less(left, right), at),
        }
    }

    fn equal(&mut self, left: Reg, right: Reg, at: usize) -> Literal {
        if let (Reg::Imm(0), x) | (x, Reg::Imm(0)) = (left, right) {
            return self.plain(Kind::NonZero(x), at).not();
        }
        for (larger, one) in [(left, right), (right, left)] {
            let Some(made) = self.run[..at].iter().position(|instr| instr.res == larger) else { continue };
            let Instr { op, left, right, .. } = self.run[made];
            let same = |reg| self.writes_before(reg, made) == self.writes_before(reg, at);
            // The larger of both, or the smaller, is one of them: that one is not below the other, or not above it.
            let other = if one == left { right } else { left };
            if matches!(larger, Reg::Tmp(_)) && [left, right].contains(&one) && same(left) && same(right) {
                match op {
                    Op::Max => return self.less(one, other, at).not(),
                    Op::Min => return self.less(other, one, at).not(),
                    _ => (),
                }
            }
        }
        self.plain(Kind::Equal(left, right), at)
    }

    /// Both conditions; with `either`, one of them.
    fn both(&mut self, left: Reg, right: Reg, at: usize, either: bool) -> Option<Literal> {
        let [left, right] = [self.literal(left, at)?, self.literal(right, at)?];
        let (a, b) = (self.nodes[left.node].maximum, self.nodes[right.node].maximum);
        let maximum = if either { a + b } else { a * b };
        if maximum > 1 << 16 {
            return None; // as numbers these might overflow
        }
        let [left, right] = if either { [left.not(), right.not()] } else { [left, right] };
        let node = self.node(Kind::Both(left, right), at, maximum);
        Some(Literal { node, negated: either })
    }

    fn literal(&mut self, reg: Reg, at: usize) -> Option<Literal> {
        if let Some(literal) = self.of_tmp.get(&reg) {
            return Some(*literal);
        }
        let flag = match reg {
            Reg::Prim(i) => PRIMITIVES[usize::from(i)].is_bool,
            Reg::Control(_) | Reg::Local(_) => (self.is_flag)(reg),
            Reg::Tmp(_) => {
                let made = self.run.iter().find(|instr| instr.res == reg)?;
                matches!(made.op, Op::Lt | Op::Gt | Op::Equiv)
            }
            _ => false,
        };
        flag.then(|| self.plain(Kind::Flag(reg), at))
    }

    fn is_condition(&self, instr: &Instr) -> bool {
        matches!(instr.res, Reg::Tmp(_) | Reg::Implicit(Implicit::EventFlag))
            && self.of_tmp.contains_key(&instr.res)
    }

    /// Keeps intermediate results as numbers if they are used as such and are not flags.
    fn keep_what_escapes(&mut self) {
        loop {
            let mut escaped: Option<Reg> = None;
            for instr in self.run {
                let decides = self.is_condition(instr)
                    && matches!(instr.op, Op::Mul | Op::Min | Op::Add | Op::Max)
                    || matches!(instr.op, Op::If | Op::NotIf);
                let numbers = match instr.op {
                    Op::If | Op::NotIf => [instr.right; 2],
                    Op::Bind if instr.res == Reg::Implicit(Implicit::EventFlag) => continue,
                    Op::Bind => [instr.right; 2],
                    _ if decides => continue,
                    _ => [instr.left, instr.right],
                };
                escaped = numbers.into_iter().find(|reg| {
                    self.of_tmp.get(reg).is_some_and(|literal| self.nodes[literal.node].maximum > 1)
                });
                if escaped.is_some() {
                    break;
                }
            }
            let Some(tmp) = escaped else { return };
            // Restart with this one and its operands as plain numbers.
            let mut numbers: HashSet<Reg> = HashSet::from([tmp]);
            for instr in self.run.iter().rev() {
                if numbers.contains(&instr.res) {
                    numbers.extend([instr.left, instr.right].iter().filter(|reg| matches!(reg, Reg::Tmp(_))));
                }
            }
            self.nodes.clear();
            self.known.clear();
            let before = std::mem::take(&mut self.of_tmp);
            for (at, instr) in self.run.iter().enumerate() {
                if before.contains_key(&instr.res)
                    && !numbers.contains(&instr.res)
                    && let Some(literal) = self.condition(at, instr)
                {
                    self.of_tmp.insert(instr.res, literal);
                }
            }
        }
    }
}
