//! The engine's view of a packet, common to real IP packets and simulated ones.

use ccp_int::FlowKey;

use crate::ip::Extension;

/// The two ECN bits (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ecn {
    NotEct,
    Ect0,
    Ect1,
    Ce,
}

impl Ecn {
    pub fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}

/// A waiting packet, for the link's ACK filter when another one arrives.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Judged {
    /// Not ACKs of one connection in one direction.
    Unrelated,
    /// It carries something that the arriving ACK does not repeat.
    Needed,
    Superfluous,
}

pub trait Packet: Clone {
    fn len_bytes(&self) -> u32;

    fn ecn(&self) -> Ecn;

    /// Sets the ECN field to CE. Called only for ECN-capable packets.
    fn mark_ce(&mut self);

    /// Number of its flow, for queues per flow. Packets of different flows have different numbers.
    fn flow_id(&self) -> u64;

    /// Decrements the TTL or hop limit; false if the packet ends here.
    fn hop(&mut self) -> bool;

    /// Flips one bit after the IP header, selected by an arbitrary number.
    fn corrupt(&mut self, choice: u64);

    /// Its flow; `None` if it is neither TCP nor UDP, or flows are not needed.
    fn flow(&self) -> Option<FlowKey> {
        None
    }

    /// Its TCP sequence number; `None` if it is not TCP, or not needed.
    fn tcp_sequence(&self) -> Option<u32> {
        None
    }

    /// Flow of a TCP segment with data or a FIN, its first sequence number, and the one after its last; `None` if
    /// it is another packet, or not needed.
    fn tcp_sent(&self) -> Option<(FlowKey, u32, u32)> {
        None
    }

    /// Flow of the data that a TCP ACK acknowledges, and its number; only if it has no data and neither opens nor
    /// closes a connection.
    fn tcp_acked(&self) -> Option<(FlowKey, u32)> {
        None
    }

    /// Changes the number of a TCP ACK; SACK ranges below it are removed.
    fn acknowledge(&mut self, _number: u32) {}

    /// Removes the echo of ECN marks from a TCP ACK.
    fn hide_marks(&mut self) {}

    /// Whether it is a TCP ACK over IPv6 without data that neither opens nor closes a connection.
    fn is_pure_ack(&self) -> bool {
        false
    }

    /// Whether a waiting packet is still needed when this one follows it. An ACK is superfluous if it carries
    /// no data, no SACK range and no other option than a timestamp, and the later one has the same flags and
    /// acknowledges more.
    fn judge(&self, _waiting: &Self) -> Judged {
        Judged::Unrelated
    }

    /// The report to its sender that it is larger than a tunnel's MTU; `None`: nothing can be reported.
    fn too_big(&self, _mtu_bytes: u32) -> Option<Self> {
        None
    }

    fn hop_limit(&self) -> Option<u8> {
        None
    }

    /// Its extension headers, if it can have any.
    fn extension_mut(&mut self) -> Option<&mut Option<Box<Extension>>> {
        None
    }

    /// Its transmission begins; `dropped_late_pkts` waiting packets of its flow were dropped so far.
    fn leaves(&mut self, now_ns: u64, dropped_late_pkts: u64) {
        if let Some(Some(extension)) = self.extension_mut() {
            extension.leaves(now_ns, dropped_late_pkts);
        }
    }
}
