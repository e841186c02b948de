//! Whose packet it is.

use std::net::{IpAddr, Ipv6Addr};

use serde::Serialize;

/// Protocols with flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    const ALL: [Self; 2] = [Protocol::Tcp, Protocol::Udp];

    /// Its number in IP headers.
    pub fn number(self) -> u8 {
        match self {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
        }
    }

    /// Its name, as the bus has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        }
    }
}

/// The 5-tuple of a flow, as its packets have it. IPv4 addresses are those within IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Sender.
    pub src: Ipv6Addr,
    /// Receiver.
    pub dst: Ipv6Addr,
    /// Port of the sender.
    pub src_port: u16,
    /// Port of the receiver.
    pub dst_port: u16,
    /// TCP or UDP.
    pub protocol: Protocol,
}

impl FlowKey {
    /// That of packets that go back.
    #[must_use]
    pub fn reversed(&self) -> Self {
        FlowKey { src: self.dst, dst: self.src, src_port: self.dst_port, dst_port: self.src_port, ..*self }
    }

    /// Of what stands in a packet; `None` if the protocol, by its number, is neither TCP nor UDP.
    pub fn of(src: IpAddr, dst: IpAddr, src_port: u16, dst_port: u16, protocol: u8) -> Option<Self> {
        let protocol = Protocol::ALL.into_iter().find(|one| one.number() == protocol)?;
        let wide = |address| match address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        Some(FlowKey { src: wide(src), dst: wide(dst), src_port, dst_port, protocol })
    }
}
