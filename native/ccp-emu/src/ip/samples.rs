//! Packets for tests, and an independent check of their checksums.

use bytes::Bytes;

use super::vnet::{Gso, Partial, VnetHeader};

/// A host's write: one TCP segment, or several in one.
#[derive(Clone, Copy)]
pub struct Tcp {
    pub v6: bool,
    pub sequence: u32,
    pub flags: u8,
    pub payload_bytes: usize,
    /// First byte of the payload, which counts up.
    pub first_byte: u8,
    pub options: bool,
    pub source_port: u16,
    pub ecn: u8,
}

pub const ACK: u8 = 0x10;

impl Default for Tcp {
    fn default() -> Self {
        Tcp {
            v6: false,
            sequence: 1000,
            flags: ACK,
            payload_bytes: 100,
            first_byte: 0,
            options: true,
            source_port: 4000,
            ecn: 2,
        }
    }
}

impl Tcp {
    pub fn header_bytes(&self) -> usize {
        (if self.v6 { 40 } else { 20 }) + if self.options { 32 } else { 20 }
    }

    pub fn partial(&self) -> Partial {
        Partial { start: if self.v6 { 40 } else { 20 }, offset: 16 }
    }

    pub fn vnet(&self, gso_bytes: u16) -> VnetHeader {
        let gso = if gso_bytes == 0 {
            Gso::None
        } else if self.v6 {
            Gso::Tcp6
        } else {
            Gso::Tcp4
        };
        VnetHeader {
            gso,
            gso_bytes,
            header_bytes: self.header_bytes() as u16,
            partial: Some(self.partial()),
            cwr: false,
        }
    }

    /// The packet; its checksum field holds the sum of the pseudo-header.
    pub fn bytes(&self) -> Bytes {
        let transport_bytes = if self.options { 32 } else { 20 };
        let mut tcp = vec![0; transport_bytes];
        tcp[..2].copy_from_slice(&self.source_port.to_be_bytes());
        tcp[2..4].copy_from_slice(&5001u16.to_be_bytes());
        tcp[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        tcp[8..12].copy_from_slice(&77u32.to_be_bytes());
        tcp[12] = (transport_bytes as u8 / 4) << 4;
        tcp[13] = self.flags;
        tcp[14..16].copy_from_slice(&500u16.to_be_bytes());
        if self.options {
            tcp[20..].copy_from_slice(&[1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8]);
        }
        let payload = (0..self.payload_bytes).map(|i| self.first_byte.wrapping_add(i as u8));
        tcp.extend(payload);
        packet(self.v6, 6, 16, self.ecn, tcp)
    }
}

pub fn udp(v6: bool, payload_bytes: usize) -> Bytes {
    let length = (8 + payload_bytes) as u16;
    let mut udp = vec![0x10, 0x00, 0x20, 0x00];
    udp.extend(length.to_be_bytes());
    udp.extend([0, 0]);
    udp.extend((0..payload_bytes).map(|i| (i / 7) as u8));
    packet(v6, 17, 6, 0, udp)
}

fn packet(v6: bool, protocol: u8, checksum_at: usize, ecn: u8, mut transport: Vec<u8>) -> Bytes {
    let mut packet = vec![0u8; if v6 { 40 } else { 20 }];
    let length = transport.len() as u16;
    if v6 {
        packet[0] = 0x60;
        packet[1] = ecn << 4;
        packet[4..6].copy_from_slice(&length.to_be_bytes());
        (packet[6], packet[7]) = (protocol, 64);
        (packet[8], packet[23]) = (0xfd, 1);
        (packet[24], packet[39]) = (0xfd, 2);
    } else {
        (packet[0], packet[1]) = (0x45, ecn);
        packet[2..4].copy_from_slice(&(length + 20).to_be_bytes());
        packet[4..6].copy_from_slice(&0xfff0u16.to_be_bytes());
        packet[6] = 0x40;
        (packet[8], packet[9]) = (64, protocol);
        packet[12..16].copy_from_slice(&[10, 0, 0, 1]);
        packet[16..20].copy_from_slice(&[10, 0, 0, 2]);
        let sum = !words(&packet) as u16;
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    let sum = pseudo(&packet, length) as u16;
    transport[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
    packet.extend(transport);
    packet.into()
}

/// An IPv6 packet with these bytes after its first header, starting with a header of this type.
pub fn after_ip(packet: &[u8], first: u8, raw: &[u8]) -> Vec<u8> {
    let mut out = packet.to_vec();
    out.splice(40..40, raw.iter().copied());
    let length = (out.len() - 40) as u16;
    out[4..6].copy_from_slice(&length.to_be_bytes());
    out[6] = first;
    out
}

/// Ones' complement sum, word by word with end-around carry.
fn words(bytes: &[u8]) -> u32 {
    bytes.chunks(2).fold(0u32, |sum, pair| {
        let word = u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        let sum = sum + word;
        (sum & 0xffff) + (sum >> 16)
    })
}

fn pseudo(ip: &[u8], length: u16) -> u32 {
    let (addresses, protocol) = if ip[0] >> 4 == 4 { (&ip[12..20], ip[9]) } else { (&ip[8..40], ip[6]) };
    let mut pseudo = addresses.to_vec();
    pseudo.extend([0, protocol]);
    pseudo.extend(length.to_be_bytes());
    words(&pseudo)
}

/// Whether an IPv4 header's checksum is correct; IPv6 has none.
pub fn ip_header_is_right(packet: &[u8]) -> bool {
    packet[0] >> 4 == 6 || words(&packet[..20]) == 0xffff
}

/// Whether lengths and checksums of a complete packet are correct.
pub fn is_right(packet: &[u8]) -> bool {
    let v4 = packet[0] >> 4 == 4;
    let start = if v4 { 20 } else { 40 };
    let length =
        usize::from(u16::from_be_bytes(if v4 { [packet[2], packet[3]] } else { [packet[4], packet[5]] }));
    let length_is_right = length + if v4 { 0 } else { 40 } == packet.len();
    let transport = &packet[start..];
    let mut all = transport.to_vec();
    if all.len() % 2 == 1 {
        all.push(0);
    }
    let sum = words(&all) + pseudo(packet, transport.len() as u16);
    length_is_right && ip_header_is_right(packet) && (sum & 0xffff) + (sum >> 16) == 0xffff
}
