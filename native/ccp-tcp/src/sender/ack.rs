//! Processing of an ACK: `tcp_ack`.

use super::{Resend, Sender};
use crate::rate::{self, RateScratch};
use crate::scoreboard::{EVER_RETRANS, LOST, RETRANS, SACKED, Slot};
use crate::{Ack, CaState, Congestion};

/// Findings about one ACK: the flags of tcp_input.c.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) una_advanced: bool,
    pub(super) data_acked: bool,
    pub(super) data_sacked: bool,
    pub(super) resent_acked: bool,
    pub(super) window_updated: bool,
    pub(super) ece: bool,
    /// Acknowledges data sent once only, before recovery began.
    pub(super) orig_acked: bool,
    pub(super) is_dsack: bool,
    /// The DSACK is about the tail-loss probe.
    pub(super) is_dsack_of_probe: bool,
    pub(super) lost_resent: bool,
    pub(super) set_timer: bool,
    pub(super) maybe_delayed: bool,
    /// Transmission times of the first and last segment newly SACKed and sent once [us].
    pub(super) first_sacked_us: Option<u64>,
    pub(super) last_sacked_us: u64,
    /// The lowest byte delivered late.
    pub(super) reordered_seq: u64,
    /// Newly acknowledged, in order or not.
    pub(super) delivered: u32,
    pub(super) rtt_us: i64,
    pub(super) rate: RateScratch,
}

impl Found {
    fn is_duplicate(&self) -> bool {
        !(self.data_acked || self.window_updated)
    }

    /// It advances nothing and reports no duplicate.
    pub(super) fn is_plain_duplicate(&self) -> bool {
        self.is_duplicate() && !self.una_advanced && !self.is_dsack && !self.data_sacked
    }

    fn is_dubious(&self, state: CaState) -> bool {
        self.is_duplicate() || self.data_sacked || self.ece || self.is_dsack || state != CaState::Open
    }
}

impl<C: Congestion> Sender<C> {
    /// An ACK arrived; `next_segment` returns what it allows to send.
    pub fn on_ack(&mut self, now_ns: u64, ack: &Ack) {
        self.refresh(now_ns);
        if ack.ack > self.sock.snd_nxt {
            return;
        }
        self.may_push = true;
        self.ack_echo_ns = ack.echo_ns;
        self.echo_ns = self.echo_ns.max(ack.sent_ns);
        let mut found = Found {
            ece: ack.ece && self.sock.ecn_ok,
            reordered_seq: self.sock.snd_nxt,
            rtt_us: -1,
            ..Found::default()
        };
        let prior_una = self.sock.snd_una;
        if ack.ack < prior_una {
            self.on_old_ack(ack, &mut found);
            return;
        }
        let prior_in_flight = self.sock.packets_in_flight();
        let prior_highest = self.highest_sacked();
        let lost_before = self.sock.lost;
        self.take_window(ack, &mut found);
        if !ack.sacks.is_empty() {
            self.take_sacks(ack, prior_una, &mut found);
        }
        self.resend = Resend::Nothing;
        if self.sock.packets_out == 0 {
            self.congestion.in_ack_event(&mut self.sock);
            if found.is_dsack {
                self.alert(prior_una, &mut found);
            }
            if self.tlp_high_seq.is_some() {
                self.judge_probe(ack.ack, &found);
            }
            self.fill();
            return;
        }
        self.clean(prior_una, prior_highest, &mut found);
        self.rack_update_window(found.rate.prior_delivered);
        self.congestion.in_ack_event(&mut self.sock);
        if self.tlp_high_seq.is_some() {
            self.judge_probe(ack.ack, &found);
        }
        if found.is_dubious(self.sock.ca_state) {
            self.alert(prior_una, &mut found);
        }
        if found.set_timer {
            self.set_transmit_timer();
        }
        let losses = self.sock.lost.wrapping_sub(lost_before);
        let mut sample = rate::generate(&mut self.sock, &found.rate, found.delivered, losses);
        sample.prior_in_flight = prior_in_flight;
        sample.rtt_us = found.rtt_us;
        sample.is_ack_advancing = found.una_advanced;
        sample.is_ack_delayed = found.maybe_delayed;
        self.control(&found, &sample);
        self.fill();
    }

    /// A late ACK, which can only report duplicates.
    fn on_old_ack(&mut self, ack: &Ack, found: &mut Found) {
        if ack.sacks.is_empty() {
            return;
        }
        self.take_sacks(ack, self.sock.snd_una, found);
        self.resend = Resend::Nothing;
        self.alert(self.sock.snd_una, found);
    }

    fn take_window(&mut self, ack: &Ack, found: &mut Found) {
        found.una_advanced = ack.ack > self.sock.snd_una;
        found.window_updated = found.una_advanced || ack.window_bytes > self.window_bytes;
        if found.window_updated {
            self.window_bytes = ack.window_bytes;
        }
        if !found.una_advanced {
            return;
        }
        self.retransmits = 0;
        let fin_acked = u64::from(self.source.fin_seq.is_some_and(|fin| ack.ack > fin));
        self.sock.bytes_acked += ack.ack - self.sock.snd_una - fin_acked;
        self.sock.snd_una = ack.ack;
    }

    /// Removes acknowledged segments from the retransmission queue (`tcp_clean_rtx_queue`).
    fn clean(&mut self, prior_una: u64, prior_highest: u64, found: &mut Found) {
        let sacked_before = self.sock.sacked_out;
        let mut first_acked_us = None;
        let mut last_acked_us = 0;
        let mut acked = 0;
        let mut lowest_late = self.sock.snd_nxt;
        while self.board.head().is_some_and(|slot| slot.end_seq() <= self.sock.snd_una) {
            let Some(mut slot) = self.board.pop() else { break };
            acked += 1;
            if slot.has(EVER_RETRANS) {
                found.resent_acked = true;
            } else if !slot.has(SACKED) {
                first_acked_us.get_or_insert(slot.sent_us);
                last_acked_us = slot.sent_us;
                lowest_late = lowest_late.min(slot.seq);
                found.orig_acked |= slot.end_seq() <= self.high_seq;
            }
            self.forget(&mut slot, found);
        }
        let mut rtt_us = -1;
        if let (Some(first_us), false) = (first_acked_us, found.resent_acked) {
            rtt_us = (self.sock.mstamp_us - first_us) as i64;
            found.rtt_us = (self.sock.mstamp_us - last_acked_us) as i64;
            found.maybe_delayed = acked == 1
                && sacked_before == 0
                && self.sock.snd_una - prior_una < u64::from(self.sock.mss_bytes)
                && found.rate.prior_delivered.wrapping_add(1) == self.sock.delivered
                && !(found.ece || found.is_dsack);
        }
        let mut sack_rtt_us = -1;
        if let Some(first_us) = found.first_sacked_us {
            sack_rtt_us = (self.sock.mstamp_us - first_us) as i64;
            found.rtt_us = (self.sock.mstamp_us - found.last_sacked_us) as i64;
        }
        found.data_acked = acked > 0;
        let updated = self.update_rtt(rtt_us, sack_rtt_us, found);
        if found.data_acked {
            found.set_timer = true;
            if lowest_late < prior_highest {
                self.note_reordering(lowest_late);
            }
        } else if let Some(head) = self.board.head() {
            // The timeout moves only if the sample is of data sent after the first segment.
            found.set_timer =
                updated && sack_rtt_us >= 0 && sack_rtt_us > (self.sock.mstamp_us - head.sent_us) as i64;
        }
        self.congestion.pkts_acked(&mut self.sock, acked, found.rtt_us);
    }

    /// Accounts for a segment acknowledged in order.
    fn forget(&mut self, slot: &mut Slot, found: &mut Found) {
        if slot.has(RETRANS) {
            self.sock.retrans_out -= 1;
        }
        if slot.has(SACKED) {
            self.sock.sacked_out -= 1;
        } else {
            self.count_delivered(found);
            if !self.is_superfluous(slot) {
                self.rack_advance(slot.sent_us, slot.end_seq(), slot.has(EVER_RETRANS));
            }
        }
        if slot.has(LOST) {
            self.sock.lost_out -= 1;
        }
        self.sock.packets_out -= 1;
        self.rate.delivered(slot, &mut found.rate);
    }

    /// It was retransmitted, and the ACK answers the original (`tcp_skb_spurious_retrans`).
    fn is_superfluous(&self, slot: &Slot) -> bool {
        slot.has(EVER_RETRANS) && stamp_ms(self.ack_echo_ns) < slot.sent_us / 1000
    }

    pub(super) fn count_delivered(&mut self, found: &mut Found) {
        found.delivered += 1;
        self.sock.delivered = self.sock.delivered.wrapping_add(1);
        if found.ece {
            self.sock.delivered_ce = self.sock.delivered_ce.wrapping_add(1);
        }
    }

    /// `tcp_ack_update_rtt`; returns whether there was a sample.
    fn update_rtt(&mut self, acked_rtt_us: i64, sack_rtt_us: i64, found: &mut Found) -> bool {
        let mut rtt_us = if acked_rtt_us < 0 { sack_rtt_us } else { acked_rtt_us };
        if rtt_us < 0 && found.data_acked {
            // Only the timestamp shows which transmission was answered; its clock ticks in milliseconds.
            let ticks = stamp_ms(self.now_ns).saturating_sub(stamp_ms(self.ack_echo_ns));
            rtt_us = ticks.max(1) as i64 * 1000;
            found.rtt_us = rtt_us;
        }
        if rtt_us < 0 {
            return false;
        }
        self.take_rtt(rtt_us as u32, found.rtt_us.max(0) as u32, found.maybe_delayed);
        true
    }

    /// Whether the window grows in this state (`tcp_may_raise_cwnd`).
    fn may_raise_cwnd(&self, found: &Found) -> bool {
        found.data_acked || (self.reordering > super::REORDERING && found.data_sacked)
    }

    /// Window and pacing rate after an ACK (`tcp_cong_control`).
    fn control(&mut self, found: &Found, sample: &crate::RateSample) {
        if self.congestion.has_cong_control() {
            self.congestion.cong_control(&mut self.sock, sample, found.ece);
            return;
        }
        if self.sock.in_reduction() {
            self.reduce_cwnd(sample.acked_sacked, sample.losses, found.una_advanced);
        } else if self.may_raise_cwnd(found) {
            self.congestion.cong_avoid(&mut self.sock, sample.acked_sacked);
            self.cwnd_stamp_us = self.sock.mstamp_us;
        }
        self.update_pacing_rate();
    }
}

/// A time on the millisecond clock of timestamps.
pub(super) fn stamp_ms(ns: u64) -> u64 {
    ns / 1_000_000
}
