//! Loading of BPF objects, for all crates that have some.

pub mod bpffs;
mod echoes;

pub use echoes::EchoPin;
