//! Converts Rust errors to the exceptions of `ccplane.base.errors`.

use pyo3::prelude::*;

fn class_of(slug: &str) -> &'static str {
    match slug.split('.').next() {
        Some("lang") => "LangError",
        Some("verifier") => "VerifierError",
        Some("load") => "LoadError",
        Some("flow") => "FlowGone",
        Some("register") => "RegisterError",
        Some("program") => "ProgramError",
        _ => "CcpError",
    }
}

fn make(py: Python<'_>, slug: &str, parts: [&str; 4]) -> PyErr {
    let [message, place, why, fix] = parts;
    let made = py
        .import("ccplane.base.errors")
        .and_then(|errors| errors.getattr(class_of(slug)))
        .and_then(|class| class.call1((slug, message, place, why, fix)));
    match made {
        Ok(error) => PyErr::from_value(error),
        Err(e) => e,
    }
}

pub fn raise(py: Python<'_>, e: &ccp_error::Error) -> PyErr {
    make(py, e.slug, [&e.message, &e.place, &e.why, &e.fix])
}

/// A compiler error, with its place in the file and in the program.
pub fn raise_lang(py: Python<'_>, e: &ccp_lang::LangError) -> PyErr {
    let place = format!(
        "{}:{}:{}, program \"{}\", line {}",
        e.context.origin, e.line, e.column, e.context.program, e.context.program_line
    );
    make(py, e.slug, [&e.message, &place, &e.why, &e.fix])
}

pub fn raise_new(py: Python<'_>, slug: &str, message: &str, why: &str, fix: &str) -> PyErr {
    make(py, slug, [message, "", why, fix])
}
