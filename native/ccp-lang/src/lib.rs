//! The CCP datapath language: text to a checked program, a reference interpreter for it, and eBPF code.
//!
//! portus says what instructions a program is and libccp what these do: tests hold ours against both, so every program
//! that they accept keeps its meaning. What this crate adds: errors with places, more primitives and registers, 64-bit
//! constants, and code for the kernel. It knows nothing of libbpf or of how programs are loaded.
//!
//! Deviations, each with its reason:
//! - `+infinity` is 2^64 - 1. On its way to libccp it becomes 2^32 - 1, because messages carry 32 bits, which
//!   no 64-bit rate is below. For the same reason libccp takes the initial value 1073741823 for infinity;
//!   here it is that number.
//! - Local registers are 0 when a program starts. In libccp they are what the program before left in them.
//! - Refused although portus compiles it, because no datapath could run it: `if`, `!if` and `ewma` bound to
//!   Cwnd, Rate, Micros or a local register (portus panics when it should send that).
//! - Refused because it is a slip: two declarations of one name, a bind to an undeclared `Report.` register
//!   (portus makes a local register of it, and the report lacks it), a name that is read before anything is
//!   bound to it, a name as initial value, `(report)` inside an expression, words that run into one another
//!   such as `(max5 x)`, and names that portus reads otherwise, such as `trueish`.
//! - Refused because the datapath's names would be hidden: declarations of Cwnd, Rate, Micros and of anything
//!   that begins with `Flow.`, `Ack.` or `Int.`.
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
pub mod wire;

pub use codegen::{Insn, Layout, codegen, codegen_with_lines};
pub use error::{Context, LangError, SLUGS};
pub use ir::{Event, Implicit, Instr, MAX_INSTRS, MAX_LIVE_TMPS, MAX_REGISTERS, Op, Program, Reg, Register};
pub use machine::{FoldError, Folded, Machine, Outcome};

/// The text of one program and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub text: &'a str,
    /// Name of the program, for example "default".
    pub name: &'a str,
    /// File that the text stands in, or "<source>".
    pub origin: &'a str,
    /// Line in the origin where the text begins.
    pub first_line: u32,
}

impl Source<'_> {
    /// Returns the line in the origin of a line of the text.
    fn line(&self, program_line: u32) -> u32 {
        self.first_line.saturating_add(program_line - 1)
    }
}

/// Compiles a program, or says everything that is wrong with it.
pub fn compile(source: &Source) -> Result<Program, LangError> {
    let fail = |problems| LangError::from_problems(source, problems);
    let forms = read::read(source.text).map_err(|p| fail(vec![p]))?;
    let ast = ast::parse(&forms).map_err(fail)?;
    check::check(&ast).map_err(fail)?;
    flatten::flatten(&ast, read::hash(&forms), source).map_err(|p| fail(vec![p]))
}
