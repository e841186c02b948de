//! Traces the kernel's TCP sockets, under any congestion control, with CO-RE programs, without polling.
//!
//! [`Trace`] attaches to the tracepoint `tcp:tcp_probe`, and writes a row per socket and interval into a ring
//! buffer, and a last row when the socket closes. [`Arrivals`] counts all arriving segments, their CE marks
//! and delays, in the kernel. [`Windows`] provides the congestion window of each connection, for programs
//! that handle its packets.

mod arrivals;
mod conditions;
mod load;
mod rows;
mod trace;
mod windows;

pub use arrivals::{Arrivals, Watched};
pub use ccp_error::Error;
pub use ccp_record::{bin_bounds_us, flow, row};
pub use conditions::{Conditions, socket_conditions};
pub use load::dropped;
pub use rows::Rows;
pub use trace::{Options, Trace};
pub use windows::{Connection, Window, Windows};

/// Data of the program that records windows, from `src/bpf/windows.h`.
#[allow(non_camel_case_types, dead_code, missing_docs)]
#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks)]
mod remembered {
    include!(concat!(env!("OUT_DIR"), "/windows.rs"));
}

pub type Result<T> = std::result::Result<T, Error>;
