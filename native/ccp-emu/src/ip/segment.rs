//! Splits a host's write into packets, as a network card would.

use bytes::Bytes;

use super::checksum::{set_word, word};
use super::datagram::{IpPacket, tcp_header_end};
use super::extension::take_out;
use super::tcp::{CWR, FIN, FLAGS_AT, PSH, sequence};
use super::vnet::{Gso, VnetHeader};

const UDP_BYTES: usize = 8;

/// Calls `give` with each packet of a frame, in order; returns false if the frame is malformed or cannot be split.
pub fn segments(vnet: VnetHeader, frame: Bytes, mut give: impl FnMut(IpPacket)) -> bool {
    let (frame, partial, extension) = take_out(frame, vnet.partial);
    let vnet = VnetHeader { partial, ..vnet };
    if vnet.gso == Gso::None {
        let packet = IpPacket::new(frame, partial);
        return packet.map(|packet| give(packet.with_extension(extension))).is_some();
    }
    let Some((model, payload)) = headers(vnet, frame) else { return false };
    let model = model.with_extension(extension);
    let each = usize::from(vnet.gso_bytes);
    let n = payload.len().div_ceil(each).max(1);
    for index in 0..n {
        let start = index * each;
        let tail = payload.slice(start..payload.len().min(start + each));
        give(segment(&model, tail, index, n, start));
    }
    true
}

/// The common headers, and the payload.
fn headers(vnet: VnetHeader, frame: Bytes) -> Option<(IpPacket, Bytes)> {
    let partial = vnet.partial.filter(|_| vnet.gso_bytes > 0)?;
    let end = match vnet.gso {
        Gso::Tcp4 | Gso::Tcp6 => tcp_header_end(&frame, vnet.partial)?,
        Gso::Udp => usize::from(partial.start) + UDP_BYTES,
        Gso::None | Gso::Unknown => return None,
    };
    // Checks that it is IP and that headers fit, then splits off the payload.
    IpPacket::new(frame.clone(), None)?;
    let model = IpPacket::split(frame, end, Some(partial))?;
    let payload = model.tail().clone();
    (model.ip_bytes() <= usize::from(partial.start)).then_some((model.with_tail(Bytes::new()), payload))
}

fn segment(model: &IpPacket, tail: Bytes, index: usize, n: usize, start: usize) -> IpPacket {
    let payload_bytes = tail.len();
    let mut packet = model.with_tail(tail);
    let transport = packet.partial().map_or(0, |p| usize::from(p.start));
    if packet.is_ipv4() {
        let id = word(packet.head(), 4).wrapping_add(index as u16);
        set_word(packet.head_mut(), 4, id);
    }
    if packet.is_tcp() {
        let head = packet.head_mut();
        let sequence = sequence(head, transport).wrapping_add(start as u32);
        head[transport + 4..transport + 8].copy_from_slice(&sequence.to_be_bytes());
        let flags = &mut head[transport + FLAGS_AT];
        if index > 0 {
            *flags &= !CWR;
        }
        if index + 1 < n {
            *flags &= !(FIN | PSH);
        }
    }
    packet.set_payload_bytes(payload_bytes);
    packet
}

#[cfg(test)]
#[path = "segment_tests.rs"]
mod tests;
