//! Code for the kernel.
//!
//! The code is the body of a function: it begins with R6 pointing to `struct ccp_flow` and R7 to `struct ccp_fold`, and
//! ends after its last instruction with R0 = 0, or with the `enum ccp_fold_error` that aborted the fold. It preserves
//! R6 and R7, uses the other registers and the stack that `MAX_LIVE_TMPS` needs, and calls nothing. Its 32-bit jumps
//! (instruction set v3) need Linux 5.1.
//!
//! It behaves like the interpreter, except that EventFlag is left as 0 or 1; there it may be any number that `||` makes
//! of two flags. The difference is invisible: programs cannot name EventFlag, and it is only tested.

mod asm;
mod flags;
mod lower;
mod ops;
mod plan;

pub use asm::Insn;

use crate::Source;
use crate::error::{LangError, Pos, Problem};
use crate::ir::{Event, Implicit, Program, Reg};
use asm::{Jmp, Label, R, R0, Src};
use flags::{Flags, flags};
use lower::{Block, Val, lower};
use ops::{Emitter, Planned};
use plan::plan;

const FLOW: R = R(6);

const FOLD: R = R(7);

/// Offsets in `struct ccp_flow` and `struct ccp_fold` [bytes]. All must end below 32 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub control: i16,
    pub local: i16,
    pub report: i16,
    pub time_zero_us: i16,
    pub fold_error: i16,
    /// Primitives from `prims::INT_AGE_US` on; earlier ones are in `prim`.
    pub inband: i16,
    /// In `struct ccp_fold`, as the next.
    pub prim: i16,
    pub imp: i16,
}

pub fn codegen(program: &Program, layout: &Layout) -> Result<Vec<Insn>, LangError> {
    codegen_with_lines(program, layout).map(|(insns, _)| insns)
}

/// Returns the code of a program, and each instruction's line in the program's origin, for the verifier's messages.
pub fn codegen_with_lines(program: &Program, layout: &Layout) -> Result<(Vec<Insn>, Vec<u32>), LangError> {
    let mut emitter = Emitter::new(layout);
    let finished = emitter.asm.label();
    let mut state = State { should_continue: Known::Value(0), event_flag: Known::Value(0) };
    let flags = flags(program);
    for event in &program.events {
        emitter.asm.line = event.line;
        match emitter.event(program, event, &flags, state, finished) {
            Some(next) => state = next,
            None => break,
        }
    }
    emitter.asm.place(finished);
    emitter.asm.set(R0, 0);
    emitter.tail();
    emitter.asm.finish().map_err(|asm::TooFar { line }| too_long(program, line))
}

fn too_long(program: &Program, line: u32) -> LangError {
    let problem = Problem::new(
        "lang.limit",
        Pos { line: line - program.first_line + 1, column: 1 },
        "the program's code is too long",
        "a jump in the kernel spans at most 32767 instructions",
        "shorten the program",
    );
    let source =
        Source { text: "", name: &program.name, origin: &program.origin, first_line: program.first_line };
    LangError::from_problems(&source, vec![problem])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Value(u64),
    Unknown,
}

impl Known {
    fn join(self, other: Known) -> Known {
        if self == other { self } else { Known::Unknown }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    should_continue: Known,
    event_flag: Known,
}

impl Emitter<'_> {
    /// Writes one event. Returns what is known after it, or None if it is unreachable.
    fn event(
        &mut self,
        program: &Program,
        event: &Event,
        flags: &Flags,
        before: State,
        finished: Label,
    ) -> Option<State> {
        let flag_block = lower(program.flag(event), flags);
        let flag_plan = plan(&flag_block);
        let planned = Planned { block: &flag_block, plan: &flag_plan };
        self.block(planned);
        self.asm.line = event.line;
        let flag = flag_block.flag.expect("a condition writes EventFlag");
        if flag == Val::Imm(0) {
            self.set_flag(before.event_flag, 0);
            return Some(State { event_flag: Known::Value(0), ..before });
        }
        let next = self.asm.label();
        let always = matches!(flag, Val::Imm(_));
        if always {
            self.set_flag(before.event_flag, 1);
        } else {
            self.set_flag(before.event_flag, 0);
            self.branch(planned, flag, false, next);
            self.set_flag(Known::Value(0), 1);
        }
        let after = self.body(lower(program.body(event), flags), before.should_continue);
        self.asm.line = event.line;
        let goes_on = match after {
            Known::Value(0) => false,
            Known::Value(_) => true,
            Known::Unknown => {
                let (base, offset) = self.layout.place(Reg::Implicit(Implicit::ShouldContinue));
                self.asm.load(R0, base, offset);
                self.asm.jump_if(Jmp::Eq, R0, Src::Imm(0), finished);
                true
            }
        };
        let taken = State { should_continue: Known::Value(1), event_flag: Known::Value(1) };
        let skipped = State { event_flag: Known::Value(0), ..before };
        // If nothing follows, the jump would lead to the next instruction.
        if !goes_on && !always && program.events.last() != Some(event) {
            self.asm.jump(finished);
        }
        self.asm.place(next);
        match (always, goes_on) {
            (true, true) => Some(taken),
            (true, false) => None,
            (false, false) => Some(skipped),
            (false, true) => Some(State {
                should_continue: taken.should_continue.join(skipped.should_continue),
                event_flag: Known::Unknown,
            }),
        }
    }

    fn set_flag(&mut self, known: Known, value: i32) {
        if known != Known::Value(value as u64) {
            let (base, offset) = self.layout.place(Reg::Implicit(Implicit::EventFlag));
            self.asm.store(base, offset, Src::Imm(value));
        }
    }

    /// Writes the body of an event. Returns what is known about ShouldContinue after it.
    fn body(&mut self, mut block: Block, mut should_continue: Known) -> Known {
        let fallthrough = lower::Dst::Mem(Reg::Implicit(Implicit::ShouldContinue));
        if should_continue == Known::Value(1) {
            block.nodes.retain(|node| node.dst != fallthrough);
        } else if block.nodes.iter().any(|node| node.dst == fallthrough) {
            should_continue = Known::Value(1);
        }
        let plan = plan(&block);
        self.block(Planned { block: &block, plan: &plan });
        should_continue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile;

    #[test]
    fn a_program_that_is_too_long_is_refused_at_its_line() {
        let text = "(def)\n(when true\n  (report))";
        let source = Source { text, name: "default", origin: "alg.py", first_line: 40 };
        let program = compile(&source).unwrap();
        let error = too_long(&program, program.instrs[1].line);
        let context = &error.context;
        assert_eq!((error.slug, error.line, context.program_line), ("lang.limit", 42, 3));
        assert_eq!((context.origin.as_str(), context.program.as_str()), ("alg.py", "default"));
    }
}
