//! The error type of all crates that face the kernel: a stable slug for programs, sentences for people.

use std::fmt;

#[derive(Clone, Debug)]
pub struct Error {
    /// Stable name, `area.what`.
    pub slug: &'static str,
    /// What happened, in one line.
    pub message: String,
    pub place: String,
    /// The cause.
    pub why: String,
    pub fix: String,
}

impl Error {
    pub fn new(slug: &'static str, message: impl Into<String>) -> Self {
        Error { slug, message: message.into(), place: String::new(), why: String::new(), fix: String::new() }
    }

    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = place.into();
        self
    }

    pub fn why(mut self, why: impl fmt::Display) -> Self {
        self.why = why.to_string();
        self
    }

    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = fix.into();
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.slug, self.message)?;
        for (label, text) in [("at ", &self.place), ("why", &self.why), ("fix", &self.fix)] {
            if !text.is_empty() {
                write!(f, "\n  {label}  {text}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
