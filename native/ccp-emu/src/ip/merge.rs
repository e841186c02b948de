//! Merges packets that leave at the same time, as a network card's GRO does.
//!
//! Only consecutive TCP segments of one flow, and only if the receiver cannot see any difference except fewer
//! interrupts.

use std::io::IoSlice;

use super::datagram::IpPacket;
use super::extension::{Extension, IPV6_BYTES};
use super::tcp::{CWR, FIN, FLAGS_AT, PSH, RST, SYN, URG, sequence};
use super::vnet::{Gso, VnetHeader};
use crate::packet::Packet;

/// Maximum size of an IP packet.
const MAX_BYTES: usize = 65_535;
/// Maximum segments of a group; with its headers, the maximum parts of a write.
const MAX_SEGMENTS: usize = 64;
/// Parts of a group: vnet header, headers with extension headers, one payload per segment.
const MAX_PARTS: usize = MAX_SEGMENTS + 4;

#[derive(Debug)]
pub struct Group {
    packets: Vec<IpPacket>,
    bytes: usize,
    /// Sequence number of the next mergeable segment.
    next: Option<u32>,
}

impl Group {
    pub fn new(packet: IpPacket) -> Self {
        let bytes = packet.len_bytes() as usize;
        let next = following(&packet);
        Group { packets: vec![packet], bytes, next }
    }

    pub fn packets(&self) -> &[IpPacket] {
        &self.packets
    }

    pub fn add(&mut self, packet: IpPacket) -> Option<IpPacket> {
        let first = &self.packets[0];
        let fits = self.packets.len() < MAX_SEGMENTS && self.bytes + packet.tail().len() <= MAX_BYTES;
        let goes_on = self.next.is_some_and(|next| goes_on(first, &packet, next));
        if !fits || !goes_on || packet.tail().len() > first.tail().len() {
            return Some(packet);
        }
        self.bytes += packet.tail().len();
        let whole = packet.tail().len() == first.tail().len();
        self.next = following(&packet).filter(|_| whole);
        self.packets.push(packet);
        None
    }

    /// Calls `write` with the headers and parts.
    pub fn write<T>(mut self, write: impl FnOnce(&[IoSlice<'_>]) -> T) -> T {
        let vnet = self.vnet();
        if self.packets.len() > 1 {
            self.join();
        }
        let vnet = vnet.write();
        let mut parts = [IoSlice::new(&[]); MAX_PARTS];
        parts[0] = IoSlice::new(&vnet);
        let head = self.packets[0].head();
        let outer;
        let mut front = 2;
        match self.packets[0].extension() {
            None => parts[1] = IoSlice::new(head),
            Some(extension) => {
                outer = extension.outer(head);
                parts[1] = IoSlice::new(&outer);
                parts[2] = IoSlice::new(&extension.raw);
                parts[3] = IoSlice::new(&head[IPV6_BYTES..]);
                front = 4;
            }
        }
        for (part, packet) in parts[front..].iter_mut().zip(&self.packets) {
            *part = IoSlice::new(packet.tail());
        }
        write(&parts[..front + self.packets.len()])
    }

    fn vnet(&self) -> VnetHeader {
        let first = &self.packets[0];
        let shifted = |partial| first.extension().map_or(partial, |e| e.shifted(partial));
        let partial = first.partial().map(shifted);
        if self.packets.len() == 1 {
            return VnetHeader::plain(partial);
        }
        let extension_bytes = first.extension().map_or(0, |e| e.raw.len());
        let gso = if first.is_ipv4() { Gso::Tcp4 } else { Gso::Tcp6 };
        VnetHeader {
            gso,
            gso_bytes: first.tail().len() as u16,
            header_bytes: (first.head().len() + extension_bytes) as u16,
            partial,
            cwr: flags(first) & CWR != 0,
        }
    }

    /// Makes the first packet's headers the common ones.
    fn join(&mut self) {
        let ending = self.packets.last().map_or(0, flags) & (FIN | PSH);
        let payload_bytes = self.packets.iter().map(|p| p.tail().len()).sum();
        let first = &mut self.packets[0];
        let at = transport(first) + FLAGS_AT;
        first.head_mut()[at] |= ending;
        first.set_payload_bytes(payload_bytes);
    }
}

fn transport(packet: &IpPacket) -> usize {
    packet.partial().map_or(0, |p| usize::from(p.start))
}

fn flags(packet: &IpPacket) -> u8 {
    packet.head().get(transport(packet) + FLAGS_AT).copied().unwrap_or(0)
}

fn mergeable(packet: &IpPacket) -> bool {
    packet.is_tcp() && !packet.tail().is_empty()
}

/// Whether both have the same extension headers, as segments of a super-packet have.
fn have_same(a: Option<&Extension>, b: Option<&Extension>) -> bool {
    a.map(|a| (a.first, &a.raw)) == b.map(|b| (b.first, &b.raw))
}

/// Sequence number after a segment; `None` if nothing may follow it.
fn following(packet: &IpPacket) -> Option<u32> {
    if !mergeable(packet) || flags(packet) & (FIN | SYN | RST | PSH | URG) != 0 {
        return None;
    }
    Some(sequence(packet.head(), transport(packet)).wrapping_add(packet.tail().len() as u32))
}

/// Whether a packet is the next one of the flow, with headers that differ only where segments may differ.
fn goes_on(first: &IpPacket, packet: &IpPacket, next: u32) -> bool {
    let (a, b) = (first.head(), packet.head());
    let at = transport(first);
    if !mergeable(packet)
        || !have_same(first.extension(), packet.extension())
        || a.len() != b.len()
        || transport(packet) != at
        || flags(packet) & (SYN | RST | URG | CWR) != 0
        || (flags(packet) ^ flags(first)) & !(FIN | PSH | CWR) != 0
        || sequence(b, at) != next
    {
        return false;
    }
    // IPv4's length, identification and checksum, and IPv6's length may differ (IPv6's second range is
    // empty); so may the sequence number, the flags checked above, and TCP's checksum.
    let of_ip = if first.is_ipv4() { [2..6, 10..12] } else { [4..6, 6..6] };
    let of_tcp = [at + 4..at + 8, at + FLAGS_AT..at + FLAGS_AT + 1, at + 16..at + 18];
    let mut from = 0;
    for skip in of_ip.into_iter().chain(of_tcp) {
        if a[from..skip.start] != b[from..skip.start] {
            return false;
        }
        from = skip.end;
    }
    a[from..] == b[from..]
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
