//! The numbers of packets on the wire.

use crate::edge::EdgeToEdge;
use crate::option::Parsed;
use crate::read::read_headers;
use crate::tcp_state::TcpState;

/// The numbers of a packet: one, or one per segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    pub first: u64,
    pub pkts: u32,
}

impl Numbers {
    /// From a packet's options; `None` if it has no number. A super-packet's header has the number of its
    /// first segment, and all segments have the same header: a segment's own `tcp_sequence` tells its place.
    /// `pkts`: packets on the wire.
    pub fn of(
        edge: Option<EdgeToEdge>,
        tcp: Option<TcpState>,
        tcp_sequence: Option<u32>,
        pkts: u32,
    ) -> Option<Self> {
        let number = edge?.sequence?;
        let Some((first, mss_bytes)) = tcp.and_then(|tcp| tcp.first_sequence.zip(tcp.mss_bytes)) else {
            return Some(Numbers { first: number, pkts });
        };
        // A super-packet is shorter than 64 KB, so the lower half of the sequence number suffices.
        let segment = (tcp_sequence? as u16).wrapping_sub(first).checked_div(mss_bytes)?;
        Some(Numbers { first: number.wrapping_add(segment.into()), pkts })
    }

    /// From extension headers separated from their packet; `first` is the type of the first one. `None` if malformed.
    pub fn read(extension: &[u8], first: u8, tcp_sequence: Option<u32>, pkts: u32) -> Option<Self> {
        let (mut edge, mut tcp) = (None, None);
        for found in read_headers(extension, first) {
            match found.ok()?.option {
                Parsed::EdgeToEdge(found) => edge = Some(found),
                Parsed::TcpState(found) => tcp = Some(found),
                Parsed::Trace(_) | Parsed::PathEcho(_) | Parsed::Other(..) => {}
            }
        }
        Self::of(edge, tcp, tcp_sequence, pkts)
    }

    pub fn last(&self) -> u64 {
        self.first.saturating_add(u64::from(self.pkts).saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(
        mss_bytes: u16,
        first_sequence: Option<u16>,
        tcp_sequence: Option<u32>,
        pkts: u32,
    ) -> Option<Numbers> {
        let edge = EdgeToEdge { sequence: Some(100), ..EdgeToEdge::default() };
        let tcp = TcpState { mss_bytes: Some(mss_bytes), first_sequence, ..TcpState::default() };
        Numbers::of(Some(edge), Some(tcp), tcp_sequence, pkts)
    }

    #[test]
    fn a_segment_counts_from_its_super_packets_first() {
        let numbers = |first, pkts| Some(Numbers { first, pkts });
        assert_eq!(of(1000, Some(7), Some(0x12_0007), 45), numbers(100, 45));
        assert_eq!(of(1000, Some(7), Some(0x12_0007 + 3000), 1), numbers(103, 1));
        // The lower half may wrap within it, and so may the whole number.
        assert_eq!(of(1000, Some(65_000), Some(0x13_0000 + 464), 2), numbers(101, 2));
        assert_eq!(of(1000, Some(65_535), Some(999), 1), numbers(101, 1));
        // Other packets have the header's number, whatever TCP says.
        assert_eq!(of(1000, None, Some(5000), 1), numbers(100, 1));
        assert_eq!(numbers(100, 45).map(|numbers| numbers.last()), Some(144));
    }

    #[test]
    fn what_cannot_be_known_is_no_number() {
        assert_eq!(of(1000, Some(7), None, 1), None);
        assert_eq!(of(0, Some(7), Some(7), 1), None);
        assert_eq!(Numbers::of(None, None, Some(7), 1), None);
        assert_eq!(Numbers::read(&[60, 200], 0, Some(7), 1), None);
    }
}
