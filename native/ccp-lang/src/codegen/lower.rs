//! Lowers straight runs of instructions to nodes.
//!
//! Every intermediate result gets its own number. Constants are folded, copies vanish, bound results go directly to
//! their register, and checks that cannot fail are omitted, if the kernel's verifier cannot prove them either: after a
//! test whose outcome it knows, it tracks the values exactly, and cannot join the branches of earlier tests.

use std::collections::HashMap;

use super::flags::Flags;
use crate::ir::{Implicit, Instr, Op, Reg};
use crate::machine::apply;
use crate::prims::PRIMITIVES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Val {
    Imm(u64),
    Mem(Reg),
    Tmp(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dst {
    Mem(Reg),
    Tmp(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub op: Op,
    pub dst: Dst,
    pub left: Val,
    pub right: Val,
    /// The operation may abort the fold.
    pub check: bool,
    pub range: Range,
    pub line: u32,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub nodes: Vec<Node>,
    pub n_tmps: usize,
    /// The value for EventFlag, which is not a node.
    pub flag: Option<Val>,
}

pub(super) type Range = (u64, u64);
const ANY: Range = (0, u64::MAX);

pub(super) fn lower(instrs: &[Instr], flags: &Flags) -> Block {
    let mut lowering =
        Lowering { flags, nodes: Vec::new(), names: HashMap::new(), ranges: Vec::new(), flag: None };
    for instr in instrs {
        lowering.instr(instr);
    }
    let mut block = Block { nodes: lowering.nodes, n_tmps: lowering.ranges.len(), flag: lowering.flag };
    drop_unused(&mut block);
    block
}

struct Lowering<'a> {
    flags: &'a Flags,
    nodes: Vec<Node>,
    /// Present values of the program's intermediate results.
    names: HashMap<u8, Val>,
    ranges: Vec<Range>,
    flag: Option<Val>,
}

impl Lowering<'_> {
    fn instr(&mut self, instr: &Instr) {
        let right = self.value(instr.right);
        if instr.op == Op::Bind {
            return self.assign(instr.res, right, instr.line);
        }
        let left = self.value(instr.left);
        let op = instr.op;
        match op {
            Op::If | Op::NotIf => {
                if let Val::Imm(condition) = left {
                    if (condition != 0) == (op == Op::If) {
                        self.assign(instr.res, right, instr.line);
                    }
                } else {
                    self.node_to_register(op, instr.res, left, right, instr.line);
                }
                return;
            }
            Op::Ewma => return self.node_to_register(op, instr.res, left, right, instr.line),
            _ => {}
        }
        let value = match self.beyond(op, left, right) {
            Some((op, bound, other)) => {
                let is_beyond = self.operation(op, bound, other, instr.line);
                self.operation(Op::Sub, Val::Imm(1), is_beyond, instr.line)
            }
            None => self.operation(op, left, right, instr.line),
        };
        self.assign(instr.res, value, instr.line);
    }

    /// If `left op right` tests whether the extreme of two values, computed just before, is one of them, returns the
    /// comparison that holds if it is not. Computing the extreme needs a jump, and n of these are 2^n paths.
    fn beyond(&self, op: Op, left: Val, right: Val) -> Option<(Op, Val, Val)> {
        let last = self.nodes.last().filter(|_| op == Op::Equiv)?;
        let comparison = match last.op {
            Op::Max => Op::Lt,
            Op::Min => Op::Gt,
            _ => return None,
        };
        [(left, right), (right, left)].into_iter().find_map(|(extreme, bound)| {
            let is_it = matches!((extreme, last.dst), (Val::Tmp(value), Dst::Tmp(found)) if value == found);
            let others = [(last.left, last.right), (last.right, last.left)];
            let (_, other) = others.into_iter().find(|(one, _)| is_it && *one == bound)?;
            Some((comparison, bound, other))
        })
    }

    /// Returns the value of `left op right`, adding a node if necessary.
    fn operation(&mut self, mut op: Op, mut left: Val, mut right: Val, line: u32) -> Val {
        let (l, r) = (self.range(left), self.range(right));
        if let Some(value) = simpler(op, left, right, l, r) {
            return value;
        }
        let check = can_fail(op, l, r);
        // Constants go right, where instructions accept them. The check of a product is not symmetric.
        if matches!(left, Val::Imm(_)) {
            let turned = match op {
                Op::Add | Op::Equiv | Op::Max | Op::Min => Some(op),
                Op::Mul if !check => Some(op),
                Op::Gt => Some(Op::Lt),
                Op::Lt => Some(Op::Gt),
                _ => None,
            };
            if let Some(turned) = turned {
                op = turned;
                std::mem::swap(&mut left, &mut right);
            }
        }
        let range = result_range(op, self.range(left), self.range(right));
        let tmp = self.new_tmp(range);
        self.nodes.push(Node { op, dst: Dst::Tmp(tmp), left, right, check, range, line });
        Val::Tmp(tmp)
    }

    fn new_tmp(&mut self, range: Range) -> usize {
        self.ranges.push(range);
        self.ranges.len() - 1
    }

    fn value(&self, reg: Reg) -> Val {
        match reg {
            Reg::Imm(n) => Val::Imm(n),
            Reg::Tmp(i) => self.names[&i],
            reg => Val::Mem(reg),
        }
    }

    fn range(&self, value: Val) -> Range {
        match value {
            Val::Imm(n) => (n, n),
            // Guaranteed by the datapath for its own flags.
            Val::Mem(Reg::Prim(i)) if PRIMITIVES[i as usize].is_bool => (0, 1),
            Val::Mem(reg) if self.flags.contains(&reg) => (0, 1),
            Val::Mem(_) => ANY,
            Val::Tmp(i) => self.ranges[i],
        }
    }

    fn assign(&mut self, res: Reg, value: Val, line: u32) {
        match res {
            Reg::Tmp(i) => {
                self.names.insert(i, value);
            }
            Reg::Implicit(Implicit::EventFlag) => self.flag = Some(value),
            res if value == Val::Mem(res) => {}
            res => {
                self.keep_old_value(res, line);
                self.bind(res, value, line);
            }
        }
    }

    fn bind(&mut self, res: Reg, value: Val, line: u32) {
        match (value, self.nodes.last_mut()) {
            (Val::Tmp(tmp), Some(last)) if last.dst == Dst::Tmp(tmp) => {
                last.dst = Dst::Mem(res);
                for name in self.names.values_mut().filter(|v| **v == value) {
                    *name = Val::Mem(res);
                }
            }
            _ => self.copy(Dst::Mem(res), value, line),
        }
    }

    fn copy(&mut self, dst: Dst, right: Val, line: u32) {
        let range = self.range(right);
        self.nodes.push(Node { op: Op::Bind, dst, left: Val::Imm(0), right, check: false, range, line });
    }

    fn node_to_register(&mut self, op: Op, res: Reg, left: Val, right: Val, line: u32) {
        self.keep_old_value(res, line);
        // An `if` may leave the register unchanged.
        let range = if op == Op::Ewma { ANY } else { self.range(right) };
        self.nodes.push(Node { op, dst: Dst::Mem(res), left, right, check: false, range, line });
    }

    /// Saves intermediate results that are in `reg` before `reg` is written.
    fn keep_old_value(&mut self, reg: Reg, line: u32) {
        if !self.names.values().any(|v| *v == Val::Mem(reg)) {
            return;
        }
        let tmp = self.new_tmp(self.range(Val::Mem(reg)));
        self.copy(Dst::Tmp(tmp), Val::Mem(reg), line);
        for name in self.names.values_mut().filter(|v| **v == Val::Mem(reg)) {
            *name = Val::Tmp(tmp);
        }
    }
}

/// Removes nodes with unused results that cannot abort the fold.
fn drop_unused(block: &mut Block) {
    let mut used = vec![false; block.n_tmps];
    let mark = |value: Val, used: &mut Vec<bool>| {
        if let Val::Tmp(i) = value {
            used[i] = true;
        }
    };
    if let Some(flag) = block.flag {
        mark(flag, &mut used);
    }
    let mut kept = Vec::with_capacity(block.nodes.len());
    for node in block.nodes.drain(..).rev() {
        if matches!(node.dst, Dst::Tmp(i) if !used[i]) && !node.check {
            continue;
        }
        mark(node.left, &mut used);
        mark(node.right, &mut used);
        kept.push(node);
    }
    kept.reverse();
    block.nodes = kept;
}

/// Returns the value of `left op right` if it needs no code.
fn simpler(op: Op, left: Val, right: Val, l: Range, r: Range) -> Option<Val> {
    if let (Val::Imm(l), Val::Imm(r)) = (left, right) {
        return apply(op, l, r).ok().map(Val::Imm);
    }
    let (zero, one) = (Val::Imm(0), Val::Imm(1));
    match op {
        Op::Add | Op::MaxWrap if left == zero => Some(right),
        Op::Add | Op::MaxWrap | Op::Sub if right == zero => Some(left),
        Op::Mul if left == zero || right == zero => Some(zero),
        Op::Mul if left == one => Some(right),
        Op::Mul | Op::Div if right == one => Some(left),
        Op::Gt if l.0 > r.1 => Some(one),
        Op::Gt if l.1 <= r.0 => Some(zero),
        Op::Lt if l.1 < r.0 => Some(one),
        Op::Lt if l.0 >= r.1 => Some(zero),
        Op::Equiv if l.0 > r.1 || l.1 < r.0 => Some(zero),
        Op::Max if l.0 >= r.1 => Some(left),
        Op::Max if r.0 >= l.1 => Some(right),
        Op::Min if l.1 <= r.0 => Some(left),
        Op::Min if r.1 <= l.0 => Some(right),
        _ => None,
    }
}

fn can_fail(op: Op, l: Range, r: Range) -> bool {
    match op {
        Op::Add => l.1.checked_add(r.1).is_none(),
        Op::Sub => l.0 < r.1,
        Op::Mul => l.1.checked_mul(r.1).is_none(),
        Op::Div => r.0 == 0,
        _ => false,
    }
}

/// Range of a result after its check.
fn result_range(op: Op, l: Range, r: Range) -> Range {
    match op {
        Op::Add => (l.0.saturating_add(r.0), l.1.saturating_add(r.1)),
        Op::Sub => (l.0.saturating_sub(r.1), l.1.saturating_sub(r.0)),
        // A product may pass libccp's check although it wrapped.
        Op::Mul => l.1.checked_mul(r.1).map_or(ANY, |maximum| (l.0 * r.0, maximum)),
        Op::Div => (l.0 / r.1.max(1), l.1 / r.0.max(1)),
        Op::Equiv | Op::Gt | Op::Lt => (0, 1),
        Op::Max => (l.0.max(r.0), l.1.max(r.1)),
        Op::Min => (l.0.min(r.0), l.1.min(r.1)),
        _ => ANY,
    }
}
