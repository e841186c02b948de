//! The flow of a packet.

use std::net::{IpAddr, Ipv6Addr};

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    const ALL: [Self; 2] = [Protocol::Tcp, Protocol::Udp];

    pub fn number(self) -> u8 {
        match self {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        }
    }
}

/// The 5-tuple of a flow as in its packets, with IPv4-mapped addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    pub src: Ipv6Addr,
    pub dst: Ipv6Addr,
    pub src_port: u16,
    pub dst_port: u16,
    pub protocol: Protocol,
}

impl FlowKey {
    #[must_use]
    pub fn reversed(&self) -> Self {
        FlowKey { src: self.dst, dst: self.src, src_port: self.dst_port, dst_port: self.src_port, ..*self }
    }

    /// From a packet's fields; `None` if the protocol number is neither TCP nor UDP.
    pub fn of(src: IpAddr, dst: IpAddr, src_port: u16, dst_port: u16, protocol: u8) -> Option<Self> {
        let protocol = Protocol::ALL.into_iter().find(|one| one.number() == protocol)?;
        let wide = |address| match address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        Some(FlowKey { src: wide(src), dst: wide(dst), src_port, dst_port, protocol })
    }
}
