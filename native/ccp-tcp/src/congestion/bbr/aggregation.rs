//! Segments acknowledged at once beyond the bandwidth: `bbr_update_ack_aggregation()`.

use super::{BW_UNIT, is_valid};
use crate::{RateSample, Sock};

/// The maximum excess of the last 5 to 10 rounds is used.
const WINDOW_ROUNDS: u32 = 5;
/// Maximum size of an epoch.
const MAX_EPOCH_PKTS: u32 = 0xf_ffff;
/// Maximum excess, as time at the bandwidth.
const MAX_US: u64 = 100_000;

#[derive(Clone, Debug, Default)]
pub(super) struct Aggregation {
    epoch_start_us: u64,
    epoch_acked: u32,
    /// Maximum excess of this window and the previous one.
    extra_acked: [u32; 2],
    newest: usize,
    rounds: u32,
}

impl Aggregation {
    /// A new epoch: sending restarted.
    pub fn restart(&mut self, now_us: u64) {
        self.epoch_start_us = now_us;
        self.epoch_acked = 0;
    }

    pub fn update(&mut self, sock: &Sock, sample: &RateSample, bw: u32, round_start: bool) {
        if sample.acked_sacked == 0 || !is_valid(sample) {
            return;
        }
        if round_start {
            self.rounds += 1;
            if self.rounds >= WINDOW_ROUNDS {
                self.rounds = 0;
                self.newest = 1 - self.newest;
                self.extra_acked[self.newest] = 0;
            }
        }
        let epoch_us = sock.delivered_mstamp_us.saturating_sub(self.epoch_start_us);
        let mut expected = u64::from(bw) * epoch_us / BW_UNIT;
        let acked = self.epoch_acked + sample.acked_sacked;
        if u64::from(self.epoch_acked) <= expected || acked > MAX_EPOCH_PKTS {
            self.restart(sock.delivered_mstamp_us);
            expected = 0;
        }
        self.epoch_acked = (self.epoch_acked + sample.acked_sacked).min(MAX_EPOCH_PKTS);
        let extra = u64::from(self.epoch_acked).saturating_sub(expected).min(u64::from(sock.snd_cwnd));
        self.extra_acked[self.newest] = self.extra_acked[self.newest].max(extra as u32);
    }

    /// Segments to add to the window's target.
    pub fn extra_cwnd(&self, bw: u32) -> u32 {
        let maximum = u64::from(bw) * MAX_US / BW_UNIT;
        u64::from(self.extra_acked[0].max(self.extra_acked[1])).min(maximum) as u32
    }
}
