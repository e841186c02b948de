//! Whether a connection shares the bucket of its client's others.

use crate::Progress;
use crate::types::rtcp_member;

unsafe extern "C" {
    fn rtcp_host_member_start(m: *mut rtcp_member, now_us: u64);
    fn rtcp_host_member_add(m: *mut rtcp_member, now_us: u64, delivered_bytes: u64, lost_bytes: u64);
    fn rtcp_host_member_is_short(m: *const rtcp_member, now_us: u64) -> i32;
    fn rtcp_host_member_ack(m: *mut rtcp_member, mss_bytes: u32, client: *const Progress) -> i32;
}

/// What a connection remembers of itself and of its client.
#[derive(Clone, Debug, Default)]
pub struct Member(rtcp_member);

impl Member {
    /// It begins a transfer.
    pub fn start(&mut self, now_us: u64) {
        // SAFETY: a whole structure, which outlives the call.
        unsafe { rtcp_host_member_start(&raw mut self.0, now_us) };
    }

    /// More was delivered and lost of it.
    pub fn add(&mut self, now_us: u64, delivered_bytes: u64, lost_bytes: u64) {
        // SAFETY: as above.
        unsafe { rtcp_host_member_add(&raw mut self.0, now_us, delivered_bytes, lost_bytes) };
    }

    /// Whether a detector can be told of the transfer: a longer one it would have cut in two.
    #[must_use]
    pub fn is_short(&self, now_us: u64) -> bool {
        // SAFETY: as above.
        unsafe { rtcp_host_member_is_short(&raw const self.0, now_us) != 0 }
    }

    /// Takes an ACK in, when it is added to the sums of its client. Returns whether they cannot share a bucket.
    pub fn ack(&mut self, mss_bytes: u32, client: &Progress) -> bool {
        // SAFETY: both are whole structures, and outlive the call.
        unsafe { rtcp_host_member_ack(&raw mut self.0, mss_bytes, client) != 0 }
    }

    /// What it has counted.
    #[must_use]
    pub fn state(&self) -> &rtcp_member {
        &self.0
    }
}
