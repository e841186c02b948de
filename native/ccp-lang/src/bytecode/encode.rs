//! A program to octets.

use super::{DEF, INFINITE_INIT, INFINITY, kind, number};
use crate::Source;
use crate::error::{LangError, Pos, Problem};
use crate::ir::{Event, Implicit, Program, Reg};
use crate::prims::{N_PORTUS_PRIMS, PRIMITIVES};

/// Least constant that does not go over the wire, but for `+infinity`: portus stops here, too.
const TOO_LARGE: u64 = 1 << 31;

/// Returns how many events and instructions a program has, and their octets.
///
/// # Errors
///
/// `lang.limit`, with all that portus' datapaths do not have: primitives of ccplane's own, and constants of more than
/// 31 bits.
pub fn encode(program: &Program) -> Result<(u32, u32, Vec<u8>), LangError> {
    let mut encoder = Encoder { program, octets: Vec::new(), line: program.first_line, problems: Vec::new() };
    let n_defs = program.reports.len() + program.controls.len();
    for Event { flag_start, n_flag, body_start, n_body, .. } in &program.events {
        for n in [n_defs + flag_start, *n_flag, n_defs + body_start, *n_body] {
            encoder.octets.extend((n as u32).to_le_bytes());
        }
    }
    let reports = program.reports.iter().zip(0..).map(|(register, i)| (Reg::Report(i), register.init));
    let controls = program.controls.iter().zip(0..).map(|(register, i)| (Reg::Control(i), register.init));
    for (reg, init) in reports.chain(controls) {
        encoder.instr(DEF, [reg, reg, Reg::Imm(init)]);
        if init == u64::from(INFINITE_INIT) {
            encoder.refuse(format!("the initial value {init}"), "portus' datapaths take it for infinity");
        }
    }
    for instr in &program.instrs {
        encoder.line = instr.line;
        encoder.instr(number(instr.op), [instr.res, instr.left, instr.right]);
    }
    if !encoder.problems.is_empty() {
        let (name, origin, first_line) = (&program.name, &program.origin, program.first_line);
        return Err(LangError::from_problems(
            &Source { text: "", name, origin, first_line },
            encoder.problems,
        ));
    }
    Ok((program.events.len() as u32, (n_defs + program.instrs.len()) as u32, encoder.octets))
}

struct Encoder<'a> {
    program: &'a Program,
    octets: Vec<u8>,
    line: u32,
    problems: Vec<Problem>,
}

impl Encoder<'_> {
    fn instr(&mut self, op: u8, operands: [Reg; 3]) {
        self.octets.push(op);
        for reg in operands {
            let (of_kind, number) = self.operand(reg);
            self.octets.push(of_kind);
            self.octets.extend(number.to_le_bytes());
        }
    }

    fn operand(&mut self, reg: Reg) -> (u8, u32) {
        match reg {
            Reg::Control(i) if self.program.controls[usize::from(i)].volatile => {
                (kind::VOLATILE_CONTROL, u32::from(i))
            }
            Reg::Control(i) => (kind::CONTROL, u32::from(i)),
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
                        "it is ccplane's own, and portus' datapaths lack it",
                    );
                }
                (kind::PRIMITIVE, u32::from(i))
            }
            Reg::Report(i) if self.program.reports[usize::from(i)].volatile => {
                (kind::VOLATILE_REPORT, u32::from(i))
            }
            Reg::Report(i) => (kind::REPORT, u32::from(i)),
            Reg::Tmp(i) => (kind::TMP, u32::from(i)),
        }
    }

    fn constant(&mut self, n: u64) -> u32 {
        match u32::try_from(n) {
            _ if n == u64::MAX => INFINITY,
            Ok(small) if n < TOO_LARGE => small,
            _ => {
                self.refuse(format!("the number {n}"), "portus' messages carry numbers below 2147483648");
                0
            }
        }
    }

    fn refuse(&mut self, message: String, why: &str) {
        let at = Pos { line: self.line + 1 - self.program.first_line, column: 1 };
        let fix = "write the program without it, or run it on the kernel datapath";
        let problem = Problem::new("lang.limit", at, message, why, fix);
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}
