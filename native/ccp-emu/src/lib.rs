//! Emulated networks.
//!
//! [`Network`] computes the effects of links, queues and routers on packets in virtual time: it has no clock and no I/O,
//! and is reproducible for a seed. `emulate` runs one over TUN devices in real time, on Linux.

// The loop over TUN devices exists only on Linux.
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
pub use packet::{Ecn, Judged, Packet};
pub use record::{IntRecords, Samples, link_stats};
pub use rng::Stream;

pub type Result<T> = std::result::Result<T, Error>;
