//! What became of the packets of a link direction.

use serde::Serialize;

/// Counts since the start.
///
/// Packets are conserved: `arrived + duplicated = delivered + dropped_* + queued + in transmission + in flight`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Counters {
    /// Packets that came to the link.
    pub arrived_pkts: u64,
    pub arrived_bytes: u64,
    /// Packets that reached its end.
    pub delivered_pkts: u64,
    pub delivered_bytes: u64,
    /// Lost at random or by number.
    pub dropped_loss_pkts: u64,
    /// The buffer was full.
    pub dropped_queue_pkts: u64,
    /// Dropped by RED or CoDel.
    pub dropped_aqm_pkts: u64,
    /// The token bucket had no tokens.
    pub dropped_policer_pkts: u64,
    pub marked_pkts: u64,
    pub duplicated_pkts: u64,
    /// Packets with a flipped bit.
    pub corrupted_pkts: u64,
}

impl Counters {
    pub fn dropped_pkts(&self) -> u64 {
        self.dropped_loss_pkts + self.dropped_queue_pkts + self.dropped_aqm_pkts + self.dropped_policer_pkts
    }
}
