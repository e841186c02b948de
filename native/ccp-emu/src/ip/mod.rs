//! IP packets in a TUN device's format.

mod ack_filter;
mod checksum;
mod datagram;
mod extension;
mod merge;
mod segment;
mod tcp;
mod too_big;
mod vnet;

pub use datagram::IpPacket;
pub use extension::{DESTINATION, Dropped, Extension, HOP_BY_HOP, Later};
pub use merge::Group;
pub use segment::segments;
pub use vnet::VnetHeader;

#[cfg(test)]
pub mod samples;
