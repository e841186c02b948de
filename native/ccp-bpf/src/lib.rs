//! The eBPF datapath of ccplane.
//!
//! [`Datapath`] loads the congestion control `ccp` into the kernel (or adopts a loaded one), installs compiled fold
//! programs under live flows, drains their reports and sends updates to flows through shared memory. [`Observer`] only
//! reads.

mod adopt;
mod beats;
mod bell;
mod datapath;
mod extension;
mod fold;
mod frame;
mod handles;
mod handover;
mod head;
mod holders;
mod kernel;
mod map;
mod messages;
mod names;
mod namespaces;
mod object;
mod options;
mod pace;
mod pins;
pub mod probe;
mod reap;
mod ring;
mod shared;
#[cfg(test)]
#[path = "../../ccp-build/src/sources.rs"]
mod sources;
mod trial;
mod upgrade;
mod walk;

pub use ccp_error::Error;
pub use ccp_load::clock;
pub use ccp_record::{Message, Record, Records, Update, intf};
pub use datapath::Datapath;
pub use fold::verify;
pub use handover::Handing;
pub use holders::Quotas;
pub use options::Options;
pub use pins::{Unloaded, unload};
pub use shared::Observer;
pub use trial::{Outcome, try_load};

pub type Result<T> = std::result::Result<T, Error>;
