//! What features add to a world: a line for each.

use ccp_tcp::{Congestion, Sock};

use crate::agent::Extension;

/// Congestion controls that a feature offers to the connections of a world.
pub trait Offer: Send {
    /// One for a connection; none if it is not one of this name.
    fn control(&self, name: &str, ends: Ends) -> Option<Box<dyn Offered>>;
}

/// Such a congestion control.
pub trait Offered: Congestion + Send {
    /// The connection ends.
    fn close(&mut self, sock: &Sock);
}

/// Where a connection begins and ends. Ports in host order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ends {
    /// Inode of the sender's network namespace.
    pub netns: u32,
    /// Address of the sender, IPv4 mapped.
    pub saddr: [u8; 16],
    /// Address of the receiver.
    pub daddr: [u8; 16],
    /// Port of the sender.
    pub sport: u16,
    /// Port of the receiver.
    pub dport: u16,
}

/// Names of congestion controls that may be on offer: no agent can register them.
pub const NAMES: &[&[&str]] = &[&crate::rtcp::NAMES];

/// The extensions of the datapath, new for each world.
pub fn extensions() -> Vec<Box<dyn Extension>> {
    vec![Box::new(crate::rtcp::RateLimits::default())]
}
