//! Packet counters of a link direction.

use serde::Serialize;

/// Counts since the start. `arrived + duplicated = delivered + dropped_* + queued + in transmission + in flight`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Counters {
    pub arrived_pkts: u64,
    pub arrived_bytes: u64,
    pub delivered_pkts: u64,
    pub delivered_bytes: u64,
    /// Lost randomly or by number.
    pub dropped_loss_pkts: u64,
    /// The buffer was full.
    pub dropped_queue_pkts: u64,
    /// Dropped by active queue management.
    pub dropped_aqm_pkts: u64,
    /// Rejected by the token bucket.
    pub dropped_policer_pkts: u64,
    pub marked_pkts: u64,
    pub duplicated_pkts: u64,
    /// Packets with a flipped bit.
    pub corrupted_pkts: u64,
    /// Packets that took the longer way.
    pub late_pkts: u64,
    /// Superfluous ACKs.
    pub dropped_ack_pkts: u64,
    /// Larger than the tunnel's MTU.
    pub dropped_mtu_pkts: u64,
}

impl Counters {
    pub fn dropped_pkts(&self) -> u64 {
        self.dropped_loss_pkts
            + self.dropped_queue_pkts
            + self.dropped_aqm_pkts
            + self.dropped_policer_pkts
            + self.dropped_ack_pkts
            + self.dropped_mtu_pkts
    }
}
