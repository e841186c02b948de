//! Link-layer framing.

use pcap_file::DataLink;

use crate::wire::u16_at;

const IPV6: u16 = 0x86dd;
const VLANS: [u16; 3] = [0x8100, 0x88a8, 0x9100];

#[derive(Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// An IPv6 packet, according to the link.
    Ipv6(&'a [u8]),
    Other,
    /// Unsupported link type.
    UnknownLink,
}

pub fn content(link: DataLink, frame: &[u8]) -> Content<'_> {
    let packet = match link {
        DataLink::ETHERNET => after_type(frame, 12, 14),
        DataLink::LINUX_SLL => after_type(frame, 14, 16),
        DataLink::LINUX_SLL2 => after_type(frame, 0, 20),
        DataLink::RAW | DataLink::IPV6 => by_version(frame),
        DataLink::NULL | DataLink::LOOP => frame.get(4..).and_then(by_version),
        DataLink::IPV4 => None,
        // On Linux and BSD, files also encode RAW with the numbers of their own system.
        DataLink::Unknown(12 | 14) => by_version(frame),
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
