//! CCP's bytecode: what agents made with portus send of a program, and what libccp runs.
//!
//! An event is 4 numbers of 32 bits: where its condition begins and how long it is, and the same of its body. An
//! instruction is an octet for the operator and three operands, result, left and right, of an octet for the kind and 32
//! bits for index or constant. All are little-endian, and the first instructions declare registers. A program keeps
//! the meaning that it has for libccp: constants have 32 bits, so `+infinity` is 2^32 - 1 here, and the initial value
//! 1073741823 stands for it, too.
//!
//! Refused although libccp takes it, because no compiler makes it and libccp would read what is not there: registers
//! without declaration, intermediate results that nothing has been written to, conditions that leave EventFlag alone.

mod decode;
mod encode;

use crate::ir::{Implicit, Op};

pub use decode::{Bytecode, decode, decode_with_rtt};
pub use encode::encode;
pub(crate) use encode::{Wire, control_kind};

/// An event, and an instruction, in octets.
const RECORD_BYTES: usize = 16;

/// Intermediate results that portus numbers.
const MAX_TMPS: u32 = 16;

/// What libccp takes for infinity, as initial value; what `+infinity` becomes on the wire.
const INFINITE_INIT: u32 = 0x3fff_ffff;
pub(crate) const TAKEN_FOR_INFINITY: u64 = INFINITE_INIT as u64;
const INFINITY: u32 = u32::MAX;

/// The operator of the instructions that declare registers.
const DEF: u8 = 2;

/// Operators by their number; `None` declares.
const OPS: [Option<Op>; 15] = [
    Some(Op::Add),
    Some(Op::Bind),
    None,
    Some(Op::Div),
    Some(Op::Equiv),
    Some(Op::Ewma),
    Some(Op::Gt),
    Some(Op::If),
    Some(Op::Lt),
    Some(Op::Max),
    Some(Op::MaxWrap),
    Some(Op::Min),
    Some(Op::Mul),
    Some(Op::NotIf),
    Some(Op::Sub),
];

/// Returns an operator's number.
pub fn number(op: Op) -> u8 {
    OPS.iter().position(|known| *known == Some(op)).expect("every operator has a number") as u8
}

fn implicit(index: u32) -> Option<Implicit> {
    Implicit::ALL.get(index as usize).copied()
}

/// Kinds of operands.
mod kind {
    pub const CONTROL: u8 = 0;
    pub const CONSTANT: u8 = 1;
    pub const IMPLICIT: u8 = 2;
    pub const LOCAL: u8 = 3;
    pub const PRIMITIVE: u8 = 4;
    pub const VOLATILE_REPORT: u8 = 5;
    pub const REPORT: u8 = 6;
    pub const TMP: u8 = 7;
    pub const VOLATILE_CONTROL: u8 = 8;
}
