//! One IP packet, no larger than the MTU.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::{Bytes, BytesMut};
use ccp_int::{FlowKey, Protocol};

use super::ack_filter;
use super::checksum::{self, set_word, sum, word};
use super::extension::{Extension, IPV6_BYTES};
use super::tcp::sequence;
use super::too_big;
use super::vnet::Partial;
use crate::packet::{Ecn, Judged, Packet};

/// Room for TCP and IP headers with all options, or the start of another packet.
const HEAD_BYTES: usize = 120;

/// The hash FNV-1a of 64 bits (G. Fowler, L. C. Noll, K.-P. Vo).
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

const TCP_CHECKSUM: u16 = 16;

/// A packet: own headers, and a payload in the memory where its super-packet was read. Headers and offsets
/// are those of the packet without extension headers.
#[derive(Clone)]
pub struct IpPacket {
    head: [u8; HEAD_BYTES],
    head_bytes: u8,
    partial: Option<Partial>,
    extension: Option<Box<Extension>>,
    tail: Bytes,
}

/// Size of a packet's IP header, `None` if it has none.
fn ip_header_bytes(packet: &[u8]) -> Option<usize> {
    let size = match packet.first()? >> 4 {
        4 => usize::from(packet[0] & 15) * 4,
        6 => IPV6_BYTES,
        _ => return None,
    };
    (size >= 20 && packet.len() >= size).then_some(size)
}

impl IpPacket {
    /// From its bytes; `None` if they are not an IP packet.
    pub fn new(bytes: Bytes, partial: Option<Partial>) -> Option<Self> {
        ip_header_bytes(&bytes)?;
        // TCP headers end at the payload, so that payloads can be merged; otherwise the split is arbitrary.
        let head_bytes = tcp_header_end(&bytes, partial).unwrap_or(HEAD_BYTES).min(bytes.len());
        Self::split(bytes, head_bytes, partial)
    }

    /// From its bytes and the size of its headers.
    pub(super) fn split(mut bytes: Bytes, head_bytes: usize, partial: Option<Partial>) -> Option<Self> {
        if partial.is_some_and(|p| p.at() + 2 > head_bytes) {
            return None;
        }
        let mut head = [0; HEAD_BYTES];
        head.get_mut(..head_bytes)?.copy_from_slice(bytes.get(..head_bytes)?);
        let tail = bytes.split_off(head_bytes);
        Some(IpPacket { head, head_bytes: head_bytes as u8, partial, extension: None, tail })
    }

    /// With extension headers after its IPv6 header.
    pub(super) fn with_extension(self, extension: Option<Box<Extension>>) -> Self {
        IpPacket { extension, ..self }
    }

    pub(super) fn with_tail(&self, tail: Bytes) -> Self {
        IpPacket { tail, extension: self.extension.clone(), ..*self }
    }

    pub(super) fn extension(&self) -> Option<&Extension> {
        self.extension.as_deref()
    }

    pub(super) fn head(&self) -> &[u8] {
        &self.head[..usize::from(self.head_bytes)]
    }

    pub(super) fn head_mut(&mut self) -> &mut [u8] {
        &mut self.head[..usize::from(self.head_bytes)]
    }

    pub(super) fn tail(&self) -> &Bytes {
        &self.tail
    }

    pub(super) fn partial(&self) -> Option<Partial> {
        self.partial
    }

    /// Whether it is a TCP segment whose headers are the head.
    pub(super) fn is_tcp(&self) -> bool {
        tcp_header_end(self.head(), self.partial) == Some(usize::from(self.head_bytes))
    }

    pub(super) fn is_ipv4(&self) -> bool {
        self.head[0] >> 4 == 4
    }

    pub(super) fn ip_bytes(&self) -> usize {
        if self.is_ipv4() { usize::from(self.head[0] & 15) * 4 } else { IPV6_BYTES }
    }

    /// Sets the payload size in the headers: lengths, and sums over them.
    pub(super) fn set_payload_bytes(&mut self, payload_bytes: usize) {
        let ip_bytes = self.ip_bytes();
        let is_ipv4 = self.is_ipv4();
        let partial = self.partial;
        let head = self.head_mut();
        let total = head.len() + payload_bytes;
        if is_ipv4 {
            set_word(head, 2, total as u16);
            checksum::set_ipv4(&mut head[..ip_bytes]);
        } else {
            set_word(head, 4, (total - IPV6_BYTES) as u16);
        }
        if let Some(partial) = partial {
            let covered = total - usize::from(partial.start);
            if partial.offset != TCP_CHECKSUM {
                set_word(head, usize::from(partial.start) + 4, covered as u16);
            }
            let pseudo = pseudo_sum(head, covered, partial.offset);
            set_word(head, partial.at(), pseudo);
        }
    }

    pub fn destination(&self) -> IpAddr {
        self.address(16, 24)
    }

    fn address(&self, v4_at: usize, v6_at: usize) -> IpAddr {
        if self.is_ipv4() {
            IpAddr::V4(Ipv4Addr::from(copied(&self.head, v4_at)))
        } else {
            IpAddr::V6(Ipv6Addr::from(copied(&self.head, v6_at)))
        }
    }

    /// All bytes, with complete checksums as on the wire.
    pub fn whole(&self) -> BytesMut {
        let mut whole = BytesMut::with_capacity(self.len_bytes() as usize);
        let mut partial = self.partial;
        match &self.extension {
            None => whole.extend_from_slice(self.head()),
            Some(extension) => {
                whole.extend_from_slice(&extension.outer(&self.head));
                whole.extend_from_slice(&extension.raw);
                whole.extend_from_slice(&self.head()[IPV6_BYTES..]);
                partial = partial.map(|partial| extension.shifted(partial));
            }
        }
        whole.extend_from_slice(&self.tail);
        if let Some(partial) = partial {
            let complement = !sum(&whole[usize::from(partial.start).min(whole.len())..]);
            // UDP: 0 means no checksum (RFC 768).
            let value = if complement == 0 && partial.offset != TCP_CHECKSUM { 0xffff } else { complement };
            set_word(&mut whole, partial.at(), value);
        }
        whole
    }
}

fn copied<const N: usize>(head: &[u8; HEAD_BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|i| head[at + i])
}

/// End of the TCP header, if the packet is TCP with a partial checksum.
pub(super) fn tcp_header_end(bytes: &[u8], partial: Option<Partial>) -> Option<usize> {
    let partial = partial.filter(|p| p.offset == TCP_CHECKSUM)?;
    let start = usize::from(partial.start);
    let end = start + usize::from(*bytes.get(start + 12)? >> 4) * 4;
    (end >= start + 20 && end <= bytes.len().min(HEAD_BYTES)).then_some(end)
}

/// Sum of the pseudo-header (RFC 9293, section 3.1; RFC 8200, section 8.1).
pub(super) fn pseudo_sum(head: &[u8], covered_bytes: usize, offset: u16) -> u16 {
    let addresses = if head[0] >> 4 == 4 { &head[12..20] } else { &head[8..IPV6_BYTES] };
    let protocol = if offset == TCP_CHECKSUM { libc::IPPROTO_TCP } else { libc::IPPROTO_UDP };
    checksum::fold(u64::from(sum(addresses)) + protocol as u64 + covered_bytes as u64)
}

impl Packet for IpPacket {
    fn len_bytes(&self) -> u32 {
        let extension_bytes = self.extension.as_ref().map_or(0, |extension| extension.raw.len());
        u32::from(self.head_bytes) + (extension_bytes + self.tail.len()) as u32
    }

    fn ecn(&self) -> Ecn {
        Ecn::from_bits(if self.is_ipv4() { self.head[1] } else { self.head[1] >> 4 })
    }

    fn mark_ce(&mut self) {
        if self.is_ipv4() {
            self.set_ipv4_byte(1, self.head[1] | 3);
        } else {
            self.head[1] |= 0x30;
        }
    }

    fn flow_id(&self) -> u64 {
        let (addresses, protocol) = if self.is_ipv4() { (12..20, 9) } else { (8..IPV6_BYTES, 6) };
        let at = self.ip_bytes();
        let ports = if self.flow().is_some() { at..at + 4 } else { at..at };
        let fields = [&self.head[addresses], &self.head[protocol..=protocol], &self.head[ports]];
        fields
            .into_iter()
            .flatten()
            .fold(FNV_BASIS, |id, byte| (id ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
    }

    fn hop(&mut self) -> bool {
        let at = if self.is_ipv4() { 8 } else { 7 };
        if self.head[at] <= 1 {
            return false;
        }
        if self.is_ipv4() {
            self.set_ipv4_byte(at, self.head[at] - 1);
        } else {
            self.head[at] -= 1;
        }
        true
    }

    fn corrupt(&mut self, choice: u64) {
        // Exclude what no checksum covers.
        let extension = self.extension.take();
        let mut whole = self.whole();
        self.extension = extension;
        let start = self.ip_bytes();
        let bits = (whole.len() - start) as u64 * 8;
        if bits == 0 {
            return;
        }
        let bit = choice % bits;
        whole[start + (bit / 8) as usize] ^= 1 << (bit % 8);
        let whole = whole.freeze();
        self.partial = None;
        // The head keeps its length, including the flipped bit.
        let head_bytes = usize::from(self.head_bytes);
        self.head_mut().copy_from_slice(&whole[..head_bytes]);
        self.tail = whole.slice(head_bytes..);
    }

    fn flow(&self) -> Option<FlowKey> {
        let at = self.ip_bytes();
        let protocol = self.head[if self.is_ipv4() { 9 } else { 6 }];
        let is_later_fragment = self.is_ipv4() && word(&self.head, 6) & 0x1fff != 0;
        if is_later_fragment || at + 4 > usize::from(self.head_bytes) {
            return None;
        }
        let ports = (word(&self.head, at), word(&self.head, at + 2));
        FlowKey::of(self.address(12, 8), self.destination(), ports.0, ports.1, protocol)
    }

    fn tcp_sequence(&self) -> Option<u32> {
        let at = self.ip_bytes();
        let is_tcp = self.flow()?.protocol == Protocol::Tcp && at + 8 <= usize::from(self.head_bytes);
        is_tcp.then(|| sequence(&self.head, at))
    }

    fn tcp_sent(&self) -> Option<(FlowKey, u32, u32)> {
        self.sent()
    }

    fn tcp_acked(&self) -> Option<(FlowKey, u32)> {
        self.acked()
    }

    fn acknowledge(&mut self, number: u32) {
        self.set_acked(number);
    }

    fn hide_marks(&mut self) {
        self.clear_ece();
    }

    fn is_pure_ack(&self) -> bool {
        !self.is_ipv4() && self.pure_ack().is_some()
    }

    fn judge(&self, waiting: &Self) -> Judged {
        ack_filter::judge(self, waiting)
    }

    fn too_big(&self, mtu_bytes: u32) -> Option<Self> {
        too_big::report(self, mtu_bytes)
    }

    fn hop_limit(&self) -> Option<u8> {
        (!self.is_ipv4()).then_some(self.head[7])
    }

    fn extension_mut(&mut self) -> Option<&mut Option<Box<Extension>>> {
        (!self.is_ipv4()).then_some(&mut self.extension)
    }
}

impl IpPacket {
    /// Changes a byte of the IPv4 header, and its checksum (RFC 1624).
    fn set_ipv4_byte(&mut self, at: usize, value: u8) {
        let aligned = at & !1;
        let old = word(&self.head, aligned);
        self.head[at] = value;
        let new = word(&self.head, aligned);
        let checksum = !checksum::replace(!word(&self.head, 10), old, new);
        set_word(&mut self.head, 10, checksum);
    }
}

impl std::fmt::Debug for IpPacket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IpPacket({} bytes to {})", self.len_bytes(), self.destination())
    }
}

#[cfg(test)]
#[path = "datagram_tests.rs"]
mod tests;
