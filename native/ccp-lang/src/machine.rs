//! The reference interpreter: runs a program instruction by instruction, like libccp's machine.c.

use crate::code::Step;
use crate::ir::{Implicit, MAX_REGISTERS, Op, Program, Reg};
use ccp_record::intf;

use crate::prims::{ACK_NOW, MAX_PRIMITIVES, Prims};

/// Why a fold was aborted; values of `enum ccp_fold_error` in intf.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum FoldError {
    AddOverflow = intf::CCP_FOLD_ADD_OVERFLOW,
    DivByZero = intf::CCP_FOLD_DIV_BY_ZERO,
    MulOverflow = intf::CCP_FOLD_MUL_OVERFLOW,
    SubUnderflow = intf::CCP_FOLD_SUB_UNDERFLOW,
}

pub type Outcome = Result<Folded, FoldError>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folded {
    /// The program requested a report: call [`Machine::take_report`] once it can be delivered.
    pub report: bool,
}

/// The registers of one flow: 64-bit integers in sequence, addressed by one index.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Machine {
    pub report: [u64; MAX_REGISTERS],
    pub control: [u64; MAX_REGISTERS],
    pub local: [u64; MAX_REGISTERS],
    /// Indexed by [`Implicit`]. The caller sets Cwnd [bytes] and Rate [bytes/s] before each run, like a
    /// datapath, and applies them after it unless they are 0.
    pub imp: [u64; Implicit::ALL.len()],
    /// Start of `Micros` [us].
    pub time_zero_us: u64,
    prims: Prims,
    tmp: [u64; N_TMPS],
    unused: [u64; N_UNUSED],
}

const N_TMPS: usize = 256;
/// All registers; a power of two, to avoid bounds checks.
const N_REGISTERS: usize = 512;
const IMP: usize = 3 * MAX_REGISTERS;
const PRIM: usize = IMP + Implicit::ALL.len() + 1;
const TMP: usize = PRIM + MAX_PRIMITIVES;
const N_UNUSED: usize = N_REGISTERS - TMP - N_TMPS;
const _: () = assert!(size_of::<Machine>() == 8 * N_REGISTERS);
const _: () = assert!(std::mem::offset_of!(Machine, tmp) == 8 * TMP);

/// Index of a register; None for immediates.
pub(crate) fn index(reg: Reg) -> Option<u16> {
    let index = match reg {
        Reg::Report(i) => i as usize,
        Reg::Control(i) => MAX_REGISTERS + i as usize,
        Reg::Local(i) => 2 * MAX_REGISTERS + i as usize,
        Reg::Implicit(i) => IMP + i as usize,
        Reg::Prim(i) => PRIM + i as usize,
        Reg::Tmp(i) => TMP + i as usize,
        Reg::Imm(_) => return None,
    };
    Some(index as u16)
}

/// The same registers and time; intermediate results are ignored.
impl PartialEq for Machine {
    fn eq(&self, other: &Self) -> bool {
        self.as_flat()[..PRIM] == other.as_flat()[..PRIM]
    }
}

impl Eq for Machine {}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Machine {
    pub fn new() -> Self {
        Machine {
            report: [0; MAX_REGISTERS],
            control: [0; MAX_REGISTERS],
            local: [0; MAX_REGISTERS],
            imp: [0; Implicit::ALL.len()],
            time_zero_us: 0,
            prims: [0; MAX_PRIMITIVES],
            tmp: [0; N_TMPS],
            unused: [0; N_UNUSED],
        }
    }

    fn as_flat(&self) -> &[u64; N_REGISTERS] {
        // SAFETY: the structure consists of that many 64-bit integers in C layout, so it has no gaps.
        unsafe { &*std::ptr::from_ref(self).cast() }
    }

    fn as_flat_mut(&mut self) -> &mut [u64; N_REGISTERS] {
        // SAFETY: as above; any bits are a valid value.
        unsafe { &mut *std::ptr::from_mut(self).cast() }
    }

    /// Starts `program` at `now_us` [us]: declared registers get their initial values, and `Micros` counts from now.
    /// Deviation from libccp: local registers start at 0; libccp keeps the previous program's values.
    pub fn reset(&mut self, program: &Program, now_us: u64) {
        for (register, value) in program.reports.iter().zip(&mut self.report) {
            *value = register.init;
        }
        for (register, value) in program.controls.iter().zip(&mut self.control) {
            *value = register.init;
        }
        self.local = [0; MAX_REGISTERS];
        self.imp[Implicit::Micros as usize] = 0;
        self.time_zero_us = now_us;
    }

    /// Runs the fold once. An error aborts it: earlier writes remain, and there is no report.
    ///
    /// `program` is the argument of the last [`Machine::reset`], `prims` are the primitives of this ACK by index
    /// (except `Ack.now`), and `now_us` is the datapath's clock [us].
    pub fn invoke(&mut self, program: &Program, prims: &Prims, now_us: u64) -> Outcome {
        self.imp[Implicit::EventFlag as usize] = 0;
        self.imp[Implicit::ShouldContinue as usize] = 0;
        self.imp[Implicit::ShouldReport as usize] = 0;
        self.imp[Implicit::Micros as usize] = now_us.wrapping_sub(self.time_zero_us);
        self.prims = *prims;
        self.prims[ACK_NOW as usize] = now_us;
        let code = &program.code;
        self.tmp[..code.n_tmps()].fill(0);
        for event in code.events() {
            self.all(&event.flag, now_us)?;
            if self.imp[Implicit::EventFlag as usize] == 0 {
                continue;
            }
            self.all(&event.body, now_us)?;
            // Not cleared between events: `(fallthrough)` holds for the rest of the run.
            if self.imp[Implicit::ShouldContinue as usize] == 0 {
                break;
            }
        }
        Ok(Folded { report: self.imp[Implicit::ShouldReport as usize] != 0 })
    }

    fn all(&mut self, steps: &[Step], now_us: u64) -> Result<(), FoldError> {
        const MICROS: u16 = (IMP + Implicit::Micros as usize) as u16;
        let registers = self.as_flat_mut();
        for step in steps {
            let (left, right) = (step.left.read(registers), step.right.read(registers));
            let result = &mut registers[step.result as usize % N_REGISTERS];
            let value = match step.op {
                Op::If if left == 0 => continue,
                Op::NotIf if left != 0 => continue,
                Op::Ewma => ewma(left, *result, right),
                op => apply(op, left, right)?,
            };
            *result = value;
            if step.result == MICROS {
                registers[IMP + Implicit::ALL.len()] = now_us.wrapping_sub(value);
            }
        }
        Ok(())
    }

    /// Returns the report registers and resets the volatile ones. If a report cannot be delivered, do not
    /// call it: the next report then carries the sum.
    pub fn take_report(&mut self, program: &Program) -> Vec<u64> {
        let report = self.reported(program).to_vec();
        self.clear_volatile(program);
        report
    }

    /// Returns the report registers; call [`Machine::clear_volatile`] after delivery.
    pub fn reported(&self, program: &Program) -> &[u64] {
        &self.report[..program.reports.len()]
    }

    pub fn clear_volatile(&mut self, program: &Program) {
        let reports = program.reports.iter().zip(&mut self.report);
        let controls = program.controls.iter().zip(&mut self.control);
        for (register, value) in reports.chain(controls).filter(|(r, _)| r.volatile) {
            *value = register.init;
        }
    }
}

/// Returns `l op r` for operators that do not read their result register; `r` for conditional ones.
#[inline]
pub(crate) fn apply(op: Op, l: u64, r: u64) -> Result<u64, FoldError> {
    Ok(match op {
        Op::Add => l.checked_add(r).ok_or(FoldError::AddOverflow)?,
        Op::Sub => l.checked_sub(r).ok_or(FoldError::SubUnderflow)?,
        Op::Div => l.checked_div(r).ok_or(FoldError::DivByZero)?,
        Op::Mul => {
            // libccp's test, which misses many overflows; programs may depend on it.
            let product = l.wrapping_mul(r);
            if product < l && r > 0 {
                return Err(FoldError::MulOverflow);
            }
            product
        }
        Op::Equiv => (l == r) as u64,
        Op::Gt => (l > r) as u64,
        Op::Lt => (l < r) as u64,
        Op::Max => l.max(r),
        Op::Min => l.min(r),
        Op::MaxWrap => max_wrap(l, r),
        Op::Bind | Op::If | Op::NotIf => r,
        Op::Ewma => unreachable!("ewma reads its result register"),
    })
}

/// Returns the moving average of `old` and `new`, with a weight of `weight` tenths for `old`.
fn ewma(weight: u64, old: u64, new: u64) -> u64 {
    if old == 0 {
        return new;
    }
    let kept = weight.wrapping_mul(old);
    let added = 10u64.wrapping_sub(weight).wrapping_mul(new);
    kept.wrapping_add(added) / 10
}

/// Returns the later of two 32-bit sequence numbers; the upper halves are dropped unless the other is 0.
fn max_wrap(l: u64, r: u64) -> u64 {
    // Upward steps from one to the other; through the wrap, libccp counts one step too few.
    let steps = |from: u32, to: u32| if to > from { to - from } else { (u32::MAX - from).wrapping_add(to) };
    if l == 0 {
        return r;
    }
    if r == 0 {
        return l;
    }
    let (l, r) = (l as u32, r as u32);
    u64::from(if steps(r, l) < steps(l, r) { l } else { r })
}
