//! Emulated networks.
//!
//! [`Network`] computes what links, queues and routers do to packets, in virtual time: it has no clock and
//! does no input or output, and gives the same result for the same seed. [`emulate`] runs one over TUN devices in
//! real time.

mod engine;
mod io;
mod ip;
mod packet;
mod rng;
pub mod spec;

pub use ccp_error::Error;
pub use engine::{Counters, Delivery, Network, Sample, Tapped};
pub use io::emulate;
pub use ip::IpPacket;
pub use packet::{Ecn, Packet};

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;
