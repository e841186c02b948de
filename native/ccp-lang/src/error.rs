//! Errors of the compiler.

use std::fmt;

use crate::{Program, Source};

/// A place in a program's text, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pos {
    pub line: u32,
    pub column: u32,
}

/// An error before the program's file is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub slug: &'static str,
    pub at: Pos,
    pub message: String,
    pub why: String,
    pub fix: String,
}

impl Problem {
    pub fn new(
        slug: &'static str,
        at: Pos,
        message: impl Into<String>,
        why: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Problem { slug, at, message: message.into(), why: why.into(), fix: fix.into() }
    }
}

/// A compiler error; the Rust counterpart of `ccplane.base.errors.LangError`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LangError {
    /// Stable name of the kind of error; one of [`SLUGS`].
    pub slug: &'static str,
    pub message: String,
    pub line: u32,
    pub column: u32,
    pub why: String,
    pub fix: String,
    pub context: Box<Context>,
}

/// Context of a [`LangError`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    pub origin: String,
    pub program: String,
    pub program_line: u32,
    /// Further errors of the program.
    pub more: Vec<LangError>,
}

/// All slugs of [`LangError`].
pub const SLUGS: [&str; 10] = [
    "lang.bytecode",
    "lang.duplicate_name",
    "lang.limit",
    "lang.number",
    "lang.read_only",
    "lang.reserved_name",
    "lang.syntax",
    "lang.type",
    "lang.unknown_field",
    "lang.unknown_name",
];

impl LangError {
    /// Combines the problems of a compiled program.
    pub(crate) fn of_program(program: &Program, problems: Vec<Problem>) -> Self {
        let (name, origin, first_line) = (&program.name, &program.origin, program.first_line);
        LangError::from_problems(&Source { text: "", name, origin, first_line }, problems)
    }

    /// Combines the problems of a program, at least one, in order.
    pub(crate) fn from_problems(source: &Source, problems: Vec<Problem>) -> Self {
        let mut errors = problems.into_iter().map(|p| LangError {
            slug: p.slug,
            message: p.message,
            line: source.line(p.at.line),
            column: p.at.column,
            why: p.why,
            fix: p.fix,
            context: Box::new(Context {
                origin: source.origin.to_string(),
                program: source.name.to_string(),
                program_line: p.at.line,
                more: Vec::new(),
            }),
        });
        let mut first = errors.next().expect("at least one problem");
        first.context.more = errors.collect();
        first
    }
}

impl fmt::Display for LangError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "{}: {}", self.slug, self.message)?;
        let Context { origin, program, program_line, more } = &*self.context;
        writeln!(
            f,
            "  at   {origin}:{}:{}, program {program:?}, line {program_line}",
            self.line, self.column
        )?;
        writeln!(f, "  why  {}", self.why)?;
        write!(f, "  fix  {}", self.fix)?;
        for other in more {
            write!(f, "\n{other}")?;
        }
        Ok(())
    }
}

impl std::error::Error for LangError {}
