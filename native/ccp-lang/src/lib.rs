//! The CCP datapath language: text to a checked program, a reference interpreter, and eBPF code.
//!
//! portus defines the instructions of a program, libccp their meaning; tests compare with both, so every program that
//! they accept keeps its meaning. This crate adds errors with places, more primitives and registers, 64-bit constants,
//! and code for the kernel. It does not depend on libbpf or on how programs are loaded.
//!
//! Deviations, with reasons:
//! - `+infinity` is 2^64 - 1. It is sent to libccp as 2^32 - 1, because messages carry 32 bits, which no 64-bit rate is
//!   below. libccp treats the initial value 1073741823 as infinity; here it is that number.
//! - Local registers are 0 when a program starts. In libccp they keep the previous program's values.
//! - Rejected although portus compiles it, because no datapath could run it: `if`, `!if` and `ewma` bound to Cwnd, Rate,
//!   Micros or a local register (portus panics when it sends them).
//! - Rejected as mistakes: two declarations of one name, a bind to an undeclared `Report.` register (a local register in
//!   portus, missing in the report), a name read before it is bound, a name as initial value, `(report)` inside an
//!   expression, missing spaces such as `(max5 x)`, and names that portus misreads, such as `trueish`.
//! - Rejected because they would hide the datapath's names: declarations of Cwnd, Rate, Micros and of names that begin
//!   with `Flow.`, `Ack.` or `Int.`.
//!
//! ```
//! use ccp_lang::{Machine, Source, compile};
//!
//! let text = "(def (Report (volatile acked 0)))
//!             (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (report))";
//! let program = compile(&Source { text, name: "default", origin: "example.py", first_line: 1 })?;
//! let mut machine = Machine::new();
//! machine.reset(&program, 0);
//! let mut prims = ccp_lang::prims::NOTHING;
//! prims[0] = 1500;
//! assert!(machine.invoke(&program, &prims, 10).unwrap().report);
//! assert_eq!(machine.take_report(&program), [1500]);
//! # Ok::<(), ccp_lang::LangError>(())
//! ```

mod ast;
pub mod bytecode;
mod check;
mod code;
mod codegen;
mod error;
mod flatten;
mod ir;
mod machine;
pub mod portable;
pub mod prims;
mod read;
mod suggest;

pub use codegen::{Insn, Layout, codegen, codegen_with_lines};
pub use error::{Context, LangError, SLUGS};
pub use ir::{Event, Implicit, Instr, MAX_INSTRS, MAX_LIVE_TMPS, MAX_REGISTERS, Op, Program, Reg, Register};
pub use machine::{FoldError, Folded, Machine, Outcome};

#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub text: &'a str,
    pub name: &'a str,
    pub origin: &'a str,
    /// Line in the origin at which the text begins.
    pub first_line: u32,
}

impl Source<'_> {
    fn line(&self, program_line: u32) -> u32 {
        self.first_line.saturating_add(program_line - 1)
    }
}

/// Compiles a program, or returns all its errors.
pub fn compile(source: &Source) -> Result<Program, LangError> {
    let fail = |problems| LangError::from_problems(source, problems);
    let forms = read::read(source.text).map_err(|p| fail(vec![p]))?;
    let ast = ast::parse(&forms).map_err(fail)?;
    check::check(&ast).map_err(fail)?;
    flatten::flatten(&ast, read::hash(&forms), source).map_err(|p| fail(vec![p]))
}
