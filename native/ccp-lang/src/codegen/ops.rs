//! Code for one node.
//!
//! R0 holds results on their way to memory, R3 to R5 operands from memory. A failed check jumps to the code that ends
//! the fold with the error.

use super::asm::{Alu, Asm, Jmp, Label, R, R0, R10, Src, imm32};
use super::lower::{Block, Dst, Node, Val};
use super::plan::{Loc, Plan};
use super::{FLOW, FOLD, Layout};
use crate::ir::{Implicit, Op, Reg};
use crate::machine::FoldError;
use crate::prims::{ACK_NOW, INT_AGE_US};

const R3: R = R(3);
const R4: R = R(4);
const R5: R = R(5);

/// Rarely executed code: the second half of a product's check.
struct Cold {
    entry: Label,
    back: Label,
    factor: R,
    line: u32,
}

pub(super) struct Emitter<'a> {
    pub asm: Asm,
    pub layout: &'a Layout,
    errors: [(FoldError, Option<Label>); 4],
    cold: Vec<Cold>,
}

#[derive(Clone, Copy)]
pub(super) struct Planned<'a> {
    pub block: &'a Block,
    pub plan: &'a Plan,
}

impl Layout {
    /// Returns the base register and offset of a program register.
    pub(super) fn place(&self, reg: Reg) -> (R, i16) {
        let (base, first, i) = match reg {
            Reg::Report(i) => (FLOW, self.report, i),
            Reg::Control(i) => (FLOW, self.control, i),
            Reg::Local(i) => (FLOW, self.local, i),
            Reg::Implicit(i) => (FOLD, self.imp, i as u8),
            Reg::Prim(i @ INT_AGE_US..) => (FLOW, self.inband, i - INT_AGE_US),
            Reg::Prim(i) => (FOLD, self.prim, i),
            Reg::Tmp(_) | Reg::Imm(_) => unreachable!("{reg:?} is not in memory"),
        };
        (base, first + 8 * i16::from(i))
    }
}

fn slot_offset(slot: usize) -> i16 {
    -8 * (slot as i16 + 1)
}

fn jmp_of(op: Op) -> Jmp {
    match op {
        Op::Gt => Jmp::Gt,
        Op::Lt => Jmp::Lt,
        Op::Equiv => Jmp::Eq,
        op => unreachable!("{op:?} is not a comparison"),
    }
}

impl<'a> Emitter<'a> {
    pub fn new(layout: &'a Layout) -> Self {
        let errors =
            [FoldError::AddOverflow, FoldError::DivByZero, FoldError::MulOverflow, FoldError::SubUnderflow];
        Emitter { asm: Asm::default(), layout, errors: errors.map(|e| (e, None)), cold: Vec::new() }
    }

    fn error(&mut self, error: FoldError) -> Label {
        let place = &mut self.errors[error as usize - 1].1;
        *place.get_or_insert_with(|| self.asm.label())
    }

    pub fn block(&mut self, planned: Planned) {
        for (node, deferred) in planned.block.nodes.iter().zip(&planned.plan.deferred) {
            if !deferred {
                self.node(planned, node);
            }
        }
    }

    /// Writes the code after the program: the exits for errors.
    pub fn tail(&mut self) {
        let end = self.asm.label();
        let cold = std::mem::take(&mut self.cold);
        if !cold.is_empty() {
            self.error(FoldError::MulOverflow);
        }
        let used: Vec<(FoldError, Label)> =
            self.errors.iter().filter_map(|(error, label)| Some((*error, (*label)?))).collect();
        if used.is_empty() {
            return;
        }
        self.asm.jump(end);
        for Cold { entry, back, factor, line } in cold {
            self.asm.line = line;
            let error = self.error(FoldError::MulOverflow);
            self.asm.place(entry);
            self.asm.jump_if(Jmp::Ne, factor, Src::Imm(0), error);
            self.asm.jump(back);
        }
        let store = self.asm.label();
        for (i, (error, label)) in used.iter().enumerate() {
            self.asm.place(*label);
            self.asm.set(R0, *error as u64);
            if i + 1 < used.len() {
                self.asm.jump(store);
            }
        }
        self.asm.place(store);
        self.asm.store_u32(FLOW, self.layout.fold_error, R0);
        self.asm.place(end);
    }

    /// Returns a register with the value: `scratch` if the value is not in a register.
    fn reg(&mut self, plan: &Plan, value: Val, scratch: R) -> R {
        match value {
            Val::Tmp(tmp) => match plan.locs[tmp].expect("computed before") {
                Loc::Reg(reg) => return reg,
                Loc::Stack(slot) => self.asm.load(scratch, R10, slot_offset(slot)),
            },
            Val::Imm(n) => self.asm.set(scratch, n),
            Val::Mem(reg) => self.load(scratch, reg),
        }
        scratch
    }

    /// Like [`Emitter::reg`], but keeps a constant that fits an instruction.
    fn src(&mut self, plan: &Plan, value: Val, scratch: R) -> Src {
        match value {
            Val::Imm(n) if imm32(n).is_some() => Src::Imm(n as i32),
            value => Src::Reg(self.reg(plan, value, scratch)),
        }
    }

    fn load_into(&mut self, plan: &Plan, dst: R, value: Val) {
        let reg = self.reg(plan, value, dst);
        self.asm.mov(dst, reg);
    }

    fn dst_reg(plan: &Plan, dst: Dst) -> R {
        match dst {
            Dst::Tmp(tmp) => match plan.locs[tmp] {
                Some(Loc::Reg(reg)) => reg,
                _ => R0,
            },
            Dst::Mem(_) => R0,
        }
    }

    fn finish(&mut self, plan: &Plan, dst: Dst, result: R) {
        match dst {
            Dst::Mem(reg) => self.store(reg, Src::Reg(result)),
            Dst::Tmp(tmp) => match plan.locs[tmp].expect("every result has a place") {
                Loc::Reg(reg) => self.asm.mov(reg, result),
                Loc::Stack(slot) => self.asm.store(R10, slot_offset(slot), Src::Reg(result)),
            },
        }
    }

    fn load(&mut self, into: R, reg: Reg) {
        let (base, offset) = self.layout.place(reg);
        self.asm.load(into, base, offset);
    }

    fn store(&mut self, reg: Reg, value: Src) {
        let (base, offset) = self.layout.place(reg);
        self.asm.store(base, offset, value);
        if reg == Reg::Implicit(Implicit::Micros) {
            self.load(R3, Reg::Prim(ACK_NOW));
            if value != Src::Imm(0) {
                self.asm.alu(Alu::Sub, R3, value);
            }
            self.asm.store(FLOW, self.layout.time_zero_us, Src::Reg(R3));
        }
    }

    fn node(&mut self, planned: Planned, node: &Node) {
        self.asm.line = node.line;
        let plan = planned.plan;
        match node.op {
            Op::Bind => self.bind(plan, node),
            Op::Mul if node.check => self.checked_product(plan, node),
            Op::Add | Op::Mul => self.sum(plan, node),
            Op::Sub | Op::Div => self.difference(plan, node),
            Op::Max | Op::Min => self.extreme(plan, node),
            Op::Equiv | Op::Gt | Op::Lt => self.comparison(plan, node),
            Op::MaxWrap => self.max_wrap(plan, node),
            Op::Ewma => self.ewma(plan, node),
            Op::If | Op::NotIf => {
                let skip = self.asm.label();
                self.branch(planned, node.left, node.op == Op::NotIf, skip);
                self.bind(plan, node);
                self.asm.place(skip);
            }
        }
    }

    fn bind(&mut self, plan: &Plan, node: &Node) {
        match node.dst {
            Dst::Mem(reg) => {
                let value = self.src(plan, node.right, R0);
                self.store(reg, value);
            }
            dst => {
                let into = Self::dst_reg(plan, dst);
                self.load_into(plan, into, node.right);
                self.finish(plan, dst, into);
            }
        }
    }

    /// Returns the result's register, loaded with one operand, and the other operand.
    fn commuting(&mut self, plan: &Plan, node: &Node) -> (R, Src) {
        let dst = Self::dst_reg(plan, node.dst);
        let right = self.src(plan, node.right, R5);
        if right == Src::Reg(dst) {
            let left = self.src(plan, node.left, R4);
            return (dst, left);
        }
        self.load_into(plan, dst, node.left);
        (dst, right)
    }

    fn sum(&mut self, plan: &Plan, node: &Node) {
        let (dst, other) = self.commuting(plan, node);
        self.asm.alu(if node.op == Op::Add { Alu::Add } else { Alu::Mul }, dst, other);
        if node.check {
            // A wrapped sum is below both terms.
            let error = self.error(FoldError::AddOverflow);
            self.asm.jump_if(Jmp::Lt, dst, other, error);
        }
        self.finish(plan, node.dst, dst);
    }

    fn extreme(&mut self, plan: &Plan, node: &Node) {
        let (dst, other) = self.commuting(plan, node);
        let done = self.asm.label();
        self.asm.jump_if(if node.op == Op::Max { Jmp::Ge } else { Jmp::Le }, dst, other, done);
        self.asm.alu(Alu::Mov, dst, other);
        self.asm.place(done);
        self.finish(plan, node.dst, dst);
    }

    fn difference(&mut self, plan: &Plan, node: &Node) {
        let dst = Self::dst_reg(plan, node.dst);
        let mut right = self.src(plan, node.right, R5);
        let into = if right == Src::Reg(dst) { R0 } else { dst };
        let left = self.reg(plan, node.left, into);
        let alu = if node.op == Op::Sub { Alu::Sub } else { Alu::Div };
        if node.check && node.op == Op::Sub {
            let error = self.error(FoldError::SubUnderflow);
            self.asm.jump_if(Jmp::Lt, left, right, error);
        } else if node.check {
            if right == Src::Imm(0) {
                // The verifier rejects a division by the constant 0 even if it is unreachable.
                self.asm.set(R5, 0);
                right = Src::Reg(R5);
            }
            let Src::Reg(divisor) = right else { unreachable!("other constants need no check") };
            let error = self.error(FoldError::DivByZero);
            self.asm.jump_if(Jmp::Eq, divisor, Src::Imm(0), error);
        }
        self.asm.mov(into, left);
        self.asm.alu(alu, into, right);
        self.finish(plan, node.dst, into);
    }

    /// libccp's overflow test: the product is below the left factor and the right one is not 0.
    fn checked_product(&mut self, plan: &Plan, node: &Node) {
        let left = self.src(plan, node.left, R4);
        let right = self.src(plan, node.right, R5);
        match left {
            Src::Reg(left) => self.asm.mov(R0, left),
            Src::Imm(imm) => self.asm.alu(Alu::Mov, R0, Src::Imm(imm)),
        }
        self.asm.alu(Alu::Mul, R0, right);
        match right {
            // A constant 0 would have been folded.
            Src::Imm(_) => {
                let error = self.error(FoldError::MulOverflow);
                self.asm.jump_if(Jmp::Lt, R0, left, error);
            }
            Src::Reg(factor) => {
                let (entry, back) = (self.asm.label(), self.asm.label());
                self.asm.jump_if(Jmp::Lt, R0, left, entry);
                self.asm.place(back);
                self.cold.push(Cold { entry, back, factor, line: node.line });
            }
        }
        self.finish(plan, node.dst, R0);
    }

    fn comparison(&mut self, plan: &Plan, node: &Node) {
        let left = self.reg(plan, node.left, R4);
        let Dst::Tmp(_) = node.dst else {
            let right = self.src(plan, node.right, R5);
            let done = self.asm.label();
            self.asm.set(R0, 1);
            self.asm.jump_if(jmp_of(node.op), left, right, done);
            self.asm.set(R0, 0);
            self.asm.place(done);
            return self.finish(plan, node.dst, R0);
        };
        // Without a jump: if 0 and 1 from two branches were tested later, the verifier would follow both to
        // that test, and n jumps are 2^n paths.
        let right = self.reg(plan, node.right, R5);
        match node.op {
            Op::Equiv => {
                self.asm.mov(R0, left);
                self.asm.alu(Alu::Xor, R0, Src::Reg(right));
                self.asm.mov(R3, R0);
                self.asm.alu(Alu::Neg, R3, Src::Imm(0));
                self.asm.alu(Alu::Or, R0, Src::Reg(R3));
                self.asm.alu(Alu::Rsh, R0, Src::Imm(63));
                self.asm.alu(Alu::Xor, R0, Src::Imm(1));
            }
            Op::Lt => self.borrow(left, right),
            _ => self.borrow(right, left),
        }
        self.finish(plan, node.dst, R0);
    }

    /// R0 = 1 if a < b, else 0: the borrow of a - b, which is bit 63 of (!a & b) | ((!a | b) & (a - b)).
    fn borrow(&mut self, a: R, b: R) {
        // A copy of a from memory is not needed any more here; one of b is.
        let either = if b == R4 { R5 } else { R4 };
        self.asm.mov(R0, a);
        self.asm.alu(Alu::Xor, R0, Src::Imm(-1));
        self.asm.mov(R3, a);
        self.asm.alu(Alu::Sub, R3, Src::Reg(b));
        self.asm.mov(either, R0);
        self.asm.alu(Alu::Or, either, Src::Reg(b));
        self.asm.alu(Alu::And, either, Src::Reg(R3));
        self.asm.alu(Alu::And, R0, Src::Reg(b));
        self.asm.alu(Alu::Or, R0, Src::Reg(either));
        self.asm.alu(Alu::Rsh, R0, Src::Imm(63));
    }

    /// With e = l - r in 32 bits, l is the later one if 0 < e < 2^31, or if e = 2^31 and l < r.
    fn max_wrap(&mut self, plan: &Plan, node: &Node) {
        let left = self.reg(plan, node.left, R4);
        let right = self.reg(plan, node.right, R5);
        let (take_right, done) = (self.asm.label(), self.asm.label());
        self.asm.mov(R0, right);
        self.asm.jump_if(Jmp::Eq, left, Src::Imm(0), done);
        self.asm.mov(R0, left);
        self.asm.jump_if(Jmp::Eq, right, Src::Imm(0), done);
        self.asm.alu32(Alu::Mov, R0, Src::Reg(left));
        self.asm.alu32(Alu::Mov, R3, Src::Reg(left));
        self.asm.alu32(Alu::Sub, R3, Src::Reg(right));
        self.asm.jump32_if(Jmp::SignedGt, R3, Src::Imm(0), done);
        self.asm.jump32_if(Jmp::Ne, R3, Src::Imm(i32::MIN), take_right);
        self.asm.jump32_if(Jmp::Lt, R0, Src::Reg(right), done);
        self.asm.place(take_right);
        self.asm.alu32(Alu::Mov, R0, Src::Reg(right));
        self.asm.place(done);
        self.finish(plan, node.dst, R0);
    }

    fn ewma(&mut self, plan: &Plan, node: &Node) {
        let Dst::Mem(register) = node.dst else { unreachable!("ewma works on a register") };
        let done = self.asm.label();
        self.load(R3, register);
        if let Val::Imm(weight) = node.left {
            self.load_into(plan, R0, node.right);
            self.asm.jump_if(Jmp::Eq, R3, Src::Imm(0), done);
            for (reg, factor) in [(R3, weight), (R0, 10u64.wrapping_sub(weight))] {
                if factor != 1 {
                    let factor = self.src(plan, Val::Imm(factor), R4);
                    self.asm.alu(Alu::Mul, reg, factor);
                }
            }
        } else {
            let weight = self.reg(plan, node.left, R4);
            let new = self.reg(plan, node.right, R5);
            self.asm.mov(R0, new);
            self.asm.jump_if(Jmp::Eq, R3, Src::Imm(0), done);
            self.asm.alu(Alu::Mul, R3, Src::Reg(weight));
            self.asm.set(R0, 10);
            self.asm.alu(Alu::Sub, R0, Src::Reg(weight));
            self.asm.alu(Alu::Mul, R0, Src::Reg(new));
        }
        self.asm.alu(Alu::Add, R0, Src::Reg(R3));
        self.asm.alu(Alu::Div, R0, Src::Imm(10));
        self.asm.place(done);
        self.finish(plan, node.dst, R0);
    }

    /// Jumps to `to` if the value is not 0 (`when` is true), or if it is 0; otherwise continues.
    pub fn branch(&mut self, planned: Planned, value: Val, when: bool, to: Label) {
        let Planned { block, plan } = planned;
        let deferred = match value {
            Val::Tmp(tmp) => plan.node_of[tmp].filter(|&i| plan.deferred[i]),
            _ => None,
        };
        let Some(node) = deferred.map(|i| &block.nodes[i]) else {
            let reg = self.reg(plan, value, R0);
            return self.asm.jump_if(if when { Jmp::Ne } else { Jmp::Eq }, reg, Src::Imm(0), to);
        };
        match node.op {
            // "Not both" and "one of both" jump from either operand; the others need a bypass.
            Op::Mul if !when => {
                self.branch(planned, node.left, false, to);
                self.branch(planned, node.right, false, to);
            }
            Op::Add if when => {
                self.branch(planned, node.left, true, to);
                self.branch(planned, node.right, true, to);
            }
            Op::Mul | Op::Add => {
                let around = self.asm.label();
                self.branch(planned, node.left, !when, around);
                self.branch(planned, node.right, when, to);
                self.asm.place(around);
            }
            op => {
                let left = self.reg(plan, node.left, R4);
                let right = self.src(plan, node.right, R5);
                let jmp = if when { jmp_of(op) } else { jmp_of(op).negated() };
                self.asm.jump_if(jmp, left, right, to);
            }
        }
    }
}
