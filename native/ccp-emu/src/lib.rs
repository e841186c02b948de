//! Emulated networks.
//!
//! [`Network`] computes what links, queues and routers do to packets, in virtual time: it has no clock and
//! does no input or output, and gives the same result for the same seed. [`emulate`] runs one over TUN devices in
//! real time.

mod engine;
mod int;
mod io;
mod ip;
mod packet;
mod rng;
pub mod spec;

pub use ccp_error::Error;
pub use engine::{Counters, Delivery, Network, Sample, Tapped};
pub use int::{Int, IntCounters, IntNode, Radio, Role, Telemetry, Windows};
pub use io::{Files, emulate};
pub use ip::{Extension, IpPacket};
pub use packet::{Ecn, Packet};

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;
