//! CCP's wire protocol and socket, and a CCP datapath for QUIC: an agent that speaks portus' wire protocol controls the
//! connections of a quinn endpoint. Python uses all but quinn's controller, to control aioquic.
//!
//! `docs/quic.md` explains its use, its measurements, and what quinn does not provide. No connection waits for an
//! agent: without one, or without a program, quinn's own CUBIC controls it.
//!
//! ```no_run
//! use std::{path::Path, sync::Arc};
//!
//! let link = ccp_quic::Link::open(Path::new(ccp_quic::AGENT))?;
//! let mut transport = quinn::TransportConfig::default();
//! transport.congestion_controller_factory(Arc::new(ccp_quic::CcpConfig::new(link)));
//! # Ok::<(), std::io::Error>(())
//! ```

#[cfg(feature = "quinn")]
mod controller;
#[cfg(feature = "quinn")]
mod fallback;
mod flow;
mod fold;
mod link;
mod place;
mod rates;
mod steered;
pub mod wire;

#[cfg(feature = "quinn")]
pub use controller::CcpConfig;
pub use fold::Happened;
pub use link::{Event, Link};
pub use steered::Steered;

/// Default socket of portus agents, and of `ccp run --datapath quic`.
pub const AGENT: &str = "/tmp/ccp/portus";
