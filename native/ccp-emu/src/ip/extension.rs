//! Extension headers with options (RFC 8200, sections 4.3 and 4.6), kept next to the packet, so that its
//! other headers and its payload stay in place when telemetry is added or removed.

use bytes::{Bytes, BytesMut};
use ccp_ioam::{Located, Parsed, read_headers, set_flow_dropped, set_transit_delay};

use super::checksum::{set_word, word};
use super::vnet::Partial;

pub const IPV6_BYTES: usize = 40;
pub const HOP_BY_HOP: u8 = 0;
pub const DESTINATION: u8 = 60;

const PAYLOAD_LENGTH: usize = 4;
const NEXT_HEADER: usize = 6;

/// Hop-by-Hop and Destination Options headers after an IPv6 header.
#[derive(Clone, Debug)]
pub struct Extension {
    /// Type of the first header.
    pub first: u8,
    pub raw: Vec<u8>,
    /// Data that the present node has yet to write.
    pub later: Option<Later>,
}

/// Data that a node knows only when the packet leaves.
#[derive(Clone, Copy, Debug)]
pub struct Later {
    pub from_ns: u64,
    pub delay_at: Option<usize>,
    /// Drops of the flow by the node's queue.
    pub dropped: Option<Dropped>,
}

#[derive(Clone, Copy, Debug)]
pub struct Dropped {
    pub at: usize,
    /// Those that never waited.
    pub early_pkts: u64,
}

impl Extension {
    /// An IPv6 header for a packet with these headers.
    pub fn outer(&self, inner: &[u8]) -> [u8; IPV6_BYTES] {
        let mut outer = std::array::from_fn(|i| inner.get(i).copied().unwrap_or(0));
        outer[NEXT_HEADER] = self.first;
        let payload_bytes = word(&outer, PAYLOAD_LENGTH).wrapping_add(self.raw.len() as u16);
        set_word(&mut outer, PAYLOAD_LENGTH, payload_bytes);
        outer
    }

    /// Whether it is an echo of the path, as inserted by sinks.
    pub fn is_echo(&self) -> bool {
        let mut found = read_headers(&self.raw, self.first);
        self.first == DESTINATION
            && matches!(found.next(), Some(Ok(Located { option: Parsed::PathEcho(_), .. })))
    }

    /// The packet leaves its node, which dropped `dropped_late_pkts` waiting packets of its flow.
    pub fn leaves(&mut self, now_ns: u64, dropped_late_pkts: u64) {
        let Some(Later { from_ns, delay_at, dropped }) = self.later.take() else { return };
        if let Some(at) = delay_at {
            set_transit_delay(&mut self.raw, at, now_ns.saturating_sub(from_ns));
        }
        if let Some(Dropped { at, early_pkts }) = dropped {
            set_flow_dropped(&mut self.raw, at, early_pkts + dropped_late_pkts);
        }
    }

    /// Place of a checksum in a packet with these headers.
    pub fn shifted(&self, partial: Partial) -> Partial {
        Partial { start: partial.start.wrapping_add(self.raw.len() as u16), ..partial }
    }
}

/// Removes the headers from a packet; a packet without headers, or with unreadable ones, is unchanged.
pub fn take_out(bytes: Bytes, partial: Option<Partial>) -> (Bytes, Option<Partial>, Option<Box<Extension>>) {
    let Some((end, upper)) = end(&bytes, partial) else { return (bytes, partial, None) };
    let raw = bytes[IPV6_BYTES..end].to_vec();
    let mut rest = BytesMut::with_capacity(bytes.len() - raw.len());
    rest.extend_from_slice(&bytes[..IPV6_BYTES]);
    rest.extend_from_slice(&bytes[end..]);
    let payload_bytes = word(&rest, PAYLOAD_LENGTH).wrapping_sub(raw.len() as u16);
    set_word(&mut rest, PAYLOAD_LENGTH, payload_bytes);
    rest[NEXT_HEADER] = upper;
    let partial = partial.map(|p| Partial { start: p.start - raw.len() as u16, ..p });
    let extension = Extension { first: bytes[NEXT_HEADER], raw, later: None };
    (rest.freeze(), partial, Some(Box::new(extension)))
}

/// Their end, and the type of the next header; `None` if there are none.
fn end(packet: &[u8], partial: Option<Partial>) -> Option<(usize, u8)> {
    if packet.len() <= IPV6_BYTES || packet[0] >> 4 != 6 {
        return None;
    }
    let (mut at, mut next) = (IPV6_BYTES, packet[NEXT_HEADER]);
    while next == DESTINATION || next == HOP_BY_HOP && at == IPV6_BYTES {
        let header_bytes = (usize::from(*packet.get(at + 1)?) + 1) * 8;
        next = packet[at];
        at += header_bytes;
    }
    let upper = partial.map_or(packet.len(), |p| usize::from(p.start));
    (at > IPV6_BYTES && at <= upper.min(packet.len())).then_some((at, next))
}

#[cfg(test)]
#[path = "extension_tests.rs"]
mod tests;
