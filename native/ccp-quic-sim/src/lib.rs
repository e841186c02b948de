//! Congestion controllers of QUIC stacks in virtual time.
//!
//! A controller runs where it always does: in a connection of its own stack, with that stack's ACKs, loss detection,
//! pacing and app-limited rule. Only the network and the clock are emulated, so a simulated minute at 20 Mbit/s takes
//! half a second of processor time, and gives the same result every time, unless the controller itself draws random
//! numbers.
//!
//! ```
//! use std::time::Duration;
//! use ccp_quic_sim::{Path, Simulation, quinn};
//! use quinn_proto::congestion::CubicConfig;
//!
//! let path = Path::new(20.0, Duration::from_millis(40));
//! let report = Simulation::new(path).flow(quinn::flow(CubicConfig::default())).run(Duration::from_secs(10))?;
//! assert!(report.goodput_share() > 0.85);
//! assert!(report.flows[0].rtt(95.0) < Duration::from_millis(85));
//! # Ok::<(), ccp_quic_sim::Error>(())
//! ```

// Without a stack nothing makes flows.
#![cfg_attr(not(any(feature = "noq", feature = "quinn")), allow(dead_code))]

#[cfg(feature = "c")]
pub mod c;
mod flow;
#[cfg(feature = "noq")]
pub mod noq;
mod packet;
mod path;
#[cfg(feature = "quinn")]
pub mod quinn;
mod record;
mod report;
mod simulation;
mod tls;

pub use ccp_emu::spec::{Buffer, Direction, Loss, Queue, TokenBucket};
pub use ccp_emu::{Counters, Error};
pub use flow::{Flow, Traffic};
pub use path::Path;
pub use record::Reduction;
pub use report::{FlowReport, Report};
pub use simulation::Simulation;

pub type Result<T> = std::result::Result<T, Error>;

/// The page's examples are tests.
#[cfg(all(doctest, feature = "quinn"))]
#[doc = include_str!("../../../docs/quic-controllers.md")]
struct Page;
