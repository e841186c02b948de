//! Fewer instructions and intermediate results for the same work.
//!
//! A condition and a body run from start to end, unless an error aborts them. A result is not computed again while its
//! operands are unchanged; a result that goes through an intermediate result into one register is written there
//! directly. An instruction that can abort the fold stays in place, unless the same one precedes it.

use std::collections::{HashMap, HashSet};

use super::Work;
use super::flags::decided;
use super::private::Lasting;
use crate::ir::{Implicit, Instr, Op, Reg};

/// Maximum length of an optimised run: intermediate results have 8-bit numbers.
const MAXIMUM: usize = 255;

/// Shortens all clauses; with `decides`, also conditions.
pub fn squeeze(work: &mut Work, decides: bool) {
    let flags = work.flags();
    let lasting = work.lasting();
    let n_own = work.n_own;
    for run in work.clauses.iter_mut().flat_map(|clause| [&mut clause.flag, &mut clause.body]) {
        if run.len() > MAXIMUM {
            continue;
        }
        let mut short = shared(run, &lasting);
        if decides {
            short = read(&shared(&decided(&short, &|reg| flags.contains(&reg)), &lasting));
        }
        *run = coalesced(short);
        if decides {
            written_at_once(run, n_own);
        }
    }
}

/// Removes unused intermediate results, unless computing them can abort the fold.
fn read(run: &[Instr]) -> Vec<Instr> {
    let mut wanted: HashSet<Reg> = HashSet::new();
    let mut out: Vec<Instr> = Vec::with_capacity(run.len());
    for instr in run.iter().rev() {
        if matches!(instr.res, Reg::Tmp(_)) && !wanted.contains(&instr.res) && !can_stop(instr.op) {
            continue;
        }
        wanted.extend([instr.left, instr.right]);
        out.push(*instr);
    }
    out.reverse();
    out
}

/// Writes a window that is prepared in a private register directly.
fn written_at_once(run: &mut Vec<Instr>, n_own: usize) {
    const CWND: Reg = Reg::Implicit(Implicit::Cwnd);
    let uses = |instr: &Instr, reg| [instr.res, instr.left, instr.right].contains(&reg);
    let mut back = 2;
    while back < run.len() {
        let (changed, copy) = (run[back - 1], run[back].right);
        let own = matches!(copy, Reg::Control(at) if usize::from(at) >= n_own);
        let copied = run[..back - 1].iter().rposition(|instr| instr.res == CWND || uses(instr, copy));
        if own
            && (run[back].op, run[back].res) == (Op::Bind, CWND)
            && matches!(changed.op, Op::If | Op::NotIf)
            && changed.res == copy
            && ![changed.left, changed.right].contains(&copy)
            && let Some(copied) = copied
            && (run[copied].op, run[copied].res, run[copied].right) == (Op::Bind, copy, CWND)
            && run.iter().filter(|instr| uses(instr, copy)).count() == 3
        {
            run[back] = Instr { res: CWND, ..changed };
            run.remove(back - 1);
            run.remove(copied);
            back -= 2;
        }
        back += 1;
    }
}

fn is_pure(op: Op) -> bool {
    !matches!(op, Op::Bind | Op::If | Op::NotIf | Op::Ewma)
}

/// Value numbering: registers with the same number hold the same value.
#[derive(Default)]
struct Values {
    of: HashMap<Reg, usize>,
    made: HashMap<usize, (Op, usize, usize)>,
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

    /// Records results that an earlier run has left in private registers.
    fn seed(&mut self, run: &[Instr], lasting: &[Lasting]) {
        for Lasting { made, register } in lasting {
            if run.iter().any(|instr| instr.res == *register) {
                continue; // it is computed here
            }
            let key = (made.op, self.number(made.left), self.number(made.right));
            let number = self.number(*register);
            self.made.insert(number, key);
            self.computed.insert(key, (number, *register));
        }
    }

    /// Returns the operand that is already the extreme of both.
    fn extreme(&mut self, instr: &Instr) -> Option<Reg> {
        if !matches!(instr.op, Op::Max | Op::Min) {
            return None;
        }
        [(instr.left, instr.right), (instr.right, instr.left)].into_iter().find_map(|(of_both, one)| {
            let (number, one) = (self.number(of_both), self.number(one));
            let (op, left, right) = *self.made.get(&number)?;
            (op == instr.op && [left, right].contains(&one)).then_some(of_both)
        })
    }
}

/// Returns a run in which no intermediate result is written or computed twice.
fn shared(run: &[Instr], lasting: &[Lasting]) -> Vec<Instr> {
    let mut values = Values::default();
    values.seed(run, lasting);
    // Present place of the original's intermediate results.
    let mut place: HashMap<Reg, Reg> = HashMap::new();
    let mut out: Vec<Instr> = Vec::with_capacity(run.len());
    let mut n_tmps = 0;
    for (i, original) in run.iter().enumerate() {
        let mut instr = *original;
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
                continue; // it already holds the value
            }
            values.of.insert(instr.res, number);
            out.push(instr);
            continue;
        };
        if let Some(simple) = simplified(&instr).or_else(|| values.extreme(&instr)) {
            place.insert(instr.res, simple);
            if !stays(run, i, simple) {
                // A register may be overwritten before this is read: save its value.
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
                values.made.insert(number, key);
                values.computed.insert(key, (number, now));
                out.push(Instr { res: now, ..instr });
                now
            }
        };
        place.insert(instr.res, now);
    }
    out
}

/// Whether a register keeps its value from an instruction to the last use of the instruction's result.
fn stays(run: &[Instr], i: usize, reg: Reg) -> bool {
    if matches!(reg, Reg::Tmp(_) | Reg::Imm(_) | Reg::Prim(_)) {
        return true;
    }
    let (result, behind) = (run[i].res, &run[i + 1..]);
    let end = behind.iter().position(|instr| instr.res == result).map_or(behind.len(), |at| at + 1);
    let reads = |instr: &Instr| instr.left == result || instr.right == result;
    let last = behind[..end].iter().rposition(reads).unwrap_or(0);
    behind[..last].iter().all(|instr| instr.res != reg)
}

/// Returns the place of an instruction's result if the instruction is not needed.
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

/// Returns a run in which results are written directly to their destination.
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

/// Whether instruction `made` may write directly to the destination of instruction `copy`: nothing uses that
/// register in between, the intermediate result is not read after the register was overwritten, and no error
/// in between could expose the difference.
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

/// Renumbers intermediate results to need as few as possible; the rest goes into control registers.
pub fn number_tmps(work: &mut Work, maximum: usize) {
    let mut spilled: Vec<Reg> = Vec::new();
    let mut clauses = std::mem::take(&mut work.clauses);
    for run in clauses.iter_mut().flat_map(|clause| [&mut clause.flag, &mut clause.body]) {
        let last_read = last_reads(run);
        // The result that each new one holds.
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
                while spilled.len() + maximum <= free {
                    spilled.push(Reg::Control(work.control(0)));
                }
                let now = if free < maximum { Reg::Tmp(free as u8) } else { spilled[free - maximum] };
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

/// Returns, for each instruction, the intermediate results that are dead after it.
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
