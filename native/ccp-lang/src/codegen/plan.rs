//! Decides which nodes become part of a jump, and places the other intermediate results.

use super::asm::R;
use super::lower::{Block, Dst, Node, Val};
use crate::ir::{MAX_LIVE_TMPS, Op};

/// Registers for intermediate results. The first two are free; the last two must be saved.
const POOL: [R; 4] = [R(1), R(2), R(8), R(9)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loc {
    Reg(R),
    /// Index of an 8-byte slot.
    Stack(usize),
}

#[derive(Debug)]
pub(super) struct Plan {
    /// By node: whether it is tested where its result is needed instead of computed.
    pub deferred: Vec<bool>,
    /// By intermediate result: the node that computes it.
    pub node_of: Vec<Option<usize>>,
    pub locs: Vec<Option<Loc>>,
}

pub(super) fn plan(block: &Block) -> Plan {
    let mut node_of = vec![None; block.n_tmps];
    for (i, node) in block.nodes.iter().enumerate() {
        if let Dst::Tmp(tmp) = node.dst {
            node_of[tmp] = Some(i);
        }
    }
    let none_deferred = vec![false; block.nodes.len()];
    let locs = |deferred: &[bool]| place(block, &node_of, deferred);
    let deferred = defer(block, &node_of);
    if let Some(locs) = locs(&deferred) {
        return Plan { deferred, node_of, locs };
    }
    // Deferred tests keep operands alive for longer.
    let locs = locs(&none_deferred).expect("the checker lets no more intermediate results pass");
    Plan { deferred: none_deferred, node_of, locs }
}

/// Returns the flags that are used only in one test and need no value.
fn defer(block: &Block, node_of: &[Option<usize>]) -> Vec<bool> {
    let mut uses = vec![0; block.n_tmps];
    for node in &block.nodes {
        for value in [node.left, node.right] {
            if let Val::Tmp(tmp) = value {
                uses[tmp] += 1;
            }
        }
    }
    let mut deferred = vec![false; block.nodes.len()];
    let mut tests: Vec<(Val, usize)> = Vec::new();
    for (i, node) in block.nodes.iter().enumerate() {
        if matches!(node.op, Op::If | Op::NotIf) {
            tests.push((node.left, i));
        }
    }
    if let Some(flag) = block.flag {
        if let Val::Tmp(tmp) = flag {
            uses[tmp] += 1;
        }
        tests.push((flag, block.nodes.len()));
    }
    while let Some((value, at)) = tests.pop() {
        let Val::Tmp(tmp) = value else { continue };
        let Some(i) = node_of[tmp] else { continue };
        let node = &block.nodes[i];
        let testable = match node.op {
            Op::Gt | Op::Lt | Op::Equiv => true,
            Op::Add | Op::Mul => !node.check,
            _ => false,
        };
        let overwritten = |value: Val| match value {
            Val::Mem(reg) => block.nodes[i + 1..at].iter().any(|n| n.dst == Dst::Mem(reg)),
            _ => false,
        };
        if uses[tmp] != 1 || !testable || overwritten(node.left) || overwritten(node.right) {
            continue;
        }
        deferred[i] = true;
        // A sum without overflow is not 0 if one side is not; a product, if both are not.
        if matches!(node.op, Op::Add | Op::Mul) {
            tests.push((node.left, at));
            tests.push((node.right, at));
        }
    }
    deferred
}

/// Places every intermediate result; None if too many are live.
fn place(block: &Block, node_of: &[Option<usize>], deferred: &[bool]) -> Option<Vec<Option<Loc>>> {
    let last_use = last_uses(block, node_of, deferred);
    let mut locs = vec![None; block.n_tmps];
    let mut free_regs: Vec<R> = POOL.iter().rev().copied().collect();
    let mut free_slots: Vec<usize> = (0..MAX_LIVE_TMPS).rev().collect();
    let mut live: Vec<usize> = Vec::new();
    for (i, node) in block.nodes.iter().enumerate() {
        let Dst::Tmp(tmp) = node.dst else { continue };
        if deferred[i] {
            continue;
        }
        // The result may replace an operand at its last use.
        live.retain(|&old| {
            if last_use[old] > i {
                return true;
            }
            match locs[old] {
                Some(Loc::Reg(reg)) => free_regs.push(reg),
                Some(Loc::Stack(slot)) => free_slots.push(slot),
                None => {}
            }
            false
        });
        let loc = match free_regs.pop() {
            Some(reg) => Loc::Reg(reg),
            None => Loc::Stack(free_slots.pop()?),
        };
        locs[tmp] = Some(loc);
        live.push(tmp);
    }
    Some(locs)
}

fn last_uses(block: &Block, node_of: &[Option<usize>], deferred: &[bool]) -> Vec<usize> {
    let mut last_use = vec![0; block.n_tmps];
    let mut read = |value: Val, at: usize| {
        let mut values = vec![value];
        while let Some(value) = values.pop() {
            let Val::Tmp(tmp) = value else { continue };
            match node_of[tmp] {
                Some(i) if deferred[i] => values.extend([block.nodes[i].left, block.nodes[i].right]),
                _ => last_use[tmp] = at,
            }
        }
    };
    for (i, Node { left, right, .. }) in block.nodes.iter().enumerate().filter(|(i, _)| !deferred[*i]) {
        read(*left, i);
        read(*right, i);
    }
    if let Some(flag) = block.flag {
        read(flag, block.nodes.len());
    }
    last_use
}
