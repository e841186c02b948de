//! One error type: a stable slug for programs, sentences for people.

use std::fmt;

/// What went wrong, why, and what to do about it.
#[derive(Clone, Debug)]
pub struct Error {
    /// Stable name, `trace.what`.
    pub slug: &'static str,
    /// What happened, in one line.
    pub message: String,
    /// The cause.
    pub why: String,
    /// What to do.
    pub fix: &'static str,
}

impl Error {
    pub(crate) fn new(
        slug: &'static str,
        message: impl Into<String>,
        why: impl fmt::Display,
        fix: &'static str,
    ) -> Self {
        Error { slug, message: message.into(), why: why.to_string(), fix }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n  why  {}\n  fix  {}", self.slug, self.message, self.why, self.fix)
    }
}

impl std::error::Error for Error {}
