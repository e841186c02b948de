//! Finds the rate of a token-bucket policer: `bbr_lt_bw_sampling()`.
//!
//! Two consecutive intervals with many losses and about the same rate indicate a policer; pacing then uses
//! its rate for 48 rounds.

use super::{BW_UNIT, UNIT, pace_bytes_per_s};
use crate::{RateSample, Sock};

/// Rounds of an interval: at least 4, at most 16.
const MIN_ROUNDS: u32 = 4;
/// Minimum loss of an interval: 50/256 of the deliveries.
const LOSS_UNITS: u64 = 50;
/// Rates within 1/8, or within 4 kbit/s, are about the same.
const SAME_SHARE: u64 = 8;
const SAME_BYTES_PER_S: u64 = 4000 / 8;
/// For how many rounds it is used.
const MAX_ROUNDS_IN_USE: u32 = 48;

#[derive(Clone, Debug, Default)]
pub(super) struct LongTerm {
    /// Segments per us, times 2^24.
    pub bw: u32,
    /// It is used for pacing.
    pub in_use: bool,
    is_sampling: bool,
    rounds: u32,
    last_us: u64,
    last_delivered: u32,
    last_lost: u32,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Outcome {
    Nothing,
    /// A policer was found: pace at its rate.
    Policed,
    /// The rate was used for long enough: probe again.
    Expired,
}

impl LongTerm {
    fn begin_interval(&mut self, sock: &Sock) {
        self.last_us = sock.delivered_mstamp_us / 1000 * 1000;
        self.last_delivered = sock.delivered;
        self.last_lost = sock.lost;
        self.rounds = 0;
    }

    pub fn reset(&mut self, sock: &Sock) {
        *self = Self::default();
        self.begin_interval(sock);
    }

    /// Resets the sampling, except the start of the interval.
    pub fn forget(&mut self) {
        *self = Self {
            last_us: self.last_us,
            last_delivered: self.last_delivered,
            last_lost: self.last_lost,
            ..Self::default()
        };
    }

    pub fn sample(
        &mut self,
        sock: &Sock,
        sample: &RateSample,
        round_start: bool,
        probes_bw: bool,
    ) -> Outcome {
        if self.in_use {
            self.rounds += u32::from(probes_bw && round_start);
            if probes_bw && round_start && self.rounds >= MAX_ROUNDS_IN_USE {
                self.reset(sock);
                return Outcome::Expired;
            }
            return Outcome::Nothing;
        }
        if !self.is_sampling {
            // The first loss indicates that the bucket is empty.
            if sample.losses == 0 {
                return Outcome::Nothing;
            }
            self.begin_interval(sock);
            self.is_sampling = true;
        }
        self.rounds += u32::from(round_start);
        if sample.is_app_limited || self.rounds > 4 * MIN_ROUNDS {
            self.reset(sock);
            return Outcome::Nothing;
        }
        if self.rounds < MIN_ROUNDS || sample.losses == 0 {
            return Outcome::Nothing;
        }
        let lost = u64::from(sock.lost.wrapping_sub(self.last_lost));
        let delivered = u64::from(sock.delivered.wrapping_sub(self.last_delivered));
        let interval_us = (sock.delivered_mstamp_us / 1000 * 1000).saturating_sub(self.last_us);
        if delivered == 0 || lost * UNIT < LOSS_UNITS * delivered || interval_us == 0 {
            return Outcome::Nothing;
        }
        self.end_interval(sock, u32::try_from(delivered * BW_UNIT / interval_us).unwrap_or(u32::MAX))
    }

    fn end_interval(&mut self, sock: &Sock, bw: u32) -> Outcome {
        let diff = self.bw.abs_diff(bw);
        let is_same = u64::from(diff) * SAME_SHARE <= u64::from(self.bw)
            || pace_bytes_per_s(sock, diff, UNIT) <= SAME_BYTES_PER_S;
        if self.bw > 0 && is_same {
            self.bw = ((u64::from(bw) + u64::from(self.bw)) / 2) as u32;
            self.in_use = true;
            self.rounds = 0;
            return Outcome::Policed;
        }
        self.bw = bw;
        self.begin_interval(sock);
        Outcome::Nothing
    }
}
