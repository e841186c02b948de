//! libccp, driven by an agent's messages.

use ccp_lang::bytecode::{self, Bytecode};
use ccp_lang::portable::Portable;
use ccp_lang::prims::Prims;
use ccp_lang::{Event, FoldError, Folded, Implicit, Machine, Outcome, Program, Reg};

/// libccp's maximum registers and instructions, including declarations.
pub const MAX_TMPS: usize = 8;
pub const MAX_LOCALS: usize = 8;
/// One below its table's size: it counts in 8 bits and would never end a program that fills the table.
pub const MAX_INSTRS: usize = 255;
/// The initial value that libccp treats as infinity.
pub const INFINITY: u64 = 0x3fff_ffff;

const N_REGISTERS: usize = 110;

#[repr(C)]
struct Inputs {
    now_us: u64,
    cwnd_bytes: u64,
    rate_bytes_per_s: u64,
    prim: [u64; 15],
}

#[repr(C)]
struct State {
    report: [u64; N_REGISTERS],
    control: [u64; N_REGISTERS],
    local: [u64; MAX_LOCALS],
    imp: [u64; 6],
    time_zero_us: u64,
    n_sent: u64,
    sent: [u64; N_REGISTERS],
}

unsafe extern "C" {
    fn difftest_start() -> i32;
    fn difftest_message(message: *mut u8, bytes: i32) -> i32;
    fn difftest_set_constant(instruction: i32, right: i32, value: u64);
    fn difftest_clear_locals();
    fn difftest_invoke(inputs: *const Inputs, state: *mut State) -> i32;
}

pub struct Run {
    pub outcome: Outcome,
    /// The report registers, if it sent them.
    pub report: Option<Vec<u64>>,
    /// Its registers, as far as the interpreter has them.
    pub registers: Machine,
}

/// A flow of libccp with one program, one per thread.
pub struct Reference {
    n_instrs: usize,
    /// Registers with other initial values than declared: kind, index, value.
    begin: Vec<(u8, u8, u64)>,
}

const INSTALL: u16 = 2;
const UPDATE_FIELDS: u16 = 3;
const CHANGE_PROGRAM: u16 = 4;
/// libccp clears its table when this program is installed.
const FIRST_UID: u32 = 1;

impl Reference {
    /// Returns a flow that runs `program` from its next ACK on.
    pub fn new(program: &Program) -> Self {
        let instrs = wire_instrs(program);
        let n_defs = instrs.len() - program.instrs.len();
        let mut raw = Vec::new();
        for Event { flag_start, n_flag, body_start, n_body, .. } in &program.events {
            for n in [n_defs + flag_start, *n_flag, n_defs + body_start, *n_body] {
                raw.extend((n as u32).to_le_bytes());
            }
        }
        raw.extend(instrs.iter().flat_map(|i| i.bytes()));
        let (n_events, n_instrs) = (program.events.len() as u32, instrs.len() as u32);
        let reference = Reference::given(&Bytecode { n_events, n_instrs, raw: &raw, name: "", origin: "" });
        for (i, instr) in instrs.iter().enumerate() {
            for (right, (_, value)) in [instr.left, instr.right].into_iter().enumerate() {
                if value > u64::from(u32::MAX) {
                    // SAFETY: the program has that instruction.
                    unsafe { difftest_set_constant(i as i32, right as i32, value) };
                }
            }
        }
        reference
    }

    /// Returns a flow that runs a program as ccplane's agent sends it.
    pub fn portable(sent: &Portable) -> Self {
        let Portable { n_events, n_instrs, raw, .. } = sent;
        let kind = |i: u8| sent.control_kinds.get(usize::from(i)).copied().unwrap_or_default();
        let begin = sent.begin.iter().map(|(i, value)| (kind(*i), *i, *value)).collect();
        let code = Bytecode { n_events: *n_events, n_instrs: *n_instrs, raw, name: "", origin: "" };
        Reference::beginning(&code, begin)
    }

    /// Returns a flow that runs an agent's bytes unchanged.
    pub fn given(code: &Bytecode) -> Self {
        Reference::beginning(code, Vec::new())
    }

    fn beginning(code: &Bytecode, begin: Vec<(u8, u8, u64)>) -> Self {
        // SAFETY: touches only the thread's own state.
        let err = unsafe { difftest_start() };
        assert_eq!(err, 0, "libccp does not start");
        let reference = Reference { n_instrs: code.n_instrs as usize, begin };
        assert!(reference.n_instrs <= MAX_INSTRS, "libccp has no room for {} instructions", code.n_instrs);
        let counts = [FIRST_UID, code.n_events, code.n_instrs].into_iter().flat_map(u32::to_le_bytes);
        reference.send(INSTALL, &counts.chain(code.raw.iter().copied()).collect::<Vec<_>>());
        reference.change_program();
        reference
    }

    fn send(&self, kind: u16, body: &[u8]) {
        let mut message = Vec::new();
        message.extend(kind.to_le_bytes());
        message.extend((body.len() as u16 + 8).to_le_bytes());
        message.extend(1u32.to_le_bytes());
        message.extend(body);
        // SAFETY: libccp copies what it keeps.
        let result = unsafe { difftest_message(message.as_mut_ptr(), message.len() as i32) };
        assert!(
            result >= 0,
            "libccp rejected a message of kind {kind} with {} instructions: {result}",
            self.n_instrs
        );
    }

    /// Restarts the program at the next ACK.
    pub fn change_program(&self) {
        let mut message = [FIRST_UID.to_le_bytes(), (self.begin.len() as u32).to_le_bytes()].concat();
        for (kind, index, value) in &self.begin {
            message.push(*kind);
            message.extend(u32::from(*index).to_le_bytes());
            message.extend(value.to_le_bytes());
        }
        self.send(CHANGE_PROGRAM, &message);
        // SAFETY: touches only the thread's own state.
        unsafe { difftest_clear_locals() };
    }

    /// Sets registers at the next ACK: a control register of `program`, or Cwnd or Rate.
    pub fn update(&self, program: &Program, fields: &[(Reg, u64)]) {
        let mut message = (fields.len() as u32).to_le_bytes().to_vec();
        for (reg, value) in fields {
            let (kind, index) = wire_reg(program, *reg);
            message.push(kind);
            message.extend((index as u32).to_le_bytes());
            message.extend(value.to_le_bytes());
        }
        self.send(UPDATE_FIELDS, &message);
    }

    pub fn invoke(&self, prims: &Prims, now_us: u64, cwnd_bytes: u64, rate_bytes_per_s: u64) -> Run {
        let mut prim = [0; 15];
        prim.copy_from_slice(&prims[..15]);
        let inputs = Inputs { now_us, cwnd_bytes, rate_bytes_per_s, prim };
        let mut state = State {
            report: [0; N_REGISTERS],
            control: [0; N_REGISTERS],
            local: [0; MAX_LOCALS],
            imp: [0; 6],
            time_zero_us: 0,
            n_sent: 0,
            sent: [0; N_REGISTERS],
        };
        // SAFETY: both structures are laid out as in shim.c.
        let result = unsafe { difftest_invoke(&inputs, &mut state) };
        let sent = usize::try_from(state.n_sent).ok().filter(|n| *n <= N_REGISTERS);
        let outcome = match result {
            0 => Ok(Folded { report: sent.is_some() }),
            -91 => Err(FoldError::AddOverflow),
            -92 => Err(FoldError::DivByZero),
            -93 => Err(FoldError::MulOverflow),
            -94 => Err(FoldError::SubUnderflow),
            other => panic!("libccp did not run the program: {other}"),
        };
        let mut registers = Machine::new();
        registers.report.copy_from_slice(&state.report[..64]);
        registers.control.copy_from_slice(&state.control[..64]);
        registers.local[..MAX_LOCALS].copy_from_slice(&state.local);
        registers.imp = state.imp;
        registers.time_zero_us = state.time_zero_us;
        Run { outcome, report: sent.map(|n| state.sent[..n].to_vec()), registers }
    }
}

/// An instruction in libccp's encoding: kinds of registers, and indices or constants.
struct WireInstr {
    op: u8,
    res: (u8, u64),
    left: (u8, u64),
    right: (u8, u64),
}

impl WireInstr {
    fn bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[0] = self.op;
        for (at, (kind, value)) in [(1, self.res), (6, self.left), (11, self.right)] {
            bytes[at] = kind;
            bytes[at + 1..at + 5].copy_from_slice(&(value as u32).to_le_bytes());
        }
        bytes
    }
}

/// Number of instructions that libccp needs for a program.
pub fn n_instrs(program: &Program) -> usize {
    program.reports.len() + program.controls.len() + program.instrs.len()
}

/// The declarations of a program, followed by its instructions.
fn wire_instrs(program: &Program) -> Vec<WireInstr> {
    let reports = (0..program.reports.len()).map(|i| (Reg::Report(i as u8), program.reports[i].init));
    let controls = (0..program.controls.len()).map(|i| (Reg::Control(i as u8), program.controls[i].init));
    let defs = reports.chain(controls).map(|(reg, init)| {
        assert_ne!(init, INFINITY, "libccp would take it for infinity");
        let reg = wire_reg(program, reg);
        WireInstr { op: 2, res: reg, left: reg, right: wire_reg(program, Reg::Imm(init)) }
    });
    let instrs = program.instrs.iter().map(|instr| WireInstr {
        op: bytecode::number(instr.op),
        res: wire_reg(program, instr.res),
        left: wire_reg(program, instr.left),
        right: wire_reg(program, instr.right),
    });
    defs.chain(instrs).collect()
}

fn wire_reg(program: &Program, reg: Reg) -> (u8, u64) {
    match reg {
        Reg::Control(i) => (if program.controls[i as usize].volatile { 8 } else { 0 }, u64::from(i)),
        Reg::Imm(n) => (1, n),
        Reg::Implicit(i) => (2, Implicit::ALL.iter().position(|known| *known == i).unwrap() as u64),
        Reg::Local(i) => (3, u64::from(i)),
        Reg::Prim(i) => (4, u64::from(i)),
        Reg::Report(i) => (if program.reports[i as usize].volatile { 5 } else { 6 }, u64::from(i)),
        Reg::Tmp(i) => (7, u64::from(i)),
    }
}
