//! A node of in-band telemetry on a device of Linux, as source, transit or sink.
//!
//! Two programs of tc see the device's packets: one what leaves, before it goes to the device's queue, the other what
//! comes. They insert headers, fill slots and take headers out within the kernel; [`Node`] loads them, tells them what
//! they cannot see themselves, and gives what the sink sees to [`ccp_int::Sink`], whose summaries it writes as lines
//! of JSON. How it is used, and what of a queue is known, is told in `docs/inband.md`.

mod config;
mod node;
mod reader;
mod records;
mod spec;

pub use ccp_error::Error;
pub use node::{Counters, Node};
pub use spec::{Air, Drops, NodeSpec, Queue, Radio, Role, Waiting};

/// What the programs share with us, made from `src/bpf/node.h`.
#[allow(non_camel_case_types, non_upper_case_globals, dead_code, missing_docs)]
#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks)]
mod shared {
    include!(concat!(env!("OUT_DIR"), "/node.rs"));
}

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;
