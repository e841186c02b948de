//! Switches ordinary TCP sockets to another congestion control while they send, by rules, and back.
//!
//! An iterator visits the existing sockets, and a program on a cgroup sees new ones. Both use one table;
//! [`Switch`] loads them and fills it. No host-wide setting is changed.

mod rule;
mod switch;

pub use ccp_error::Error;
pub use rule::Rule;
pub use switch::Switch;

/// Shared with the programs, from `src/bpf/switch.h`.
#[allow(non_camel_case_types, non_upper_case_globals, dead_code, missing_docs)]
#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks)]
pub mod shared {
    include!(concat!(env!("OUT_DIR"), "/switch.rs"));
}

pub type Result<T> = std::result::Result<T, Error>;
