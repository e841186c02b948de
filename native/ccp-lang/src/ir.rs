//! The compiled program: registers with their initial values, instructions and events.

use crate::Source;
use crate::code::Code;
use ccp_record::intf;

use crate::prims::{ACK_NOW, PRIMITIVES};

/// Maximum report, control and local registers of a program, of each kind.
pub const MAX_REGISTERS: usize = 64;

const _: () = {
    let room = [intf::CCP_MAX_REPORT, intf::CCP_MAX_CONTROL, intf::CCP_MAX_LOCAL];
    assert!(room[0] == 64 && room[1] == 64 && room[2] == 64, "a flow has room for all registers");
};
pub const MAX_INSTRS: usize = 1024;
/// Maximum live intermediate results of an expression.
pub const MAX_LIVE_TMPS: usize = 24;

/// Registers of every program, in libccp's order (`enum ccp_impl` in intf.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Implicit {
    /// The condition of the current `when` clause.
    EventFlag = intf::CCP_IMPL_EVENT_FLAG as isize,
    /// Set by `(fallthrough)`: the following clauses are also evaluated.
    ShouldContinue = intf::CCP_IMPL_SHOULD_CONTINUE as isize,
    ShouldReport = intf::CCP_IMPL_SHOULD_REPORT as isize,
    /// Microseconds since `Micros` was last written, or since the program was installed.
    Micros = intf::CCP_IMPL_MICROS as isize,
    Cwnd = intf::CCP_IMPL_CWND as isize,
    Rate = intf::CCP_IMPL_RATE as isize,
}

impl Implicit {
    pub const ALL: [Implicit; 6] = [
        Implicit::EventFlag,
        Implicit::ShouldContinue,
        Implicit::ShouldReport,
        Implicit::Micros,
        Implicit::Cwnd,
        Implicit::Rate,
    ];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reg {
    Report(u8),
    Control(u8),
    Local(u8),
    Implicit(Implicit),
    /// Index into [`PRIMITIVES`]; never a destination.
    Prim(u8),
    /// Intermediate result of an expression.
    Tmp(u8),
    /// A constant; +infinity is `u64::MAX`; never a destination.
    Imm(u64),
}

/// Operations on `left` (l) and `right` (r), as defined by libccp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// l + r; aborts the fold on overflow. Also `||` of flags.
    Add,
    /// r
    Bind,
    /// l / r, rounded down; aborts the fold if r is 0.
    Div,
    /// 1 if l = r, else 0
    Equiv,
    /// (l * result + (10 - l) * r) / 10; r while the result register is 0. Arithmetic wraps.
    Ewma,
    /// 1 if l > r, else 0
    Gt,
    /// r if l is not 0; otherwise the result register is unchanged.
    If,
    /// 1 if l < r, else 0
    Lt,
    Max,
    /// The later one of two 32-bit sequence numbers; 0 counts as absent.
    MaxWrap,
    Min,
    /// l * r; aborts the fold if the product is below l and r is not 0. Also `&&` of flags.
    Mul,
    /// r if l is 0; otherwise the result register is unchanged.
    NotIf,
    /// l - r; aborts the fold if negative.
    Sub,
}

/// `res := left op right`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instr {
    pub op: Op,
    pub res: Reg,
    pub left: Reg,
    pub right: Reg,
    pub line: u32,
}

/// One `when` clause: two runs of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub flag_start: usize,
    pub n_flag: usize,
    pub body_start: usize,
    pub n_body: usize,
    pub line: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// Without `Report.` for report registers.
    pub name: String,
    pub is_bool: bool,
    /// Returns to `init` after each report.
    pub volatile: bool,
    pub init: u64,
}

/// A fold program, checked and compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Hash of the program's text without comments and layout; never 0. The same text has the same registers,
    /// so an agent can read the state of a program that another agent installed.
    pub uid: u32,
    pub name: String,
    pub origin: String,
    /// Line in the origin at which the text begins.
    pub first_line: u32,
    pub instrs: Vec<Instr>,
    pub events: Vec<Event>,
    pub reports: Vec<Register>,
    pub controls: Vec<Register>,
    pub locals: Vec<String>,
    pub n_local: usize,
    /// Bit i: the program reads `PRIMITIVES[i]`. Writing `Micros` reads `Ack.now`.
    pub prims_used: u64,
    pub(crate) code: Code,
}

pub(crate) struct Parts {
    pub uid: u32,
    pub instrs: Vec<Instr>,
    pub events: Vec<Event>,
    pub reports: Vec<Register>,
    pub controls: Vec<Register>,
    pub locals: Vec<String>,
}

impl Parts {
    pub fn assembled(self, source: &Source) -> Program {
        let mut program = Program {
            uid: self.uid,
            name: source.name.to_string(),
            origin: source.origin.to_string(),
            first_line: source.first_line,
            prims_used: prims_used(&self.instrs),
            instrs: self.instrs,
            events: self.events,
            reports: self.reports,
            controls: self.controls,
            n_local: self.locals.len(),
            locals: self.locals,
            code: Code::default(),
        };
        program.code = Code::new(&program);
        program
    }
}

/// Returns the primitives that are read, as bits. `Micros` counts from the time of its write.
fn prims_used(instrs: &[Instr]) -> u64 {
    let bit = |reg: Reg| match reg {
        Reg::Prim(i) => 1 << i,
        _ => 0,
    };
    let clock = |instr: &Instr| u64::from(instr.res == Reg::Implicit(Implicit::Micros)) << ACK_NOW;
    instrs.iter().fold(0, |used, i| used | bit(i.left) | bit(i.right) | clock(i))
}

impl Program {
    pub fn flag(&self, event: &Event) -> &[Instr] {
        &self.instrs[event.flag_start..event.flag_start + event.n_flag]
    }

    pub fn body(&self, event: &Event) -> &[Instr] {
        &self.instrs[event.body_start..event.body_start + event.n_body]
    }

    pub fn primitives(&self) -> Vec<&'static str> {
        let used = |i: &usize| self.prims_used >> i & 1 == 1;
        (0..PRIMITIVES.len()).filter(used).map(|i| PRIMITIVES[i].name).collect()
    }
}
