//! A CCP datapath for QUIC: an agent that speaks portus' wire protocol steers the connections of a quinn endpoint.
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

mod controller;
mod flow;
mod fold;
mod law;
mod link;
mod rates;
mod values;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use controller::Ccp;
use quinn_proto::congestion::{Controller, ControllerFactory};

pub use link::Link;

/// Where agents have their socket: those made with portus, and `ccp run --datapath quic`.
pub const AGENT: &str = "/tmp/ccp/portus";

/// Connections that an agent steers.
#[derive(Clone, Debug)]
pub struct CcpConfig {
    link: Arc<Link>,
    algorithm: String,
    ends: Option<(SocketAddr, SocketAddr)>,
}

impl CcpConfig {
    /// Returns the configuration for connections that take the agent's default algorithm.
    pub fn new(link: Arc<Link>) -> Self {
        CcpConfig { link, algorithm: String::new(), ends: None }
    }

    /// Asks the agent for an algorithm by its name, of at most 63 octets.
    #[must_use]
    pub fn algorithm(mut self, name: &str) -> Self {
        self.algorithm = name.to_string();
        self
    }

    /// Says between which addresses the connection is: quinn does not tell a controller, and an agent's rules and lists
    /// want to know. For a configuration that one connection has.
    #[must_use]
    pub fn ends(mut self, local: SocketAddr, peer: SocketAddr) -> Self {
        self.ends = Some((local, peer));
        self
    }
}

impl ControllerFactory for CcpConfig {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Ccp::new(self, law::first(now, current_mtu), current_mtu))
    }
}
