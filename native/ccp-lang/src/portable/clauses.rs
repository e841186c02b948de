//! Joins clauses, for fewer conditions and commands.
//!
//! After an unconditional clause with `(fallthrough)`, no other clause needs one. An unconditional clause is then
//! merged into the condition of the next clause: conditions run whenever they are evaluated.

use super::{Clause, Work, writes};
use crate::ir::{Implicit, Instr, Op, Reg};

/// Joins clauses. Returns whether the last one is evaluated in every fold without an error.
pub fn join(work: &mut Work) -> bool {
    let n = work.clauses.len();
    let (mut goes_on, mut may_end) = (false, false);
    let mut front: Vec<Instr> = Vec::new();
    for (i, mut clause) in std::mem::take(&mut work.clauses).into_iter().enumerate() {
        let says = clause.body.iter().any(|instr| writes(instr, Implicit::ShouldContinue));
        if goes_on || i + 1 == n {
            clause.body.retain(|instr| !writes(instr, Implicit::ShouldContinue));
        }
        clause.flag.splice(..0, front.drain(..));
        let holds = always_holds(&clause);
        let reports = clause.body.iter().any(|instr| writes(instr, Implicit::ShouldReport));
        if holds && goes_on && !reports && i + 1 < n {
            clause.flag.pop();
            front = clause.flag;
            front.extend(clause.body);
            continue;
        }
        work.clauses.push(clause);
        may_end |= !says && !goes_on;
        goes_on |= holds && says && i + 1 < n;
    }
    n == 1 || goes_on && !may_end
}

/// Merges the first clause into the condition of the second, if that may contain `(fallthrough)`.
pub fn join_first(work: &mut Work) {
    let [first, second, ..] = &mut work.clauses[..] else { return };
    let says = first.body.iter().any(|instr| writes(instr, Implicit::ShouldContinue));
    if says && always_holds(first) {
        first.flag.pop();
        let flag = first.flag.drain(..).chain(first.body.drain(..));
        second.flag.splice(..0, flag.collect::<Vec<_>>());
        work.clauses.remove(0);
    }
}

fn always_holds(clause: &Clause) -> bool {
    matches!(clause.flag.last(), Some(Instr { op: Op::Bind, res: Reg::Implicit(Implicit::EventFlag), right: Reg::Imm(n), .. }) if *n != 0)
}
