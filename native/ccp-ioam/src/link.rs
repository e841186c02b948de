//! Link-layer framing.

use crate::wire::u16_at;

const IPV6: u16 = 0x86dd;
const VLANS: [u16; 3] = [0x8100, 0x88a8, 0x9100];

/// Numbers of link types in files (draft-ietf-opsawg-pcaplinktype).
pub const NULL: u16 = 0;
pub const ETHERNET: u16 = 1;
pub const RAW: u16 = 101;
pub const LOOP: u16 = 108;
pub const LINUX_SLL: u16 = 113;
pub const IPV4: u16 = 228;
pub const IPV6_ONLY: u16 = 229;
pub const LINUX_SLL2: u16 = 276;
/// RAW in files that have the numbers of a BSD.
const RAW_BSD: [u16; 2] = [12, 14];

#[derive(Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// An IPv6 packet, according to the link.
    Ipv6(&'a [u8]),
    Other,
    /// Unsupported link type.
    UnknownLink,
}

pub fn content(link: u16, frame: &[u8]) -> Content<'_> {
    let packet = match link {
        ETHERNET => after_type(frame, 12, 14),
        LINUX_SLL => after_type(frame, 14, 16),
        LINUX_SLL2 => after_type(frame, 0, 20),
        RAW | IPV6_ONLY => by_version(frame),
        NULL | LOOP => frame.get(4..).and_then(by_version),
        IPV4 => None,
        link if RAW_BSD.contains(&link) => by_version(frame),
        _ => return Content::UnknownLink,
    };
    packet.map_or(Content::Other, Content::Ipv6)
}

fn by_version(packet: &[u8]) -> Option<&[u8]> {
    (packet.first()? >> 4 == 6).then_some(packet)
}

/// The packet after an EtherType and any VLAN tags.
fn after_type(frame: &[u8], mut type_at: usize, mut at: usize) -> Option<&[u8]> {
    loop {
        match u16_at(frame, type_at)? {
            IPV6 => return frame.get(at..),
            vlan if VLANS.contains(&vlan) => {
                type_at = at + 2;
                at += 4;
            }
            _ => return None,
        }
    }
}
