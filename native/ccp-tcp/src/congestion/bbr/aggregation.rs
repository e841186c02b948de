//! How many more segments ACKs bring at once than the bandwidth explains: `bbr_update_ack_aggregation()`.

use super::{BW_UNIT, is_valid};
use crate::{RateSample, Sock};

/// The greatest excess of so many rounds counts, at most twice as many.
const WINDOW_ROUNDS: u32 = 5;
/// An epoch does not grow beyond.
const MAX_EPOCH_PKTS: u32 = 0xf_ffff;
/// No excess is worth more than the bandwidth of this time.
const MOST_US: u64 = 100_000;

#[derive(Clone, Debug, Default)]
pub(super) struct Aggregation {
    epoch_start_us: u64,
    epoch_acked: u32,
    /// Greatest excess of this window and of the one before.
    extra_acked: [u32; 2],
    newest: usize,
    rounds: u32,
}

impl Aggregation {
    /// An epoch begins: sending has begun anew.
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

    /// Segments that the window is to have beyond its target.
    pub fn extra_cwnd(&self, bw: u32) -> u32 {
        let most = u64::from(bw) * MOST_US / BW_UNIT;
        u64::from(self.extra_acked[0].max(self.extra_acked[1])).min(most) as u32
    }
}
