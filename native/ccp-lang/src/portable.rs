//! Adapts a program to third-party datapaths: only CCP's primitives, and the limits of libccp or of another machine.
//!
//! Missing primitives are computed from existing ones where possible (`derive.rs`), before the first condition, which
//! runs on every ACK. Constants and initial values of more than 32 bits become control registers that the agent sets
//! with the program, because those messages carry 64 bits. After the program's Report registers come additional ones,
//! which give the agent window, rate and totals.

mod clauses;
mod derive;
mod flags;
mod private;
mod squeeze;

use crate::bytecode::{self, Wire};
use crate::error::{LangError, Pos, Problem};
use crate::ir::{Implicit, Instr, MAX_INSTRS, MAX_REGISTERS, Op, Program, Reg, Register};

/// Limits of a datapath.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pub max_instrs: usize,
    pub max_events: usize,
    pub max_registers: usize,
    pub max_tmps: usize,
    /// Local registers start at 0. libccp's keep another program's values, so control registers replace them.
    pub has_locals: bool,
    pub declares: bool,
    /// Room is scarce: use every way to shorten programs.
    pub is_tight: bool,
}

/// libccp 1.2: its tables hold 256 instructions and 110 registers, but it counts instructions in 8 bits.
pub const LIBCCP: Target = Target {
    max_instrs: 255,
    max_events: 256,
    max_registers: 110,
    max_tmps: 8,
    has_locals: false,
    declares: false,
    is_tight: true,
};

/// The limits of [`bytecode::decode`].
pub const CCPLANE: Target = Target {
    max_instrs: MAX_INSTRS,
    max_events: MAX_INSTRS,
    max_registers: MAX_REGISTERS,
    max_tmps: 16,
    has_locals: true,
    declares: true,
    is_tight: false,
};

#[derive(Clone, Debug)]
pub struct Portable {
    pub n_events: u32,
    pub n_instrs: u32,
    pub raw: Vec<u8>,
    /// Kind on the wire of each control register of the program itself.
    pub control_kinds: Vec<u8>,
    /// Initial values, by control register, that are sent with the program.
    pub begin: Vec<(u8, u64)>,
    /// Control registers with initial values from the agent's knowledge of the flow: name, register, multiplier.
    pub carried: Vec<(&'static str, u8, u64)>,
    /// Report registers for the agent, and their place in a report; they may be the program's.
    pub head: Vec<(&'static str, u8)>,
    pub n_reports: usize,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Clause {
    flag: Vec<Instr>,
    body: Vec<Instr>,
}

pub(crate) struct Work {
    clauses: Vec<Clause>,
    reports: Vec<Register>,
    controls: Vec<Register>,
    n_local: usize,
    /// Control registers of the program itself; the ones after them are additional and private.
    n_own: usize,
}

impl Work {
    fn new(program: &Program) -> Self {
        let clause =
            |event| Clause { flag: program.flag(event).to_vec(), body: program.body(event).to_vec() };
        Work {
            clauses: program.events.iter().map(clause).collect(),
            reports: program.reports.clone(),
            controls: program.controls.clone(),
            n_local: program.n_local,
            n_own: program.controls.len(),
        }
    }

    fn instrs(&mut self) -> impl Iterator<Item = &mut Instr> {
        self.clauses.iter_mut().flat_map(|clause| clause.flag.iter_mut().chain(&mut clause.body))
    }

    /// Adds a private control register; returns its index.
    fn control(&mut self, init: u64) -> u8 {
        self.controls.push(Register { name: String::new(), is_bool: false, volatile: false, init });
        (self.controls.len() - 1) as u8
    }

    fn report(&mut self, volatile: bool) -> Reg {
        self.reports.push(Register { name: String::new(), is_bool: false, volatile, init: 0 });
        Reg::Report((self.reports.len() - 1) as u8)
    }

    /// Moves constants of more than 32 bits into registers.
    fn spread_constants(&mut self) {
        let mut known: Vec<(u64, Reg)> = Vec::new();
        let mut controls = std::mem::take(&mut self.controls);
        for instr in self.instrs() {
            for reg in [&mut instr.left, &mut instr.right] {
                let Reg::Imm(n) = *reg else { continue };
                if n <= u64::from(u32::MAX) {
                    continue;
                }
                let there = known.iter().find(|(value, _)| *value == n).map(|(_, reg)| *reg);
                *reg = there.unwrap_or_else(|| {
                    let reg = Reg::Control(controls.len() as u8);
                    controls.push(Register { name: String::new(), is_bool: false, volatile: false, init: n });
                    known.push((n, reg));
                    reg
                });
            }
        }
        self.controls = controls;
    }

    /// Moves local registers into control registers.
    fn settle_locals(&mut self) {
        let locals: Vec<Reg> = (0..self.n_local).map(|_| Reg::Control(self.control(0))).collect();
        for instr in self.instrs() {
            for reg in [&mut instr.res, &mut instr.left, &mut instr.right] {
                if let Reg::Local(i) = *reg {
                    *reg = locals[usize::from(i)];
                }
            }
        }
        self.n_local = 0;
    }

    fn n_instrs(&self) -> usize {
        self.clauses.iter().map(|clause| clause.flag.len() + clause.body.len()).sum()
    }
}

/// Returns the program to send. Errors: `lang.limit` lists everything that the datapath lacks.
pub fn portable(program: &Program, target: &Target) -> Result<Portable, LangError> {
    let refuse = |problems| LangError::of_program(program, problems);
    let missing = derive::missing(program);
    if !missing.is_empty() {
        return Err(refuse(missing));
    }
    let mut work = Work::new(program);
    let looks_at_last = clauses::join(&mut work);
    let derived = derive::splice(&mut work, program.prims_used, looks_at_last, target);
    if target.is_tight {
        clauses::join_first(&mut work);
        work.forget();
    }
    if !target.has_locals {
        work.settle_locals();
    }
    squeeze::squeeze(&mut work, target.is_tight);
    work.spread_constants();
    squeeze::number_tmps(&mut work, target.max_tmps);
    let problems = too_large(&work, target);
    if !problems.is_empty() {
        return Err(refuse(problems));
    }
    let mut begin = Vec::new();
    for (register, i) in work.controls.iter_mut().zip(0..) {
        // Declared registers also return to that value after each report, if volatile.
        let sent = register.init > u64::from(u32::MAX) || register.init == bytecode::TAKEN_FOR_INFINITY;
        if sent || !(target.declares || register.volatile) {
            begin.push((i, register.init));
        }
        if sent && !register.volatile {
            register.init = 0;
        }
    }
    let sent = Wire {
        reports: &work.reports,
        controls: &work.controls,
        declares: target.declares,
        largest: u64::from(u32::MAX),
        first_line: program.first_line,
        events: work.clauses.iter().map(|clause| (&clause.flag[..], &clause.body[..])).collect(),
    };
    let (n_events, n_instrs, raw) = sent.to_bytes().map_err(refuse)?;
    let control_kinds = program.controls.iter().map(bytecode::control_kind).collect();
    Ok(Portable {
        n_events,
        n_instrs,
        raw,
        control_kinds,
        begin,
        carried: derived.carried,
        head: derived.head,
        n_reports: work.reports.len(),
    })
}

fn too_large(work: &Work, target: &Target) -> Vec<Problem> {
    let declared = work.reports.len()
        + work.controls.iter().filter(|register| target.declares || register.volatile).count();
    let n_instrs = declared + work.n_instrs();
    let counts = [
        (n_instrs, target.max_instrs, "instructions, including declarations and additions for this datapath"),
        (work.clauses.len(), target.max_events, "`when` clauses"),
        (work.reports.len(), target.max_registers, "Report registers, including the agent's"),
        (work.controls.len(), target.max_registers, "control registers, including the agent's"),
    ];
    let beyond = counts.into_iter().filter(|(n, maximum, _)| n > maximum);
    beyond
        .map(|(n, maximum, what)| {
            Problem::new(
                "lang.limit",
                Pos { line: 1, column: 1 },
                format!("{n} {what}"),
                format!("this datapath has room for {maximum}"),
                "shorten the program, or run it on the kernel datapath",
            )
        })
        .collect()
}

fn bind(res: Reg, value: Reg, line: u32) -> Instr {
    Instr { op: Op::Bind, res, left: res, right: value, line }
}

fn writes(instr: &Instr, implicit: Implicit) -> bool {
    instr.res == Reg::Implicit(implicit)
}
