//! Gives ordinary TCP sockets another congestion control while they send, by rules, and takes it back.
//!
//! Two BPF programs do it: an iterator goes over the sockets that are there, and a program on a cgroup sees those that
//! come. Both look into one table; [`Switch`] loads them and fills it. Nothing that holds for a whole host is changed.

mod rule;
mod switch;

pub use ccp_error::Error;
pub use rule::Rule;
pub use switch::Switch;

/// What the programs share with us, made from `src/bpf/switch.h`.
#[allow(non_camel_case_types, non_upper_case_globals, dead_code, missing_docs)]
#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks)]
pub mod shared {
    include!(concat!(env!("OUT_DIR"), "/switch.rs"));
}

pub type Result<T> = std::result::Result<T, Error>;
