//! Why packets were lost: on a link, or because a queue was full.

use super::losses::Losses;

/// Share of the packets that a full queue drops, as a rule of thumb: as windows grow slowly, it is small.
const FULL_LOSS_RATIO: f64 = 0.05;

/// What the packets in front of a gap and behind it found at one node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Least room of its queue, in packets; `None` where the node does not tell.
    pub free_pkts: Option<u32>,
    /// Room that counts as none.
    pub full_pkts: u32,
    /// Packets, of all flows, that came between them.
    pub arrived_pkts: Option<f64>,
    /// Packets, of all flows, that were lost on its link between them.
    pub lost_pkts: Option<u64>,
}

impl Evidence {
    /// The queue was full when a packet beside the gap came.
    fn was_full(&self) -> bool {
        self.free_pkts.is_some_and(|free| free <= self.full_pkts)
    }

    /// Share of the packets that came between and were lost on the link.
    fn loss_ratio(&self) -> f64 {
        // What came between, without the packet behind the gap.
        let others = self.arrived_pkts.map_or(1.0, |arrived| arrived - 1.0);
        self.lost_pkts.map_or(0.0, |lost| lost as f64 / others.max(1.0))
    }
}

/// Judges the missing packets of a gap.
///
/// A full queue beside the gap means overflow, and room everywhere means a lossy link: section VI of the paper. Where
/// all nodes count the losses of their links, the counts say how many of the missing packets a full queue can have had.
/// A node that does not tell of its room may have dropped them, whatever the others say: then nobody knows.
pub fn judge(missing: u64, evidence: &[Evidence]) -> Losses {
    if evidence.is_empty() || evidence.iter().any(|hop| hop.free_pkts.is_none()) {
        return Losses { unknown: missing, ..Losses::default() };
    }
    let full = evidence.iter().any(Evidence::was_full);
    let counted: Option<u64> = evidence.iter().map(|hop| hop.lost_pkts).sum();
    let ratio: f64 = evidence.iter().map(Evidence::loss_ratio).sum();
    let wireless = match counted {
        _ if !full => missing,
        Some(counted) if ratio >= FULL_LOSS_RATIO => counted.min(missing),
        _ => 0,
    };
    Losses { wireless, overflow: missing - wireless, ..Losses::default() }
}
