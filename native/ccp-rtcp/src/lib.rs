//! R-TCP: finds the token bucket that limits a client, and keeps its traffic within it.
//!
//! Detector and limiter are C without I/O (`src/core`), compiled into BPF programs and, as [`core`], for the
//! host (`ccp-rtcp-core`). [`replay`] passes recorded ACKs through the detector, [`Attached`] offers the
//! kernel's CUBIC and BBR with both to sockets, [`clients`] reads the table of clients.

mod attach;
pub mod clients;
pub mod kept;
mod kernel;
mod layout;
pub mod replay;
mod rules;
pub mod summary;

pub use attach::{Attached, Wanted};
pub use ccp_error::Error;
pub use ccp_rtcp_core::{self as core, work};
pub use rules::Rule;

/// The datapath extension [`core::EXTENSION`]: compiled `bpf/limit.bpf.c`.
pub static EXTENSION_OBJECT: &[u8] = include_bytes!(env!("CCP_RTCP_LIMIT_OBJECT"));

pub type Result<T> = std::result::Result<T, Error>;
