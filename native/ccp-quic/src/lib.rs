//! CCP's wire protocol and its socket, and a CCP datapath for QUIC: an agent that speaks portus' wire protocol steers the
//! connections of a quinn endpoint. Python has all but the controller for quinn, and steers aioquic's with it.
//!
//! `docs/quic.md` says how to use it, what it measures, and what quinn leaves no hold of. No connection waits for an
//! agent: while none is there, or none has given a program, quinn's own CUBIC has it.
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
mod flow;
mod fold;
#[cfg(feature = "quinn")]
mod law;
mod link;
mod rates;
mod steered;
pub mod wire;

#[cfg(feature = "quinn")]
pub use controller::CcpConfig;
pub use fold::Happened;
pub use link::{Event, Link};
pub use steered::Steered;

/// Where agents have their socket: those made with portus, and `ccp run --datapath quic`.
pub const AGENT: &str = "/tmp/ccp/portus";
