//! Loss detection by transmission time: RACK (RFC 8985) as in tcp_recovery.c.

use super::timers::{Pending, TIMEOUT_MIN_US};
use super::{REORDERING, Sender};
use crate::scoreboard::{LOST, NIL, RETRANS};
use crate::{CaState, Congestion};

/// Recoveries for which a widened window is kept without a DSACK.
const PERSIST_RECOVERIES: u32 = 16;

/// State of the newest delivered segment.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    /// Its transmission time [us], and its end.
    sent_us: u64,
    end_seq: u64,
    /// Advanced since the last loss detection.
    pub(super) is_advanced: bool,
    /// Tolerated lateness of a segment, in quarters of the minimum RTT.
    reo_wnd_steps: u32,
    pub(super) reo_wnd_persist: u32,
    pub(super) dsack_seen: bool,
    /// `Sock::delivered` at the last change of the steps.
    last_delivered: u32,
    pub(super) reordering_seen: bool,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            sent_us: 0,
            end_seq: 0,
            is_advanced: false,
            reo_wnd_steps: 1,
            reo_wnd_persist: 0,
            dsack_seen: false,
            last_delivered: 0,
            reordering_seen: false,
        }
    }
}

impl Rack {
    /// A DSACK undid a reduction: widened windows are kept for a while.
    pub(super) fn persist(&mut self) {
        self.reo_wnd_persist = PERSIST_RECOVERIES.min(self.reo_wnd_persist + 1);
    }
}

impl<C: Congestion> Sender<C> {
    /// A segment is delivered (`tcp_rack_advance`).
    pub(super) fn rack_advance(&mut self, sent_us: u64, end_seq: u64, was_resent: bool) {
        let rtt_us = (self.sock.mstamp_us - sent_us) as u32;
        // A retransmission acknowledged faster than the path allows: the original arrived.
        if was_resent && rtt_us < self.sock.min_rtt_us {
            return;
        }
        let rack = &mut self.rack;
        rack.is_advanced = true;
        self.sock.rtt_us = rtt_us;
        if (sent_us, end_seq) > (rack.sent_us, rack.end_seq) {
            rack.sent_us = sent_us;
            rack.end_seq = end_seq;
        }
    }

    /// Tolerated lateness of a segment [us] (`tcp_rack_reo_wnd`).
    fn reordering_window_us(&self) -> u32 {
        if !self.rack.reordering_seen
            && (self.sock.ca_state >= CaState::Recovery || self.sock.sacked_out >= self.reordering)
        {
            return 0;
        }
        let quarters = u64::from(self.sock.min_rtt_us >> 2) * u64::from(self.rack.reo_wnd_steps);
        quarters.min(u64::from(self.sock.srtt_us)) as u32
    }

    /// Time until a segment counts as lost [us] (`tcp_rack_skb_timeout`).
    pub(super) fn rack_remaining_us(&self, sent_us: u64, window_us: u32) -> i64 {
        i64::from(self.sock.rtt_us) + i64::from(window_us) - (self.sock.mstamp_us - sent_us) as i64
    }

    /// Marks lost segments; returns the time until the next one may be lost [us], 0: none waits.
    pub(super) fn rack_detect_loss(&mut self) -> u64 {
        let window_us = self.reordering_window_us();
        let mut longest_us = 0;
        let mut number = self.board.oldest();
        while number != NIL {
            let slot = self.board.slot(number);
            let newer = self.board.newer(number);
            if !slot.has(LOST) || slot.has(RETRANS) {
                if (self.rack.sent_us, self.rack.end_seq) <= (slot.sent_us, slot.end_seq()) {
                    break;
                }
                let remaining_us = self.rack_remaining_us(slot.sent_us, window_us);
                if remaining_us <= 0 {
                    self.mark_lost(number);
                    self.board.unlist(number);
                } else {
                    longest_us = longest_us.max(remaining_us as u64);
                }
            }
            number = newer;
        }
        longest_us
    }

    /// Detects losses after an ACK; returns whether the reordering timer now runs.
    pub(super) fn rack_mark_lost(&mut self) -> bool {
        if !self.rack.is_advanced {
            return false;
        }
        self.rack.is_advanced = false;
        let wait_us = self.rack_detect_loss();
        if wait_us > 0 {
            self.arm(Pending::Reordering, wait_us + TIMEOUT_MIN_US);
        }
        wait_us > 0
    }

    /// The reordering timer expired (`tcp_rack_reo_timeout`).
    pub(super) fn on_reordering_timer(&mut self) {
        let in_flight = self.sock.packets_in_flight();
        let lost_before = self.sock.lost;
        self.rack_detect_loss();
        if in_flight != self.sock.packets_in_flight() {
            if self.sock.ca_state != CaState::Recovery {
                self.enter_recovery(false);
                if !self.congestion.has_cong_control() {
                    self.reduce_cwnd(1, self.sock.lost.wrapping_sub(lost_before), false);
                }
            }
            self.resend = super::Resend::Lost;
        }
        if self.timers.pending != Pending::Retransmit {
            self.rearm_rto();
        }
    }

    /// DSACKs of a round widen the window by a quarter of the minimum RTT (`tcp_rack_update_reo_wnd`).
    pub(super) fn rack_update_window(&mut self, prior_delivered: u32) {
        if prior_delivered == 0 {
            return;
        }
        let rack = &mut self.rack;
        if (prior_delivered.wrapping_sub(rack.last_delivered) as i32) < 0 {
            rack.dsack_seen = false;
        }
        if rack.dsack_seen {
            rack.reo_wnd_steps = (rack.reo_wnd_steps + 1).min(255);
            rack.dsack_seen = false;
            rack.last_delivered = self.sock.delivered;
            rack.reo_wnd_persist = PERSIST_RECOVERIES;
        } else if rack.reo_wnd_persist == 0 {
            rack.reo_wnd_steps = 1;
        }
    }

    /// Data was delivered after data sent later (`tcp_check_sack_reordering`).
    pub(super) fn note_reordering(&mut self, low_seq: u64) {
        let highest = self.highest_sacked();
        if low_seq >= highest {
            return;
        }
        let mss_bytes = u64::from(self.sock.mss_bytes);
        let distance_pkts = (highest - low_seq).div_ceil(mss_bytes);
        if highest - low_seq > u64::from(self.reordering) * mss_bytes {
            self.reordering = distance_pkts.min(u64::from(MAX_REORDERING)) as u32;
        }
        self.rack.reordering_seen = true;
    }

    /// A timeout despite many out-of-order ACKs: the degree of reordering was overestimated.
    pub(super) fn forget_reordering(&mut self) {
        self.reordering = self.reordering.min(REORDERING);
    }
}

/// net.ipv4.tcp_max_reordering.
const MAX_REORDERING: u32 = 300;
