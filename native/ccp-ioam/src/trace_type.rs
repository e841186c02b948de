//! The fields that a trace requests.

use serde::{Deserialize, Serialize};

/// IOAM-Trace-Type (RFC 9197, section 4.4.1): one bit per field, bit 0 the most significant of 24.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TraceType(pub u32);

const fn bit(n: u32) -> u32 {
    1 << (23 - n)
}

impl TraceType {
    pub const NODE: u32 = bit(0);
    pub const INTERFACES: u32 = bit(1);
    pub const TIMESTAMP_S: u32 = bit(2);
    pub const TIMESTAMP_FRACTION: u32 = bit(3);
    pub const TRANSIT_DELAY: u32 = bit(4);
    pub const NAMESPACE_DATA: u32 = bit(5);
    pub const QUEUE_DEPTH: u32 = bit(6);
    pub const CHECKSUM_COMPLEMENT: u32 = bit(7);
    pub const NODE_WIDE: u32 = bit(8);
    pub const INTERFACES_WIDE: u32 = bit(9);
    pub const NAMESPACE_DATA_WIDE: u32 = bit(10);
    pub const BUFFER_OCCUPANCY: u32 = bit(11);
    pub const SNAPSHOT: u32 = bit(22);

    /// Bits 12 to 21, not defined yet: four bytes each.
    pub const UNDEFINED: u32 = 0x0ffc;
    const RESERVED: u32 = bit(23);
    const WIDE: u32 = Self::NODE_WIDE | Self::INTERFACES_WIDE | Self::NAMESPACE_DATA_WIDE;

    /// Whether one of these fields is requested.
    pub fn has(self, fields: u32) -> bool {
        self.0 & fields != 0
    }

    /// Whether a source may send it: 24 bits, none undefined or reserved.
    pub fn is_sendable(self) -> bool {
        self.0 != 0 && self.0 & !0xff_ffff == 0 && !self.has(Self::UNDEFINED | Self::RESERVED)
    }

    /// Words of four bytes that a node writes, without the snapshot: the value of NodeLen.
    pub fn node_words(self) -> u8 {
        let fields = self.0 & !(Self::SNAPSHOT | Self::RESERVED) & 0xff_ffff;
        (fields.count_ones() + (fields & Self::WIDE).count_ones()) as u8
    }

    /// Offset of a four-byte field in a node's data; `None` if not requested.
    pub fn offset_of(self, field: u32) -> Option<usize> {
        // The most significant bit comes first, and short fields precede wide ones.
        let before = self.0 & 0xff_ffff & !(field | (field - 1));
        self.has(field).then(|| before.count_ones() as usize * 4)
    }
}
