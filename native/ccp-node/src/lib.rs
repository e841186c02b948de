//! A node of in-band telemetry on a Linux device, as source, transit or sink.
//!
//! Two tc programs process the device's packets: outgoing ones before the device's queue, and incoming ones. They
//! insert, fill and remove headers in the kernel. [`Node`] loads them, passes them what they cannot see themselves, and
//! passes the sink's packets to [`ccp_int::Sink`], whose summaries it writes as lines of JSON. See `docs/inband.md`.

mod config;
mod node;
mod reader;
mod records;
mod spec;

pub use ccp_error::Error;
pub use node::{Counters, Node};
pub use spec::{Air, Drops, NodeSpec, Queue, Radio, Role, Waiting};

/// Types shared with the programs, made from `src/bpf/node.h`.
#[allow(non_camel_case_types, non_upper_case_globals, dead_code, missing_docs)]
#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks)]
mod shared {
    include!(concat!(env!("OUT_DIR"), "/node.rs"));
}

pub type Result<T> = std::result::Result<T, Error>;
