//! What features add to a world, one line each.

use ccp_tcp::{Congestion, Sock};

use crate::agent::Extension;

/// Congestion controls that a feature offers to connections.
pub trait Offer: Send {
    /// One for a connection; none for other names.
    fn control(&self, name: &str, ends: Ends) -> Option<Box<dyn Offered>>;
}

pub trait Offered: Congestion + Send {
    fn close(&mut self, sock: &Sock);
}

/// The ends of a connection. Ports in host order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ends {
    /// Inode of the sender's network namespace.
    pub netns: u32,
    /// Address of the sender, IPv4 mapped.
    pub saddr: [u8; 16],
    pub daddr: [u8; 16],
    pub sport: u16,
    pub dport: u16,
}

/// Names of such congestion controls: no agent can register them.
pub const NAMES: &[&[&str]] = &[&crate::rtcp::NAMES];

/// The extensions of the datapath, created for each world.
pub fn extensions() -> Vec<Box<dyn Extension>> {
    vec![Box::new(crate::rtcp::RateLimits::default())]
}
