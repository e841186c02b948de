//! Private registers in a program: not used by agent or program text.

use std::collections::{HashMap, HashSet};

use super::Work;
use crate::ir::{Instr, Op, Reg};
use crate::prims::PRIMITIVES;

/// A result that stays in a register for the whole fold.
pub struct Lasting {
    pub made: Instr,
    pub register: Reg,
}

/// A register written by one instruction, and the run before it.
struct Written<'a> {
    register: Reg,
    before: &'a [Instr],
    by: &'a Instr,
}

impl Work {
    fn is_own(&self, reg: Reg) -> bool {
        match reg {
            Reg::Local(_) => true,
            Reg::Control(i) => usize::from(i) >= self.n_own,
            _ => false,
        }
    }

    fn written_once(&self) -> Vec<Written<'_>> {
        let mut written: HashMap<Reg, Option<Written>> = HashMap::new();
        for run in self.clauses.iter().flat_map(|clause| [&clause.flag, &clause.body]) {
            for (i, by) in run.iter().enumerate() {
                if self.is_own(by.res) {
                    let one = Written { register: by.res, before: &run[..i], by };
                    written.entry(by.res).and_modify(|known| *known = None).or_insert(Some(one));
                }
            }
        }
        written.into_values().flatten().collect()
    }

    /// Returns the private registers that hold 0 or 1.
    pub fn flags(&self) -> HashSet<Reg> {
        let written = self.written_once();
        let mut flags = HashSet::new();
        loop {
            let more = written.iter().filter(|one| is_flag(one.by, one.before, &flags));
            let more: Vec<Reg> = more.map(|one| one.register).filter(|reg| !flags.contains(reg)).collect();
            if more.is_empty() {
                return flags;
            }
            flags.extend(more);
        }
    }

    /// Returns comparisons of ACK values that the first condition leaves in private registers.
    pub fn lasting(&self) -> Vec<Lasting> {
        let first = self.clauses[0].flag.as_ptr_range();
        let made = |one: &Written| {
            let made = *maker(one.by, one.before)?;
            let says = |reg| matches!(reg, Reg::Prim(_) | Reg::Imm(_));
            let lasts = first.contains(&std::ptr::from_ref(one.by)) && compares(made.op);
            (lasts && says(made.left) && says(made.right)).then_some(Lasting { made, register: one.register })
        };
        self.written_once().iter().filter_map(made).collect()
    }

    /// Turns private registers into intermediate results if no other run or fold reads them.
    pub fn forget(&mut self) {
        let mut kept: HashSet<Reg> = self.lasting().iter().map(|one| one.register).collect();
        // The runs that use each register, and whether they write it first.
        let mut uses: HashMap<Reg, (bool, HashSet<usize>)> = HashMap::new();
        for (n, run) in self.clauses.iter().flat_map(|clause| [&clause.flag, &clause.body]).enumerate() {
            for instr in run {
                if matches!(instr.op, Op::If | Op::NotIf | Op::Ewma) {
                    kept.insert(instr.res); // it may keep its value
                }
                let left = (instr.op != Op::Bind).then_some((instr.left, false));
                let read = [left, Some((instr.right, false)), Some((instr.res, true))];
                for (reg, written) in read.into_iter().flatten() {
                    uses.entry(reg).or_insert_with(|| (written, HashSet::new())).1.insert(n);
                }
            }
        }
        let passing = |(reg, (written, runs)): (Reg, (bool, HashSet<usize>))| {
            (self.is_own(reg) && !kept.contains(&reg) && written && runs.len() == 1).then_some(reg)
        };
        let mut passing: Vec<Reg> = uses.into_iter().filter_map(passing).collect();
        passing.sort_by_key(|reg| format!("{reg:?}"));
        let place: HashMap<Reg, Reg> = passing.into_iter().zip((0..=u8::MAX).rev().map(Reg::Tmp)).collect();
        for instr in self.instrs() {
            for reg in [&mut instr.res, &mut instr.left, &mut instr.right] {
                *reg = place.get(reg).copied().unwrap_or(*reg);
            }
        }
    }
}

fn compares(op: Op) -> bool {
    matches!(op, Op::Lt | Op::Gt | Op::Equiv)
}

/// Returns the instruction that computes what another one writes.
fn maker<'a>(instr: &'a Instr, before: &'a [Instr]) -> Option<&'a Instr> {
    if instr.op != Op::Bind {
        return Some(instr);
    }
    let made = before
        .iter()
        .rposition(|earlier| earlier.res == instr.right && matches!(earlier.res, Reg::Tmp(_)))?;
    maker(&before[made], &before[..made])
}

fn is_flag(instr: &Instr, before: &[Instr], flags: &HashSet<Reg>) -> bool {
    let Some(made) = maker(instr, before) else { return false };
    let holds_flag = |reg: Reg| match reg {
        Reg::Prim(i) => PRIMITIVES[usize::from(i)].is_bool,
        Reg::Tmp(_) => {
            let at = before.iter().rposition(|earlier| earlier.res == reg);
            at.is_some_and(|at| is_flag(&before[at], &before[..at], flags))
        }
        other => flags.contains(&other),
    };
    compares(made.op) || made.op == Op::Mul && holds_flag(made.left) && holds_flag(made.right)
}
