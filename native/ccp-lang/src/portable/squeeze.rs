//! Fewer instructions and intermediate results for the same work.
//!
//! A condition and a body run from their beginning to their end, unless an error stops them. What was computed is not
//! computed again as long as nothing was written to what it was computed of; and what goes through an intermediate
//! result into one register is written there at once. An instruction that can stop the fold stays where it is, unless
//! the same one stands before it.

use std::collections::{HashMap, HashSet};

use super::{Clause, Work};
use crate::ir::{Implicit, Instr, Op, Reg};

/// Longest run that is looked at: intermediate results have numbers of 8 bits.
const MOST: usize = 255;

/// Shortens a clause.
pub fn squeeze(clause: &mut Clause) {
    for run in [&mut clause.flag, &mut clause.body] {
        if run.len() <= MOST {
            *run = coalesced(shared(run));
        }
    }
}

/// An operator whose result depends on nothing but its operands.
fn is_pure(op: Op) -> bool {
    !matches!(op, Op::Bind | Op::If | Op::NotIf | Op::Ewma)
}

/// Values by number: two registers with the same number hold the same.
#[derive(Default)]
struct Values {
    of: HashMap<Reg, usize>,
    computed: HashMap<(Op, usize, usize), (usize, Reg)>,
    next: usize,
}

impl Values {
    fn new_number(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    fn number(&mut self, reg: Reg) -> usize {
        if let Some(known) = self.of.get(&reg) {
            return *known;
        }
        let number = self.new_number();
        self.of.insert(reg, number);
        number
    }
}

/// Returns a run in which no intermediate result is written twice, nor computed twice.
fn shared(run: &[Instr]) -> Vec<Instr> {
    let mut values = Values::default();
    // Where an intermediate result of the original is now.
    let mut place: HashMap<Reg, Reg> = HashMap::new();
    let mut out: Vec<Instr> = Vec::with_capacity(run.len());
    let mut n_tmps = 0;
    for instr in run {
        let mut instr = *instr;
        for reg in [&mut instr.left, &mut instr.right] {
            if let Some(now) = place.get(reg) {
                *reg = *now;
            }
        }
        let Reg::Tmp(_) = instr.res else {
            let number = match instr.op {
                Op::Bind => {
                    instr.left = instr.res;
                    values.number(instr.right)
                }
                _ => values.new_number(),
            };
            if instr.op == Op::Bind && values.of.get(&instr.res) == Some(&number) {
                continue; // it holds that already
            }
            values.of.insert(instr.res, number);
            out.push(instr);
            continue;
        };
        if let Some(simple) = simplified(&instr) {
            place.insert(instr.res, simple);
            if !matches!(simple, Reg::Tmp(_) | Reg::Imm(_) | Reg::Prim(_)) {
                // A register may be written to before this is read: keep what it holds.
                let kept = Reg::Tmp(n_tmps);
                n_tmps += 1;
                let number = values.number(simple);
                values.of.insert(kept, number);
                out.push(Instr { op: Op::Bind, res: kept, left: kept, right: simple, line: instr.line });
                place.insert(instr.res, kept);
            }
            continue;
        }
        let key = (instr.op, values.number(instr.left), values.number(instr.right));
        let known = values.computed.get(&key).copied().filter(|_| is_pure(instr.op));
        let now = match known {
            Some((_, holder)) => holder,
            None => {
                let now = Reg::Tmp(n_tmps);
                n_tmps += 1;
                let number = values.new_number();
                values.of.insert(now, number);
                values.computed.insert(key, (number, now));
                out.push(Instr { res: now, ..instr });
                now
            }
        };
        place.insert(instr.res, now);
    }
    out
}

/// Returns where the result of an instruction is to be had without it.
fn simplified(instr: &Instr) -> Option<Reg> {
    let (zero, one) = (Reg::Imm(0), Reg::Imm(1));
    match (instr.op, instr.left, instr.right) {
        (Op::Bind, _, value) => Some(value),
        (Op::Add, value, other) | (Op::Add, other, value) if other == zero => Some(value),
        (Op::Mul, value, other) | (Op::Mul, other, value) if other == one => Some(value),
        (Op::Sub | Op::Div, value, other) if other == if instr.op == Op::Sub { zero } else { one } => {
            Some(value)
        }
        _ => None,
    }
}

/// Returns a run in which results are written at once where they are to go.
fn coalesced(mut run: Vec<Instr>) -> Vec<Instr> {
    let mut i = 0;
    while i < run.len() {
        let copy = run[i];
        if let (Op::Bind, Reg::Tmp(_), false) = (copy.op, copy.right, matches!(copy.res, Reg::Tmp(_)))
            && let Some(made) = run[..i].iter().rposition(|instr| instr.res == copy.right)
            && is_free(&run, made, i)
        {
            run[made].res = copy.res;
            for instr in &mut run[made + 1..] {
                for reg in [&mut instr.left, &mut instr.right] {
                    if *reg == copy.right {
                        *reg = copy.res;
                    }
                }
            }
            if run[made].op == Op::Bind {
                run[made].left = copy.res;
            }
            run.remove(i);
        } else {
            i += 1;
        }
    }
    run
}

/// Whether what instruction `made` computes may be written where instruction `copy` copies it to: nobody reads or writes
/// that register in between, nor does anybody who reads the intermediate result do so after the register was written to
/// again, and no error comes in between after which the register would hold something else.
fn is_free(run: &[Instr], made: usize, copy: usize) -> bool {
    let (target, tmp) = (run[copy].res, run[copy].right);
    if target == Reg::Implicit(Implicit::EventFlag) && made + 1 != copy {
        return false; // a condition ends with it
    }
    let reads = |instr: &Instr, reg: Reg| {
        instr.right == reg
            || (instr.left == reg && instr.op != Op::Bind)
            || (instr.res == reg && instr.op == Op::Ewma)
    };
    let between = &run[made + 1..copy];
    if between.iter().any(|instr| instr.res == target || reads(instr, target) || can_stop(instr.op)) {
        return false;
    }
    let behind = &run[copy + 1..];
    let last_read = behind.iter().rposition(|instr| reads(instr, tmp));
    let written = behind.iter().position(|instr| instr.res == target);
    match (last_read, written) {
        (Some(read), Some(written)) => read <= written && behind[written].op != Op::Ewma,
        _ => true,
    }
}

fn can_stop(op: Op) -> bool {
    matches!(op, Op::Add | Op::Sub | Op::Mul | Op::Div)
}

/// Numbers intermediate results anew, so that as few as can be are needed; what does not fit goes into control registers.
pub fn number_tmps(work: &mut Work, most: usize) {
    let mut spilled: Vec<Reg> = Vec::new();
    let mut clauses = std::mem::take(&mut work.clauses);
    for run in clauses.iter_mut().flat_map(|clause| [&mut clause.flag, &mut clause.body]) {
        let last_read = last_reads(run);
        // Which result each of the new ones holds.
        let mut held: Vec<Option<Reg>> = Vec::new();
        let mut place: HashMap<Reg, Reg> = HashMap::new();
        for (instr, done) in run.iter_mut().zip(last_read) {
            let result = instr.res;
            for reg in [&mut instr.left, &mut instr.right] {
                if let Some(now) = place.get(reg) {
                    *reg = *now;
                }
            }
            held.iter_mut()
                .filter(|one| one.is_some_and(|reg| done.contains(&reg)))
                .for_each(|one| *one = None);
            if matches!(result, Reg::Tmp(_)) {
                let free = held.iter().position(Option::is_none).unwrap_or(held.len());
                held.resize(held.len().max(free + 1), None);
                held[free] = Some(result);
                while spilled.len() + most <= free {
                    spilled.push(Reg::Control(work.control(0)));
                }
                let now = if free < most { Reg::Tmp(free as u8) } else { spilled[free - most] };
                place.insert(result, now);
                instr.res = now;
            }
            if instr.op == Op::Bind {
                instr.left = instr.res;
            }
        }
    }
    work.clauses = clauses;
}

/// Returns, for each instruction, the intermediate results that nobody reads behind it before they are written again.
fn last_reads(run: &[Instr]) -> Vec<Vec<Reg>> {
    let mut live: HashSet<Reg> = HashSet::new();
    let mut done: Vec<Vec<Reg>> = run
        .iter()
        .rev()
        .map(|instr| {
            live.remove(&instr.res);
            let read = if instr.op == Op::Bind { [instr.right; 2] } else { [instr.left, instr.right] };
            read.into_iter().filter(|reg| matches!(reg, Reg::Tmp(_)) && live.insert(*reg)).collect()
        })
        .collect();
    done.reverse();
    done
}
