//! Emulated networks.
//!
//! [`Network`] computes what links, queues and routers do to packets, in virtual time: it has no clock and
//! does no input or output, and gives the same result for the same seed. `emulate` runs one over TUN devices in real
//! time, on Linux.

// What only the loop over TUN devices uses is compiled elsewhere, too.
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports))]

mod engine;
mod int;
#[cfg(target_os = "linux")]
mod io;
mod ip;
mod packet;
mod record;
mod rng;
pub mod spec;

pub use ccp_error::Error;
pub use engine::{Counters, Delivery, Network, Sample, Tapped};
pub use int::{Int, IntCounters, IntNode, Radio, Role, Telemetry, Windows};
#[cfg(target_os = "linux")]
pub use io::{Files, emulate};
pub use ip::{Extension, IpPacket};
pub use packet::{Ecn, Packet};
pub use record::{IntRecords, Samples, link_stats};
pub use rng::Stream;

pub type Result<T> = std::result::Result<T, Error>;
