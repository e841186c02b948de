//! What the kernel's TCP sockets do, whatever their congestion control, told by CO-RE programs. Nobody polls sockets.
//!
//! [`Trace`] attaches to the tracepoint `tcp:tcp_probe`; its program writes a row for each socket and interval into a
//! ring buffer, and the last row when the socket closes. [`Arrivals`] looks at every segment that comes in: its
//! program counts them, their CE marks and how long they took, and the counts are read when somebody wants them.
//! [`Windows`] knows the congestion window of each connection, for whoever has a packet of it in hand.

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

/// What the program that remembers windows keeps, made from `src/bpf/windows.h`.
#[allow(non_camel_case_types, dead_code, missing_docs)]
#[allow(clippy::all, clippy::pedantic, clippy::undocumented_unsafe_blocks)]
mod remembered {
    include!(concat!(env!("OUT_DIR"), "/windows.rs"));
}

pub type Result<T> = std::result::Result<T, Error>;
