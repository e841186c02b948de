//! Encodes bytecode.

use super::{DEF, INFINITE_INIT, INFINITY, kind, number};
use crate::error::{LangError, Pos, Problem};
use crate::ir::{Implicit, Instr, Program, Reg, Register};
use crate::prims::{N_PORTUS_PRIMS, PRIMITIVES};

/// Largest constant that portus sends, except `+infinity`.
const LARGEST_OF_PORTUS: u64 = (1 << 31) - 1;

/// Returns the numbers of events and instructions, and the bytes that portus would send. Errors: `lang.limit` lists
/// everything that portus' datapaths lack: ccplane's own primitives, and constants of more than 31 bits.
pub fn encode(program: &Program) -> Result<(u32, u32, Vec<u8>), LangError> {
    let wire = Wire {
        reports: &program.reports,
        controls: &program.controls,
        declares: true,
        largest: LARGEST_OF_PORTUS,
        first_line: program.first_line,
        events: program.events.iter().map(|event| (program.flag(event), program.body(event))).collect(),
    };
    wire.to_bytes().map_err(|problems| LangError::of_program(program, problems))
}

pub(crate) struct Wire<'a> {
    pub reports: &'a [Register],
    pub controls: &'a [Register],
    /// Control registers that keep their values are also declared.
    pub declares: bool,
    /// Largest constant, except `+infinity`.
    pub largest: u64,
    pub first_line: u32,
    pub events: Vec<(&'a [Instr], &'a [Instr])>,
}

impl Wire<'_> {
    /// Returns the numbers of events and instructions, and their bytes.
    pub fn to_bytes(&self) -> Result<(u32, u32, Vec<u8>), Vec<Problem>> {
        let mut encoder =
            Encoder { wire: self, raw: Vec::new(), line: self.first_line, problems: Vec::new() };
        let reports = self.reports.iter().zip(0..).map(|(register, i)| (Reg::Report(i), register));
        let controls = self.controls.iter().zip(0..).map(|(register, i)| (Reg::Control(i), register));
        let controls = controls.filter(|(_, register)| self.declares || register.volatile);
        let declared: Vec<_> = reports.chain(controls).collect();
        let mut at = declared.len();
        for (flag, body) in &self.events {
            for n in [at, flag.len(), at + flag.len(), body.len()] {
                encoder.raw.extend((n as u32).to_le_bytes());
            }
            at += flag.len() + body.len();
        }
        for (reg, Register { init, .. }) in declared {
            encoder.instr(DEF, [reg, reg, Reg::Imm(*init)]);
            if *init == u64::from(INFINITE_INIT) {
                encoder.refuse(format!("the initial value {init}"), "portus' datapaths treat it as infinity");
            }
        }
        for instr in self.events.iter().flat_map(|(flag, body)| flag.iter().chain(*body)) {
            encoder.line = instr.line;
            encoder.instr(number(instr.op), [instr.res, instr.left, instr.right]);
        }
        if !encoder.problems.is_empty() {
            return Err(encoder.problems);
        }
        Ok((self.events.len() as u32, at as u32, encoder.raw))
    }
}

pub(crate) fn control_kind(register: &Register) -> u8 {
    if register.volatile { kind::VOLATILE_CONTROL } else { kind::CONTROL }
}

struct Encoder<'a> {
    wire: &'a Wire<'a>,
    raw: Vec<u8>,
    line: u32,
    problems: Vec<Problem>,
}

impl Encoder<'_> {
    fn instr(&mut self, op: u8, operands: [Reg; 3]) {
        self.raw.push(op);
        for reg in operands {
            let (of_kind, number) = self.operand(reg);
            self.raw.push(of_kind);
            self.raw.extend(number.to_le_bytes());
        }
    }

    fn operand(&mut self, reg: Reg) -> (u8, u32) {
        match reg {
            Reg::Control(i) => (control_kind(&self.wire.controls[usize::from(i)]), u32::from(i)),
            Reg::Imm(n) => (kind::CONSTANT, self.constant(n)),
            Reg::Implicit(i) => (
                kind::IMPLICIT,
                Implicit::ALL.iter().position(|known| *known == i).unwrap_or_default() as u32,
            ),
            Reg::Local(i) => (kind::LOCAL, u32::from(i)),
            Reg::Prim(i) => {
                if usize::from(i) >= N_PORTUS_PRIMS {
                    let name = PRIMITIVES[usize::from(i)].name;
                    self.refuse(
                        format!("no field `{name}`"),
                        "portus' datapaths do not have this primitive of ccplane",
                    );
                }
                (kind::PRIMITIVE, u32::from(i))
            }
            Reg::Report(i) if self.wire.reports[usize::from(i)].volatile => {
                (kind::VOLATILE_REPORT, u32::from(i))
            }
            Reg::Report(i) => (kind::REPORT, u32::from(i)),
            Reg::Tmp(i) => (kind::TMP, u32::from(i)),
        }
    }

    fn constant(&mut self, n: u64) -> u32 {
        match u32::try_from(n) {
            _ if n == u64::MAX => INFINITY,
            Ok(small) if n <= self.wire.largest => small,
            _ => {
                let why = format!("messages carry numbers up to {}", self.wire.largest);
                self.refuse(format!("the number {n}"), &why);
                0
            }
        }
    }

    fn refuse(&mut self, message: String, why: &str) {
        let at = Pos { line: self.line + 1 - self.wire.first_line, column: 1 };
        let fix = "write the program without it, or run it on the kernel datapath";
        let problem = Problem::new("lang.limit", at, message, why, fix);
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}
