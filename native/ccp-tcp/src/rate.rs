//! Delivery-rate samples: tcp_rate.c (draft-cheng-iccrg-delivery-rate-estimation).

use crate::scoreboard::{APP_LIMITED, RATED, SACKED, Slot};
use crate::{RateSample, Sock};

/// State of the estimator between ACKs.
#[derive(Clone, Debug, Default)]
pub(crate) struct RateEstimator {
    /// Sending time of the segment acknowledged last, or of the first one after a pause [us].
    pub(crate) first_tx_us: u64,
}

/// Data of the segments of one ACK.
#[derive(Clone, Debug, Default)]
pub(crate) struct RateScratch {
    pub(crate) prior_delivered: u32,
    prior_delivered_ce: u32,
    /// None: no segment contributed.
    prior_mstamp_us: Option<u64>,
    is_app_limited: bool,
    last_end_seq: u64,
    snd_interval_us: u64,
}

impl RateEstimator {
    /// A segment is sent (`tcp_rate_skb_sent`).
    pub(crate) fn sent(&mut self, sock: &mut Sock, slot: &mut Slot) {
        if sock.packets_out == 0 {
            self.first_tx_us = slot.sent_us;
            sock.delivered_mstamp_us = slot.sent_us;
        }
        slot.first_tx_us = self.first_tx_us;
        slot.delivered_mstamp_us = sock.delivered_mstamp_us;
        slot.delivered = sock.delivered;
        slot.delivered_ce = sock.delivered_ce;
        slot.flags &= !(APP_LIMITED | RATED);
        if sock.app_limited != 0 {
            slot.flags |= APP_LIMITED;
        }
    }

    /// A segment is acknowledged, in order or not (`tcp_rate_skb_delivered`).
    pub(crate) fn delivered(&mut self, slot: &mut Slot, scratch: &mut RateScratch) {
        if slot.has(RATED) {
            return;
        }
        let sent_after = (slot.sent_us, slot.end_seq()) > (self.first_tx_us, scratch.last_end_seq);
        if scratch.prior_delivered == 0 || sent_after {
            scratch.prior_delivered = slot.delivered;
            scratch.prior_delivered_ce = slot.delivered_ce;
            scratch.prior_mstamp_us = Some(slot.delivered_mstamp_us);
            scratch.is_app_limited = slot.has(APP_LIMITED);
            scratch.last_end_seq = slot.end_seq();
            self.first_tx_us = slot.sent_us;
            scratch.snd_interval_us = slot.sent_us.saturating_sub(slot.first_tx_us);
        }
        if slot.has(SACKED) {
            slot.flags |= RATED;
        }
    }
}

/// Computes the sample of an ACK (`tcp_rate_gen`): `acked` segments were delivered, `losses` marked lost.
pub(crate) fn generate(sock: &mut Sock, scratch: &RateScratch, acked: u32, losses: u32) -> RateSample {
    // `delivered` wraps as in the kernel: it is later if the difference is positive.
    if sock.app_limited != 0 && (sock.delivered.wrapping_sub(sock.app_limited) as i32) > 0 {
        sock.app_limited = 0;
    }
    if acked > 0 {
        sock.delivered_mstamp_us = sock.mstamp_us;
    }
    let mut sample = RateSample {
        prior_delivered: scratch.prior_delivered,
        acked_sacked: acked,
        losses,
        delivered: -1,
        interval_us: -1,
        rtt_us: -1,
        is_app_limited: scratch.is_app_limited,
        ..RateSample::default()
    };
    let Some(prior_us) = scratch.prior_mstamp_us else { return sample };
    sample.delivered = i64::from(sock.delivered.wrapping_sub(scratch.prior_delivered));
    sample.delivered_ce = i64::from(sock.delivered_ce.wrapping_sub(scratch.prior_delivered_ce));
    let rcv_interval_us = sock.mstamp_us.saturating_sub(prior_us);
    let interval_us = scratch.snd_interval_us.max(rcv_interval_us);
    sample.snd_interval_us = clamped(scratch.snd_interval_us);
    sample.rcv_interval_us = clamped(rcv_interval_us);
    // A rate above what the minimum RTT allows is due to compressed ACKs.
    if interval_us < u64::from(sock.min_rtt_us) {
        return sample;
    }
    sample.interval_us = interval_us as i64;
    let is_faster = u128::from(sample.delivered as u64) * u128::from(sock.rate_interval_us)
        >= u128::from(sock.rate_delivered_pkts) * u128::from(interval_us);
    if !sample.is_app_limited || is_faster {
        sock.rate_delivered_pkts = sample.delivered as u32;
        sock.rate_interval_us = clamped(interval_us);
        sock.rate_app_limited = sample.is_app_limited;
    }
    sample
}

fn clamped(us: u64) -> u32 {
    u32::try_from(us).unwrap_or(u32::MAX)
}
