//! The interpreter's form of the instructions: built once, with operands by index.

use crate::ir::{Event, Instr, Op, Program, Reg};
use crate::machine::index;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operand {
    /// Mask for the register's value: all bits or none.
    mask: u64,
    constant: u64,
    index: u16,
}

impl Operand {
    fn new(reg: Reg) -> Self {
        match (index(reg), reg) {
            (Some(index), _) => Operand { mask: u64::MAX, constant: 0, index },
            (None, Reg::Imm(constant)) => Operand { mask: 0, constant, index: 0 },
            (None, reg) => unreachable!("{reg:?} lies nowhere"),
        }
    }

    /// Branch-free, because the kind is unpredictable.
    #[inline]
    pub(crate) fn read<const N: usize>(&self, registers: &[u64; N]) -> u64 {
        registers[self.index as usize % N] & self.mask | self.constant
    }
}

/// `result := left op right`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) op: Op,
    pub(crate) result: u16,
    pub(crate) left: Operand,
    pub(crate) right: Operand,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clause {
    pub(crate) flag: Vec<Step>,
    pub(crate) body: Vec<Step>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    events: Vec<Clause>,
    n_tmps: usize,
}

impl Code {
    pub(crate) fn new(program: &Program) -> Self {
        let steps = |instrs: &[Instr]| instrs.iter().map(step).collect();
        let clause =
            |event: &Event| Clause { flag: steps(program.flag(event)), body: steps(program.body(event)) };
        let regs = program.instrs.iter().flat_map(|i| [i.res, i.left, i.right]);
        let tmps = regs.map(|reg| if let Reg::Tmp(i) = reg { i as usize + 1 } else { 0 });
        Code { events: program.events.iter().map(clause).collect(), n_tmps: tmps.max().unwrap_or(0) }
    }

    pub(crate) fn events(&self) -> &[Clause] {
        &self.events
    }

    /// Number of intermediate results.
    pub(crate) fn n_tmps(&self) -> usize {
        self.n_tmps
    }
}

fn step(instr: &Instr) -> Step {
    if matches!(instr.res, Reg::Prim(_) | Reg::Imm(_)) {
        unreachable!("the front end rejects writes to {:?}", instr.res);
    }
    Step {
        op: instr.op,
        result: Operand::new(instr.res).index,
        left: Operand::new(instr.left),
        right: Operand::new(instr.right),
    }
}
