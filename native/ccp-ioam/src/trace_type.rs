//! Which fields a trace asks its nodes for.

use serde::{Deserialize, Serialize};

/// IOAM-Trace-Type (RFC 9197, section 4.4.1): a bit a field, bit 0 the most significant of 24.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TraceType(pub u32);

const fn bit(n: u32) -> u32 {
    1 << (23 - n)
}

impl TraceType {
    /// Hop limit and node id, 8 and 24 bits.
    pub const NODE: u32 = bit(0);
    /// Interfaces of arrival and departure, 16 bits each.
    pub const INTERFACES: u32 = bit(1);
    /// Seconds of the time of arrival.
    pub const TIMESTAMP_S: u32 = bit(2);
    /// Fraction of a second of the time of arrival.
    pub const TIMESTAMP_FRACTION: u32 = bit(3);
    /// Time within the node.
    pub const TRANSIT_DELAY: u32 = bit(4);
    /// 32 bits that mean what the namespace says.
    pub const NAMESPACE_DATA: u32 = bit(5);
    /// Queue of the interface of departure.
    pub const QUEUE_DEPTH: u32 = bit(6);
    /// Number that keeps a UDP checksum right.
    pub const CHECKSUM_COMPLEMENT: u32 = bit(7);
    /// Hop limit and node id, 8 and 56 bits.
    pub const NODE_WIDE: u32 = bit(8);
    /// Interfaces, 32 bits each.
    pub const INTERFACES_WIDE: u32 = bit(9);
    /// 64 bits that mean what the namespace says.
    pub const NAMESPACE_DATA_WIDE: u32 = bit(10);
    /// Buffers that queues share.
    pub const BUFFER_OCCUPANCY: u32 = bit(11);
    /// Opaque state snapshot.
    pub const SNAPSHOT: u32 = bit(22);

    /// Bits 12 to 21, of which nobody knows yet what they mean: four octets each.
    pub const UNDEFINED: u32 = 0x0ffc;
    const RESERVED: u32 = bit(23);
    const WIDE: u32 = Self::NODE_WIDE | Self::INTERFACES_WIDE | Self::NAMESPACE_DATA_WIDE;

    /// Whether one of these fields is asked for.
    pub fn has(self, fields: u32) -> bool {
        self.0 & fields != 0
    }

    /// Whether a source may send it: 24 bits, and none of them undefined or reserved.
    pub fn is_sendable(self) -> bool {
        self.0 != 0 && self.0 & !0xff_ffff == 0 && !self.has(Self::UNDEFINED | Self::RESERVED)
    }

    /// Words of four octets that a node writes, without the snapshot: what NodeLen has to be.
    pub fn node_words(self) -> u8 {
        let fields = self.0 & !(Self::SNAPSHOT | Self::RESERVED) & 0xff_ffff;
        (fields.count_ones() + (fields & Self::WIDE).count_ones()) as u8
    }

    /// Where a field of four octets lies in a node's data; `None` if it is not asked for.
    pub fn offset_of(self, field: u32) -> Option<usize> {
        // The most significant bit comes first, and short fields before wide ones.
        let before = self.0 & 0xff_ffff & !(field | (field - 1));
        self.has(field).then(|| before.count_ones() as usize * 4)
    }
}
