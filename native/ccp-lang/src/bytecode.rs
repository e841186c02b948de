//! CCP's bytecode: programs as portus agents send them and libccp runs them.
//!
//! An event is 4 numbers of 32 bits: start and length of its condition, and of its body. An instruction is one byte for
//! the operator and three operands (result, left and right) of one byte for the kind and 32 bits for index or constant.
//! All numbers are little-endian, and the first instructions declare registers. A program keeps its meaning in libccp:
//! constants have 32 bits, so `+infinity` is 2^32 - 1 here, and so is the initial value 1073741823.
//!
//! Rejected although libccp accepts it, because no compiler emits it and libccp would read undefined data: undeclared
//! registers, intermediate results that were never written, conditions that do not set EventFlag.

mod decode;
mod encode;

use crate::ir::{Implicit, Op};

pub use decode::{Bytecode, decode, decode_with_rtt};
pub use encode::encode;
pub(crate) use encode::{Wire, control_kind};

/// Length of an event, and of an instruction.
const RECORD_BYTES: usize = 16;

/// Number of intermediate results in portus.
const MAX_TMPS: u32 = 16;

/// libccp's initial value for infinity; portus sends `+infinity` as it.
const INFINITE_INIT: u32 = 0x3fff_ffff;
pub(crate) const TAKEN_FOR_INFINITY: u64 = INFINITE_INIT as u64;
const INFINITY: u32 = u32::MAX;

const DEF: u8 = 2;

/// Operators by number; `None` declares a register.
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

pub fn number(op: Op) -> u8 {
    OPS.iter().position(|known| *known == Some(op)).expect("every operator has a number") as u8
}

fn implicit(index: u32) -> Option<Implicit> {
    Implicit::ALL.get(index as usize).copied()
}

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
