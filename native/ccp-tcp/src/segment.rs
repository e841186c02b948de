//! Segments between sender and receiver.

use std::ops::{Deref, DerefMut};

/// Maximum ranges of an ACK with a timestamp.
const MAX_SACKS: usize = 3;

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SackRange {
    pub start: u64,
    /// After the last byte.
    pub end: u64,
}

/// The ranges of an ACK's SACK option (RFC 2018), without allocation.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sacks {
    ranges: [SackRange; MAX_SACKS],
    len: u8,
}

impl Sacks {
    /// Appends a range; false if full.
    pub fn push(&mut self, range: SackRange) -> bool {
        let Some(place) = self.ranges.get_mut(usize::from(self.len)) else {
            return false;
        };
        *place = range;
        self.len += 1;
        true
    }
}

impl Deref for Sacks {
    type Target = [SackRange];

    fn deref(&self) -> &[SackRange] {
        &self.ranges[..usize::from(self.len)]
    }
}

impl DerefMut for Sacks {
    fn deref_mut(&mut self) -> &mut [SackRange] {
        &mut self.ranges[..usize::from(self.len)]
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Data {
    pub seq: u64,
    pub len_bytes: u32,
    /// Transmission time: the timestamp option (RFC 7323), in nanoseconds.
    pub sent_ns: u64,
    /// `Ack::sent_ns` of the newest ACK received by the sender: the echo of that option.
    pub echo_ns: u64,
    /// Sent before.
    pub is_retransmission: bool,
    /// Routers may mark it (ECT).
    pub ect: bool,
    /// The sender has reduced its window because of ECN (CWR, RFC 3168).
    pub cwr: bool,
    /// The end of a burst or write (PSH): the receiver's application reads now.
    pub push: bool,
    /// The last segment. A FIN takes one sequence number after the data.
    pub fin: bool,
}

impl Data {
    /// After its last sequence number.
    pub fn end_seq(&self) -> u64 {
        self.seq + u64::from(self.len_bytes) + u64::from(self.fin)
    }
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Ack {
    /// After the last byte received in order.
    pub ack: u64,
    /// Transmission time by the receiver's clock: its own timestamp option, in nanoseconds.
    pub sent_ns: u64,
    /// `sent_ns` of the answered segment (RFC 7323, section 4.3).
    pub echo_ns: u64,
    /// Out-of-order ranges, newest first; preceded by a DSACK (RFC 2883), if any.
    pub sacks: Sacks,
    /// An ECN mark arrived (ECE).
    pub ece: bool,
    /// Receive window after `ack`.
    pub window_bytes: u64,
}
