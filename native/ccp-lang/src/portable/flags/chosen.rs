//! Selects the forms of conditions that a run computes, and how.

use std::collections::{HashMap, HashSet};

use super::Form::{Decides, Flag, OppositeDecides, OppositeFlag};
use super::{Form, Kind, Literal, Net, Node, Operand, Recipe, Wanted};
use crate::ir::{Implicit, Instr, Op, Reg};

impl<F: Fn(Reg) -> bool> Net<'_, F> {
    /// The node and form that a form of a condition stands for.
    fn form(&self, literal: Literal, form: Form) -> (usize, Form) {
        let form = if literal.negated { form.opposite() } else { form };
        let cheaper = |than| self.cost((literal.node, form)) < self.cost((literal.node, than));
        let form = match (self.nodes[literal.node].kind, form) {
            (Kind::Both(..), Decides) if cheaper(Flag) => Decides,
            (Kind::Both(..), OppositeDecides) if cheaper(OppositeFlag) => OppositeDecides,
            (Kind::NonZero(_), Decides) => Decides,
            (_, Decides | Flag) => Flag,
            (_, OppositeDecides | OppositeFlag) => OppositeFlag,
        };
        (literal.node, form)
    }

    fn cost(&self, (node, form): (usize, Form)) -> usize {
        self.nodes[node].costs[form as usize]
    }

    /// Computes the costs of all forms, in the order of the conditions.
    pub(super) fn price(&mut self) {
        for i in 0..self.run.len() {
            for reg in self.deciding(i) {
                if let Some(literal) = self.of_tmp.get(&reg).copied() {
                    self.nodes[literal.node].last_use = i;
                }
            }
        }
        for i in 0..self.nodes.len() {
            if let Kind::Both(left, right) = self.nodes[i].kind {
                let at = self.nodes[i].at;
                for literal in [left, right] {
                    let last = &mut self.nodes[literal.node].last_use;
                    *last = (*last).max(at);
                }
            }
        }
        for i in 0..self.nodes.len() {
            let mut costs = [0; 4];
            for form in Form::ALL {
                let options = self.options(i, form);
                let whole = |recipe: &Recipe| self.whole_cost(i, recipe);
                costs[form as usize] = options.iter().map(whole).min().unwrap_or(usize::MAX / 8);
                self.nodes[i].costs = costs;
            }
        }
    }

    /// Operands of an instruction that decide or are used as flags.
    fn deciding(&self, i: usize) -> [Reg; 2] {
        let instr = &self.run[i];
        if instr.op == Op::Bind { [instr.right; 2] } else { [instr.left, instr.right] }
    }

    fn whole_cost(&self, node: usize, recipe: &Recipe) -> usize {
        let operand = |one: &Operand| match *one {
            Operand::Reg(_) => 0,
            Operand::Form(node, form) => self.cost((node, form)),
        };
        match recipe {
            Recipe::Lifecycle(_) => 0,
            Recipe::As(form) => self.cost((node, *form)),
            Recipe::One(_, left, right) => 1 + operand(left) + operand(right),
            Recipe::NotLess(..) => 2,
        }
    }

    /// Whether a register keeps its value from the condition to its last use.
    fn holds(&self, node: &Node, reg: Reg) -> bool {
        self.writes_before(reg, node.at) == self.writes_before(reg, node.last_use.max(node.at))
    }

    fn options(&self, i: usize, form: Form) -> Vec<Recipe> {
        let node = &self.nodes[i];
        let zero = Operand::Reg(Reg::Imm(0));
        let of = |reg| Operand::Reg(reg);
        let mut options = Vec::new();
        match (node.kind, form) {
            (Kind::Flag(x), Flag) | (Kind::NonZero(x), Decides) if self.holds(node, x) => {
                options.push(Recipe::Lifecycle(x));
            }
            (Kind::NonZero(_), Decides) => options.push(Recipe::As(Flag)),
            (Kind::Flag(x) | Kind::NonZero(x), Flag) => options.push(Recipe::One(Op::Gt, of(x), zero)),
            (Kind::Flag(x) | Kind::NonZero(x), _) => options.push(Recipe::One(Op::Equiv, of(x), zero)),
            (Kind::Less(a, b), Flag) => options.push(Recipe::One(Op::Lt, of(a), of(b))),
            (Kind::Less(Reg::Imm(n), x), _) if n < u64::MAX => {
                options.push(Recipe::One(Op::Lt, of(x), of(Reg::Imm(n + 1))));
            }
            (Kind::Less(a, b), _) => {
                options.push(Recipe::NotLess(a, b));
                options.push(Recipe::One(Op::Equiv, Operand::Form(i, Flag), zero));
            }
            (Kind::Equal(a, b), Flag) => options.push(Recipe::One(Op::Equiv, of(a), of(b))),
            (Kind::Equal(..), _) => options.push(Recipe::One(Op::Equiv, Operand::Form(i, Flag), zero)),
            (Kind::Both(left, right), _) => {
                let one = |literal: Literal, form| {
                    let (node, form) = self.form(literal, form);
                    Operand::Form(node, form)
                };
                let flags = [
                    Recipe::One(Op::Min, one(left, Decides), one(right, Flag)),
                    Recipe::One(Op::Min, one(left, Flag), one(right, Decides)),
                    Recipe::One(Op::Lt, one(left, OppositeDecides), one(right, Flag)),
                    Recipe::One(Op::Lt, one(right, OppositeDecides), one(left, Flag)),
                ];
                let opposite = [Recipe::One(Op::Max, one(left, OppositeFlag), one(right, OppositeFlag))];
                let turned = Recipe::One(Op::Equiv, Operand::Form(i, Decides), zero);
                match form {
                    Flag => options.extend(flags),
                    Decides => {
                        options.push(Recipe::As(Flag));
                        options.push(Recipe::One(Op::Min, one(left, Decides), one(right, Decides)));
                    }
                    OppositeFlag => {
                        options.extend(opposite);
                        options.push(turned);
                    }
                    OppositeDecides => {
                        options.push(Recipe::As(OppositeFlag));
                        options.push(Recipe::One(
                            Op::Max,
                            one(left, OppositeDecides),
                            one(right, OppositeDecides),
                        ));
                    }
                }
            }
        }
        options
    }

    /// Selects the computed forms, from the last instruction to the first.
    pub(super) fn choose(&self) -> Wanted {
        let mut wanted = Wanted::default();
        let mut forms: HashSet<(usize, Form)> = HashSet::new();
        for i in (0..self.run.len()).rev() {
            let instr = &self.run[i];
            if !self.is_condition(instr) {
                let decides = matches!(instr.op, Op::If | Op::NotIf);
                if decides && let Some(literal) = self.of_tmp.get(&instr.left) {
                    let now = |form| {
                        let form = self.form(*literal, form);
                        if forms.contains(&form) { 0 } else { self.cost(form) }
                    };
                    let turned = now(OppositeDecides) < now(Decides);
                    if turned {
                        wanted.turned.insert(i);
                    }
                    forms.insert(self.form(*literal, if turned { OppositeDecides } else { Decides }));
                }
                let numbers = match instr.op {
                    Op::If | Op::NotIf | Op::Bind => [instr.right; 2],
                    _ => [instr.left, instr.right],
                };
                for literal in numbers.iter().filter_map(|reg| self.of_tmp.get(reg)) {
                    let event = instr.res == Reg::Implicit(Implicit::EventFlag);
                    forms.insert(self.form(*literal, if event { Decides } else { Flag }));
                }
            } else if instr.res == Reg::Implicit(Implicit::EventFlag) {
                forms.insert(self.form(self.of_tmp[&instr.res], Decides));
            }
            for node in (0..self.nodes.len()).rev().filter(|node| self.nodes[*node].at == i) {
                for form in Form::ALL.into_iter().rev() {
                    if !forms.contains(&(node, form)) {
                        continue;
                    }
                    let now = |recipe: &Recipe| match recipe {
                        Recipe::One(_, left, right) => {
                            let operand = |one: &Operand| match *one {
                                Operand::Form(node, form) if !forms.contains(&(node, form)) => {
                                    self.cost((node, form))
                                }
                                _ => 0,
                            };
                            1 + operand(left) + operand(right)
                        }
                        Recipe::As(other) if forms.contains(&(node, *other)) => 0,
                        other => self.whole_cost(node, other),
                    };
                    let options = self.options(node, form);
                    let recipe = *options.iter().min_by_key(|recipe| now(recipe)).expect("there is one");
                    if let Recipe::One(_, left, right) = recipe {
                        for operand in [left, right] {
                            if let Operand::Form(node, form) = operand {
                                forms.insert((node, form));
                            }
                        }
                    }
                    if let Recipe::As(other) = recipe {
                        forms.insert((node, other));
                    }
                    wanted.recipes.insert((node, form), recipe);
                }
            }
        }
        wanted
    }

    /// Returns the run; None if it has too many intermediate results.
    pub(super) fn written(&self, wanted: &Wanted) -> Option<Vec<Instr>> {
        let mut out: Vec<Instr> = Vec::new();
        let mut tmps = 0..=u8::MAX;
        let mut held: HashMap<(usize, Form), Reg> = HashMap::new();
        let mut numbers: HashMap<Reg, Reg> = HashMap::new();
        let moved = |numbers: &HashMap<Reg, Reg>, reg: Reg| numbers.get(&reg).copied().unwrap_or(reg);
        for (i, instr) in self.run.iter().enumerate() {
            for node in (0..self.nodes.len()).filter(|node| self.nodes[*node].at == i) {
                for form in Form::ALL {
                    let Some(recipe) = wanted.recipes.get(&(node, form)) else { continue };
                    let operand = |one: Operand, held: &HashMap<(usize, Form), Reg>| match one {
                        Operand::Reg(reg) => moved(&numbers, reg),
                        Operand::Form(node, form) => held[&(node, form)],
                    };
                    let mut make = |op, left, right| {
                        let res = Reg::Tmp(tmps.next()?);
                        out.push(Instr { op, res, left, right, line: instr.line });
                        Some(res)
                    };
                    let reg = match *recipe {
                        Recipe::Lifecycle(reg) => moved(&numbers, reg),
                        Recipe::As(form) => held[&(node, form)],
                        Recipe::One(op, left, right) => {
                            make(op, operand(left, &held), operand(right, &held))?
                        }
                        Recipe::NotLess(a, b) => {
                            let (a, b) = (moved(&numbers, a), moved(&numbers, b));
                            let larger = make(Op::Max, a, b)?;
                            make(Op::Equiv, larger, a)?
                        }
                    };
                    held.insert((node, form), reg);
                }
            }
            if self.is_condition(instr) {
                if instr.res == Reg::Implicit(Implicit::EventFlag) {
                    let value = held[&self.form(self.of_tmp[&instr.res], Decides)];
                    out.push(Instr { op: Op::Bind, left: instr.res, right: value, ..*instr });
                }
                continue;
            }
            let mut instr = *instr;
            let number = |reg: Reg, form: Form| match self.of_tmp.get(&reg) {
                Some(literal) => held[&self.form(*literal, form)],
                None => moved(&numbers, reg),
            };
            let event = instr.res == Reg::Implicit(Implicit::EventFlag);
            let plain = if event { Decides } else { Flag };
            match instr.op {
                Op::If | Op::NotIf => {
                    let turned = wanted.turned.contains(&i);
                    instr.left = number(instr.left, if turned { OppositeDecides } else { Decides });
                    instr.right = number(instr.right, Flag);
                    if turned {
                        instr.op = if instr.op == Op::If { Op::NotIf } else { Op::If };
                    }
                }
                Op::Bind => instr.right = number(instr.right, plain),
                _ => {
                    instr.left = number(instr.left, plain);
                    instr.right = number(instr.right, plain);
                }
            }
            if matches!(instr.res, Reg::Tmp(_)) {
                let res = Reg::Tmp(tmps.next()?);
                numbers.insert(instr.res, res);
                instr.res = res;
            }
            if instr.op == Op::Bind {
                instr.left = instr.res;
            }
            out.push(instr);
        }
        Some(out)
    }
}
