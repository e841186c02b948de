//! Decodes bytecode.

use std::collections::{BTreeMap, HashSet};

use super::{DEF, INFINITE_INIT, INFINITY, MAX_TMPS, OPS, RECORD_BYTES, implicit, kind};
use crate::Source;
use crate::error::{LangError, Pos, Problem};
use crate::ir::{Event, Implicit, Instr, MAX_INSTRS, MAX_REGISTERS, Op, Parts, Program, Reg, Register};
use crate::prims::{N_PORTUS_PRIMS, NO_RTT_SAMPLE, RTT_SAMPLE_US, SRTT_US};
use crate::read::{FNV, fnv};

#[derive(Clone, Copy, Debug)]
pub struct Bytecode<'a> {
    pub n_events: u32,
    pub n_instrs: u32,
    /// The events, followed by the instructions.
    pub raw: &'a [u8],
    pub name: &'a str,
    /// Name of the sender, for messages.
    pub origin: &'a str,
}

/// Returns the program, or all its errors. Lines are numbers of instructions, including declarations, from 1; registers
/// are called `r0`, `c0` and `l0`, because bytecode has no names. Errors: `lang.bytecode` or `lang.limit`.
pub fn decode(code: &Bytecode) -> Result<Program, LangError> {
    let source = source(code);
    parts(code, false).map(|parts| parts.assembled(&source)).map_err(|p| LangError::from_problems(&source, p))
}

/// Like [`decode`], for a datapath that also folds ACKs without an RTT sample: those read the smoothed RTT.
/// CCP's kernel module does not fold such ACKs, so agents treat each sample as a round-trip time.
pub fn decode_with_rtt(code: &Bytecode) -> Result<Program, LangError> {
    let source = source(code);
    parts(code, true).map(|parts| parts.assembled(&source)).map_err(|p| LangError::from_problems(&source, p))
}

fn source<'a>(code: &Bytecode<'a>) -> Source<'a> {
    Source { text: "", name: code.name, origin: code.origin, first_line: 1 }
}

fn parts(code: &Bytecode, with_rtt: bool) -> Result<Parts, Vec<Problem>> {
    let (events, instrs) = split(code).map_err(|problem| vec![problem])?;
    let n_defs = instrs.iter().take_while(|raw| raw[0] == DEF).count();
    let mut decoder = Decoder::default();
    for (i, raw) in instrs[..n_defs].iter().enumerate() {
        decoder.declaration(at(i), raw);
    }
    decoder.number_registers();
    let instrs = instrs.iter().enumerate().skip(n_defs);
    let mut instrs: Vec<_> = instrs.filter_map(|(i, raw)| decoder.instr(at(i), raw)).collect();
    if !decoder.problems.is_empty() {
        return Err(decoder.problems);
    }
    // Events may overlap: they are looked at only if all together are within the limit.
    decoder.sizes(events, instrs.len());
    if !decoder.problems.is_empty() {
        return Err(decoder.problems);
    }
    let events = events.iter().map(|raw| decoder.event(raw, &instrs, n_defs));
    let mut events: Vec<_> = events.collect::<Option<_>>().unwrap_or_default();
    if with_rtt {
        decoder.fill_rtt(&mut instrs, &mut events);
    }
    decoder.limits(&instrs, &events);
    if !decoder.problems.is_empty() {
        return Err(decoder.problems);
    }
    let counts = [code.n_events, code.n_instrs].into_iter().flat_map(u32::to_le_bytes);
    Ok(Parts {
        uid: fnv(FNV, counts.chain(code.raw.iter().copied())).max(1),
        instrs,
        events,
        reports: decoder.reports.into_values().collect(),
        controls: decoder.controls.into_values().collect(),
        locals: (0..decoder.n_locals).map(|i| format!("l{i}")).collect(),
    })
}

type Record = [u8; RECORD_BYTES];

fn split<'a>(code: &Bytecode<'a>) -> Result<(&'a [Record], &'a [Record]), Problem> {
    let (records, rest) = code.raw.as_chunks();
    let wanted = u64::from(code.n_events) + u64::from(code.n_instrs);
    if records.len() as u64 != wanted || !rest.is_empty() {
        let came = format!(
            "{} bytes are not {} events and {} instructions",
            code.raw.len(),
            code.n_events,
            code.n_instrs
        );
        return Err(malformed(at(0), came, format!("each takes {RECORD_BYTES} bytes")));
    }
    Ok(records.split_at(code.n_events as usize))
}

fn at(index: usize) -> Pos {
    Pos { line: index as u32 + 1, column: 1 }
}

fn malformed(at: Pos, message: impl Into<String>, why: impl Into<String>) -> Problem {
    Problem::new("lang.bytecode", at, message, why, "send bytecode compiled by portus")
}

fn too_many(at: Pos, message: impl Into<String>, why: impl Into<String>) -> Problem {
    Problem::new("lang.limit", at, message, why, "shorten the program, or split it into several")
}

fn number_at(raw: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]])
}

/// Start and length of an event's condition, and of its body.
fn ranges(raw: &Record) -> [usize; 4] {
    [0, 4, 8, 12].map(|at| number_at(raw, at) as usize)
}

/// Kind and number of the operand at this offset.
fn operand(raw: &Record, at: usize) -> (u8, u32) {
    (raw[at], number_at(raw, at + 1))
}

#[derive(Default)]
struct Decoder {
    problems: Vec<Problem>,
    reports: BTreeMap<u32, Register>,
    controls: BTreeMap<u32, Register>,
    n_locals: u32,
}

impl Decoder {
    fn declaration(&mut self, at: Pos, raw: &Record) {
        let (register, init) = (operand(raw, 6), operand(raw, 11));
        let (of_kind, index) = register;
        let (registers, update, volatile) = match of_kind {
            kind::CONTROL => (&mut self.controls, 'c', false),
            kind::VOLATILE_CONTROL => (&mut self.controls, 'c', true),
            kind::REPORT => (&mut self.reports, 'r', false),
            kind::VOLATILE_REPORT => (&mut self.reports, 'r', true),
            other => {
                let message = format!("a declaration of a register of kind {other}");
                return self.problems.push(malformed(
                    at,
                    message,
                    "only report and control registers can be declared",
                ));
            }
        };
        let init = match init {
            (kind::CONSTANT, INFINITE_INIT) => INFINITY,
            (kind::CONSTANT, init) => init,
            (other, _) => {
                let message = format!("`{update}{index}` begins with an operand of kind {other}");
                return self.problems.push(malformed(at, message, "initial values must be constants"));
            }
        };
        let name = format!("{update}{index}");
        if operand(raw, 1) != register || registers.contains_key(&index) {
            let why = "each register is declared once";
            return self.problems.push(malformed(at, format!("a second declaration of `{name}`"), why));
        }
        registers.insert(index, Register { name, is_bool: false, volatile, init: u64::from(init) });
    }

    /// Checks that registers are numbered from 0 without gaps, as in reports, and that there is room.
    fn number_registers(&mut self) {
        for (registers, update) in [(&self.reports, 'r'), (&self.controls, 'c')] {
            if registers.len() > MAX_REGISTERS {
                let message = format!("too many registers like `{update}0`: {}", registers.len());
                self.problems.push(too_many(
                    at(0),
                    message,
                    format!("a flow has at most {MAX_REGISTERS} of each kind"),
                ));
            } else if let Some(gap) = (0..).zip(registers.keys()).find(|(i, index)| i != *index) {
                let message = format!("`{update}{}` is declared and `{update}{}` is not", gap.1, gap.0);
                self.problems.push(malformed(
                    at(0),
                    message,
                    "registers must be numbered from 0 without gaps",
                ));
            }
        }
    }

    fn instr(&mut self, at: Pos, raw: &Record) -> Option<Instr> {
        let Some(Some(op)) = OPS.get(usize::from(raw[0])).copied() else {
            let message = match raw[0] {
                DEF => "a declaration among instructions".to_string(),
                other => format!("operator {other}"),
            };
            self.problems.push(malformed(
                at,
                message,
                "declarations must come first, and operators are 0 to 14",
            ));
            return None;
        };
        let res = self.target(at, op, operand(raw, 1));
        // The left operand of a bind is its target, and is not read.
        let left = if op == Op::Bind { res } else { self.source(at, operand(raw, 6)) };
        let right = self.source(at, operand(raw, 11));
        let instr = Instr { op, res: res?, left: left?, right: right?, line: at.line };
        if let Reg::Implicit(implicit @ (Implicit::ShouldContinue | Implicit::ShouldReport)) = instr.res
            && (op, instr.right) != (Op::Bind, Reg::Imm(1))
        {
            let why = "`(report)` and `(fallthrough)` set it to 1";
            self.problems.push(malformed(at, format!("{implicit:?} is computed"), why));
        }
        Some(instr)
    }

    fn target(&mut self, at: Pos, op: Op, (of_kind, index): (u8, u32)) -> Option<Reg> {
        let reg = match of_kind {
            kind::IMPLICIT => implicit(index).map(Reg::Implicit),
            kind::CONSTANT | kind::PRIMITIVE => None,
            _ => self.register(of_kind, index),
        };
        let declared = matches!(reg, Some(Reg::Report(_) | Reg::Control(_)));
        if matches!(op, Op::Ewma | Op::If | Op::NotIf) && !declared {
            let why = "it uses the value of its register, which must be declared";
            self.problems.push(malformed(
                at,
                format!("{op:?} writes to kind {of_kind}, number {index}"),
                why,
            ));
            return None;
        }
        self.known(at, reg, "a result", (of_kind, index))
    }

    fn source(&mut self, at: Pos, (of_kind, index): (u8, u32)) -> Option<Reg> {
        let reg = match of_kind {
            kind::CONSTANT => Some(Reg::Imm(u64::from(index))),
            kind::PRIMITIVE => (index < N_PORTUS_PRIMS as u32).then_some(Reg::Prim(index as u8)),
            kind::IMPLICIT => implicit(index)
                .filter(|i| matches!(i, Implicit::Micros | Implicit::Cwnd | Implicit::Rate))
                .map(Reg::Implicit),
            _ => self.register(of_kind, index),
        };
        self.known(at, reg, "an operand", (of_kind, index))
    }

    fn register(&mut self, of_kind: u8, index: u32) -> Option<Reg> {
        match of_kind {
            kind::CONTROL | kind::VOLATILE_CONTROL => {
                self.controls.contains_key(&index).then_some(Reg::Control(index as u8))
            }
            kind::REPORT | kind::VOLATILE_REPORT => {
                self.reports.contains_key(&index).then_some(Reg::Report(index as u8))
            }
            kind::LOCAL if index < MAX_REGISTERS as u32 => {
                self.n_locals = self.n_locals.max(index + 1);
                Some(Reg::Local(index as u8))
            }
            kind::TMP => (index < MAX_TMPS).then_some(Reg::Tmp(index as u8)),
            _ => None,
        }
    }

    fn known(&mut self, at: Pos, reg: Option<Reg>, what: &str, (of_kind, index): (u8, u32)) -> Option<Reg> {
        if reg.is_none() {
            let message = format!("{what} of kind {of_kind}, number {index}");
            let why = "the register does not exist, is not declared, or is not allowed here";
            self.problems.push(malformed(at, message, why));
        }
        reg
    }

    fn event(&mut self, raw: &Record, instrs: &[Instr], n_defs: usize) -> Option<Event> {
        let [flag_start, n_flag, body_start, n_body] = ranges(raw);
        let inside = |start: usize, n: usize| start >= n_defs && start + n <= n_defs + instrs.len();
        if !inside(flag_start, n_flag) || !inside(body_start, n_body) {
            let message =
                format!("an event of instructions {flag_start} + {n_flag} and {body_start} + {n_body}");
            self.problems.push(malformed(at(0), message, "they are outside the program"));
            return None;
        }
        let [flag_start, body_start] = [flag_start, body_start].map(|start| start - n_defs);
        self.run(&instrs[flag_start..flag_start + n_flag], true, at(n_defs + flag_start));
        self.run(&instrs[body_start..body_start + n_body], false, at(n_defs + body_start));
        Some(Event { flag_start, n_flag, body_start, n_body, line: at(n_defs + flag_start).line })
    }

    /// Checks that a run reads no intermediate result before it is written, and that a condition, and nothing
    /// else, ends with EventFlag.
    fn run(&mut self, instrs: &[Instr], is_flag: bool, begin: Pos) {
        let mut written = HashSet::new();
        for (i, instr) in instrs.iter().enumerate() {
            let here = Pos { line: instr.line, column: 1 };
            let read = if instr.op == Op::Bind { [instr.right; 2] } else { [instr.left, instr.right] };
            if read.iter().any(|reg| matches!(reg, Reg::Tmp(_)) && !written.contains(reg)) {
                let why = "an expression must compute it first";
                self.problems.push(malformed(here, "an intermediate result that was never written", why));
            }
            written.insert(instr.res);
            let Reg::Implicit(implicit) = instr.res else { continue };
            let expected = match implicit {
                Implicit::EventFlag => is_flag && i + 1 == instrs.len(),
                Implicit::ShouldContinue | Implicit::ShouldReport => !is_flag,
                _ => true,
            };
            if !expected {
                let why = "conditions end with EventFlag; bodies use (report) and (fallthrough)";
                self.problems.push(malformed(here, format!("{implicit:?} is written here"), why));
            }
        }
        if is_flag && instrs.last().map(|last| last.res) != Some(Reg::Implicit(Implicit::EventFlag)) {
            self.problems.push(malformed(
                begin,
                "a condition without a value",
                "a condition must end with EventFlag",
            ));
        }
    }

    /// Replaces reads of the RTT sample by a local register, which is set before the first event.
    fn fill_rtt(&mut self, instrs: &mut Vec<Instr>, events: &mut Vec<Event>) {
        let sample = Reg::Prim(RTT_SAMPLE_US);
        if !instrs.iter().any(|instr| [instr.left, instr.right].contains(&sample)) {
            return;
        }
        if self.n_locals == MAX_REGISTERS as u32 {
            let why = format!("a flow has at most {MAX_REGISTERS}, and one is for the RTT");
            return self.problems.push(too_many(at(0), "all local registers are in use", why));
        }
        let rtt = Reg::Local(self.n_locals as u8);
        self.n_locals += 1;
        for operand in instrs.iter_mut().flat_map(|instr| [&mut instr.left, &mut instr.right]) {
            if *operand == sample {
                *operand = rtt;
            }
        }
        let (flag_start, there, flag) = (instrs.len(), Reg::Tmp(0), Reg::Implicit(Implicit::EventFlag));
        instrs.extend(
            [
                (Op::Bind, rtt, rtt, Reg::Prim(SRTT_US)),
                (Op::Lt, there, sample, Reg::Imm(u64::from(NO_RTT_SAMPLE))),
                (Op::If, rtt, there, sample),
                (Op::Bind, flag, flag, Reg::Imm(0)),
            ]
            .map(|(op, res, left, right)| Instr { op, res, left, right, line: 1 }),
        );
        let end = instrs.len();
        let n_flag = end - flag_start;
        events.insert(0, Event { flag_start, n_flag, body_start: end, n_body: 0, line: 1 });
    }

    fn sizes(&mut self, events: &[Record], n_instrs: usize) {
        let lengths = events
            .iter()
            .map(ranges)
            .map(|[_, n_flag, _, n_body]| n_flag.min(n_instrs) + n_body.min(n_instrs));
        self.size(n_instrs.max(lengths.fold(0, usize::saturating_add)));
    }

    fn size(&mut self, n_run: usize) {
        if n_run > MAX_INSTRS {
            let why = format!("a fold runs on every ACK, and has at most {MAX_INSTRS} instructions");
            self.problems.push(too_many(at(0), format!("{n_run} instructions"), why));
        }
    }

    fn limits(&mut self, instrs: &[Instr], events: &[Event]) {
        let n_run = events.iter().map(|event| event.n_flag + event.n_body).sum();
        self.size(instrs.len().max(n_run));
        let report = instrs.iter().find(|instr| instr.res == Reg::Implicit(Implicit::ShouldReport));
        if let (Some(report), true) = (report, self.reports.is_empty()) {
            let here = Pos { line: report.line, column: 1 };
            let why = "to an agent, a report of no registers means that the flow closed";
            self.problems.push(malformed(here, "a report without registers", why));
        }
    }
}
