//! The simulated datapath.
//!
//! Hosts and their TCP connections (`ccp-tcp`) send through an emulated network (`ccp-emu`), in virtual time.
//! The same scenario with the same seed gives the same result, packet for packet.

pub mod agent;
mod app;
pub mod control;
pub mod env;
pub mod features;
mod packet;
mod plan;
pub mod rtcp;
#[cfg(test)]
mod test_world;
mod world;

pub use app::{MediaPacket, MediaReport, ObjectResult};
pub use ccp_emu::Error;
pub use packet::SimPacket;
pub use plan::{App, Family, Plan};
pub use world::{Arrived, Echo, HostCounters, Options, Outcome, Stop, World};

pub type Result<T> = std::result::Result<T, Error>;
