//! What travels between sender and receiver.

/// A run of bytes that arrived out of order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SackRange {
    /// The first byte.
    pub start: u64,
    /// Behind the last byte.
    pub end: u64,
}

/// A segment with data.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Data {
    /// The first byte.
    pub seq: u64,
    /// Bytes of data.
    pub len_bytes: u32,
    /// When the sender sent it: the timestamp option (RFC 7323), in nanoseconds.
    pub sent_ns: u64,
    /// It has been sent before.
    pub is_retransmission: bool,
    /// The sender has reduced its window because of ECN (CWR, RFC 3168).
    pub cwr: bool,
    /// It is the last one.
    pub fin: bool,
}

/// An acknowledgement without data.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Ack {
    /// Behind the last byte that arrived in order.
    pub ack: u64,
    /// `sent_ns` of the segment that it answers (RFC 7323, section 4.3).
    pub echo_ns: u64,
    /// What arrived out of order, the newest first; with a DSACK (RFC 2883) in front, if there is one.
    pub sacks: Vec<SackRange>,
    /// An ECN mark arrived (ECE).
    pub ece: bool,
    /// What the receiver takes behind `ack`.
    pub window_bytes: u64,
}
