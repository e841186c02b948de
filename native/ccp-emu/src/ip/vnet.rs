//! The header of a TUN device with IFF_VNET_HDR (`<linux/virtio_net.h>`).

pub const VNET_BYTES: usize = 10;

const NEEDS_CSUM: u8 = 1;
const ECN: u8 = 0x80;

/// Kind of super-packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Gso {
    /// A single packet.
    None,
    /// TCP segments over IPv4.
    Tcp4,
    /// TCP segments over IPv6.
    Tcp6,
    /// UDP datagrams of one flow.
    Udp,
    /// Something else, which was not enabled.
    Unknown,
}

/// A checksum to be computed: its field holds the sum of the pseudo-header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Partial {
    /// First covered byte.
    pub start: u16,
    /// Offset of the checksum from there.
    pub offset: u16,
}

impl Partial {
    /// Offset of the checksum in the packet.
    pub fn at(self) -> usize {
        usize::from(self.start) + usize::from(self.offset)
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct VnetHeader {
    pub gso: Gso,
    pub gso_bytes: u16,
    pub header_bytes: u16,
    /// A checksum to be computed.
    pub partial: Option<Partial>,
    /// The first segment reduces the congestion window (TCP flag CWR).
    pub cwr: bool,
}

impl VnetHeader {
    pub fn plain(partial: Option<Partial>) -> Self {
        VnetHeader { gso: Gso::None, gso_bytes: 0, header_bytes: 0, partial, cwr: false }
    }

    /// Splits it off the start of a frame; `None` if the frame is too short.
    pub fn read(frame: &[u8]) -> Option<Self> {
        let header: &[u8; VNET_BYTES] = frame.first_chunk()?;
        let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let gso = match header[1] & !ECN {
            0 => Gso::None,
            1 => Gso::Tcp4,
            4 => Gso::Tcp6,
            5 => Gso::Udp,
            _ => Gso::Unknown,
        };
        let partial = (header[0] & NEEDS_CSUM != 0).then(|| Partial { start: half(6), offset: half(8) });
        let cwr = header[1] & ECN != 0;
        Some(VnetHeader { gso, gso_bytes: half(4), header_bytes: half(2), partial, cwr })
    }

    pub fn write(&self) -> [u8; VNET_BYTES] {
        let mut header = [0; VNET_BYTES];
        let kind = match self.gso {
            Gso::None | Gso::Unknown => 0,
            Gso::Tcp4 => 1,
            Gso::Tcp6 => 4,
            Gso::Udp => 5,
        };
        header[1] = kind | if self.cwr { ECN } else { 0 };
        header[2..4].copy_from_slice(&self.header_bytes.to_ne_bytes());
        header[4..6].copy_from_slice(&self.gso_bytes.to_ne_bytes());
        if let Some(partial) = self.partial {
            header[0] = NEEDS_CSUM;
            header[6..8].copy_from_slice(&partial.start.to_ne_bytes());
            header[8..10].copy_from_slice(&partial.offset.to_ne_bytes());
        }
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_writing_and_reading() {
        let partial = Some(Partial { start: 20, offset: 16 });
        for header in [
            VnetHeader::plain(None),
            VnetHeader::plain(partial),
            VnetHeader { gso: Gso::Tcp4, gso_bytes: 1448, header_bytes: 52, partial, cwr: true },
            VnetHeader { gso: Gso::Tcp6, gso_bytes: 1428, header_bytes: 72, partial, cwr: false },
            VnetHeader { gso: Gso::Udp, gso_bytes: 1000, header_bytes: 28, partial, cwr: false },
        ] {
            assert_eq!(VnetHeader::read(&header.write()), Some(header));
        }
    }

    #[test]
    fn short_frames_have_none() {
        assert_eq!(VnetHeader::read(&[0; VNET_BYTES - 1]), None);
    }
}
