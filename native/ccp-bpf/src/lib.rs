//! The eBPF datapath of ccplane.
//!
//! [`Datapath`] loads the congestion control `ccp` into the kernel (or adopts one that is already there),
//! installs compiled fold programs under live flows, drains their reports and writes to flows through shared
//! memory. [`Observer`] looks on without touching anything.

mod bell;
mod datapath;
mod extension;
mod fold;
mod frame;
mod handles;
mod kernel;
mod letters;
mod map;
mod names;
mod object;
mod pace;
mod pins;
mod plain;
pub mod probe;
mod ring;
mod shared;
mod trial;

pub use ccp_error::Error;
pub use ccp_record::{Letter, Record, Records, Update, intf};
pub use datapath::{Datapath, Options};
pub use fold::verify;
pub use pins::unload;
pub use plain::PlainCubic;
pub use shared::Observer;
pub use trial::{Outcome, try_load};

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;
