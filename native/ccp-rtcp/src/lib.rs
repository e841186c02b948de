//! R-TCP: finds the token bucket that limits a client, and keeps what is sent to it inside.
//!
//! The detector and the limiter are C without I/O (`src/core`), compiled into BPF programs and, for [`core`], for the
//! host (`ccp-rtcp-core`). [`replay`] takes recorded ACKs through it. [`Attached`] offers the kernel's CUBIC and BBR with them to
//! sockets; [`clients`] is what they know.

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

/// The extension of the datapath, [`core::EXTENSION`]: `bpf/limit.bpf.c`, compiled.
pub static EXTENSION_OBJECT: &[u8] = include_bytes!(env!("CCP_RTCP_LIMIT_OBJECT"));

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;
