//! Misbehaving receivers: their host's acknowledgments are changed where they enter the network.
//!
//! Source: Savage et al., "TCP Congestion Control with a Misbehaving Receiver", CCR 29(5), 1999.

use std::collections::HashMap;

use ccp_int::FlowKey;

use crate::packet::Packet;
use crate::spec::{Misbehaviour, Node};

/// Data of a connection before it is acknowledged optimistically: handshakes, requests and control connections are not.
const OPTIMISTIC_AFTER_BYTES: u32 = 1 << 16;

/// Data of a connection to a misbehaving receiver.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// First sequence number, and the one after the last, that the sender has sent.
    first: u32,
    sent_end: u32,
    /// Highest acknowledgment that entered the network.
    acked: u32,
}

#[derive(Debug)]
pub(super) struct Misbehaving {
    nodes: Vec<Misbehaviour>,
    seen: HashMap<FlowKey, Seen>,
}

impl Misbehaving {
    /// `None` if all receivers behave.
    pub fn new(nodes: &[Node]) -> Option<Self> {
        let nodes: Vec<_> = nodes.iter().map(|node| node.misbehaves.unwrap_or_default()).collect();
        let any = nodes.iter().any(|node| *node != Misbehaviour::default());
        any.then(|| Misbehaving { nodes, seen: HashMap::new() })
    }

    /// A host sends a packet: gives what enters the network instead.
    pub fn change<P: Packet>(&mut self, from: usize, to: usize, packet: P, mut give: impl FnMut(P)) {
        if self.nodes[to] != Misbehaviour::default()
            && let Some((flow, start, end)) = packet.tcp_sent()
        {
            let seen = self.seen.entry(flow).or_insert(Seen { first: start, sent_end: end, acked: start });
            if is_after(end, seen.sent_end) {
                seen.sent_end = end;
            }
        }
        let how = self.nodes[from];
        match packet.tcp_acked().filter(|_| how != Misbehaviour::default()) {
            Some((flow, acked)) => self.acknowledge(how, flow, acked, packet, give),
            None => give(packet),
        }
    }

    fn acknowledge<P: Packet>(
        &mut self,
        how: Misbehaviour,
        flow: FlowKey,
        acked: u32,
        mut packet: P,
        mut give: impl FnMut(P),
    ) {
        if how.hides_marks {
            packet.hide_marks();
        }
        let Some(seen) = self.seen.get_mut(&flow) else { return give(packet) };
        let mut number = acked;
        if how.optimistic && seen.sent_end.wrapping_sub(seen.first) > OPTIMISTIC_AFTER_BYTES {
            number = seen.sent_end;
            packet.acknowledge(number);
        }
        let before = seen.acked;
        if !is_after(number, before) {
            return give(packet);
        }
        seen.acked = number;
        let news = u64::from(number.wrapping_sub(before));
        let parts = u64::from(how.ack_division).min(news);
        for part in 1..parts {
            let mut early = packet.clone();
            early.acknowledge(before.wrapping_add((news * part / parts) as u32));
            give(early);
        }
        give(packet);
    }
}

/// Compares sequence numbers (RFC 9293, section 3.4).
fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

#[cfg(test)]
#[path = "misbehaving_tests.rs"]
mod tests;
