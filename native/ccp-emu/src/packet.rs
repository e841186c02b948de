//! What the engine must know of a packet, and nothing else: real IP packets and simulated ones look alike.

use ccp_int::FlowKey;

use crate::ip::Extension;

/// The two ECN bits (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ecn {
    /// Not capable of ECN.
    NotEct,
    /// ECT(0).
    Ect0,
    /// ECT(1).
    Ect1,
    /// Congestion experienced.
    Ce,
}

impl Ecn {
    /// From the lower two bits of the traffic class.
    pub fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}

/// A packet that travels through a [`Network`](crate::Network).
pub trait Packet: Clone {
    /// Size of the IP packet.
    fn len_bytes(&self) -> u32;

    fn ecn(&self) -> Ecn;

    /// Sets the ECN field to CE. Called for packets of ECN-capable transports only.
    fn mark_ce(&mut self);

    /// Takes one from the TTL or hop limit; false when the packet ends here.
    fn hop(&mut self) -> bool;

    /// Flips one bit behind the IP header, chosen by a number that may be any.
    fn corrupt(&mut self, choice: u64);

    /// Whose packet it is; `None` if it is neither TCP nor UDP, or nobody needs to know.
    fn flow(&self) -> Option<FlowKey> {
        None
    }

    /// Its TCP sequence number; `None` if it is not TCP, or nobody needs to know.
    fn tcp_sequence(&self) -> Option<u32> {
        None
    }

    /// Whether it is an ACK of TCP over IPv6, without data, that neither opens nor closes a connection.
    fn is_pure_ack(&self) -> bool {
        false
    }

    /// Its hop limit, if it is IPv6.
    fn hop_limit(&self) -> Option<u8> {
        None
    }

    /// The place for its extension headers, if it can have any.
    fn extension_mut(&mut self) -> Option<&mut Option<Box<Extension>>> {
        None
    }

    /// Its transmission begins; so many packets of its flow were dropped while they waited, so far.
    fn leaves(&mut self, now_ns: u64, dropped_late_pkts: u64) {
        if let Some(Some(extension)) = self.extension_mut() {
            extension.leaves(now_ns, dropped_late_pkts);
        }
    }
}
