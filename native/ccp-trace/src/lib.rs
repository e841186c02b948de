//! Samples of the kernel's TCP sockets, whatever their congestion control.
//!
//! [`Trace`] attaches a CO-RE program to the tracepoint `tcp:tcp_probe`; the program writes a row for each socket
//! and interval into a ring buffer, and the last row when the socket closes. Nobody polls sockets.

mod trace;

pub use ccp_error::Error;
pub use trace::{Options, Trace};

/// What the kernel side writes, made from `src/bpf/row.h`.
#[allow(non_camel_case_types, dead_code, missing_docs)]
#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks)]
pub mod row {
    include!(concat!(env!("OUT_DIR"), "/row.rs"));
}

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;
