//! Timers: retransmission timeout, tail-loss probe, reordering, pacing.

use super::{Resend, Sender};
use crate::scoreboard::{LOST, RETRANS, SACKED};
use crate::tick::expiry_ns;
use crate::{CaState, Congestion};

/// Added to timeouts that wait for an ACK (`TCP_TIMEOUT_MIN_US`) [us].
pub(super) const TIMEOUT_MIN_US: u64 = 2000;
/// Delay of a probe without an RTT (`TCP_TIMEOUT_INIT`) [us].
const PROBE_WITHOUT_RTT_US: u64 = 1_000_000;

/// Purpose of a connection's timer (`icsk_pending`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Pending {
    #[default]
    Nothing,
    Retransmit,
    LossProbe,
    Reordering,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    pub(super) pending: Pending,
    at_ns: u64,
    /// Data waits for `Sock::wstamp_ns`.
    pub(super) is_paced_out: bool,
}

impl<C: Congestion> Sender<C> {
    /// When `on_timer` is due.
    pub fn due_ns(&self) -> Option<u64> {
        let timer = (self.timers.pending != Pending::Nothing).then_some(self.timers.at_ns);
        let pacing = self.timers.is_paced_out.then_some(self.sock.wstamp_ns);
        match (timer, pacing) {
            (Some(timer), Some(pacing)) => Some(timer.min(pacing)),
            (timer, pacing) => timer.or(pacing),
        }
    }

    /// Runs due timers. `next_segment` returns what they send.
    pub fn on_timer(&mut self, now_ns: u64) {
        self.refresh(now_ns);
        if self.timers.pending != Pending::Nothing && self.timers.at_ns <= self.now_ns {
            self.may_push = false;
            self.resend = Resend::Nothing;
            match self.timers.pending {
                Pending::Retransmit => {
                    self.timers.pending = Pending::Nothing;
                    self.on_retransmit_timer();
                }
                Pending::LossProbe => self.on_loss_probe_timer(),
                Pending::Reordering => self.on_reordering_timer(),
                Pending::Nothing => {}
            }
        }
        if self.timers.is_paced_out && self.sock.wstamp_ns <= self.now_ns {
            self.timers.is_paced_out = false;
            self.may_push = true;
            self.resend = Resend::Lost;
        }
    }

    pub(super) fn arm(&mut self, pending: Pending, wait_us: u64) {
        self.timers.pending = pending;
        self.timers.at_ns = expiry_ns(self.tick_ns, self.now_ns, wait_us * 1000);
    }

    /// Time until the timeout of the first segment [us], at least 1.
    fn rto_left_us(&self) -> u64 {
        let sent_us = self.board.head().map_or(self.sock.mstamp_us, |slot| slot.sent_us);
        (sent_us + self.rtt.rto_us()).saturating_sub(self.sock.mstamp_us).max(1)
    }

    /// Restarts the retransmission timer from now, or from the first segment if another timer ran (`tcp_rearm_rto`).
    pub(super) fn rearm_rto(&mut self) {
        if self.sock.packets_out == 0 {
            self.timers.pending = Pending::Nothing;
            return;
        }
        let wait_us = match self.timers.pending {
            Pending::LossProbe | Pending::Reordering => self.rto_left_us(),
            Pending::Nothing | Pending::Retransmit => self.rtt.rto_us(),
        };
        self.arm(Pending::Retransmit, wait_us);
    }

    /// Restarts the retransmission timer from now, unless the reordering timer runs.
    pub(super) fn restart_rto(&mut self) {
        if self.timers.pending != Pending::Reordering {
            self.arm(Pending::Retransmit, self.rtt.rto_us());
        }
    }

    /// After an ACK: schedules a probe if allowed, otherwise the timeout (`tcp_set_xmit_timer`).
    pub(super) fn set_transmit_timer(&mut self) {
        if !self.schedule_loss_probe(true) {
            self.rearm_rto();
        }
    }

    /// `tcp_schedule_loss_probe`; `from_now`: the timeout would run from now.
    pub(super) fn schedule_loss_probe(&mut self, from_now: bool) -> bool {
        if self.sock.packets_out == 0 || !matches!(self.sock.ca_state, CaState::Open | CaState::Cwr) {
            return false;
        }
        let srtt8_us = u64::from(self.rtt.srtt8_us());
        let wait_us = match srtt8_us {
            0 => PROBE_WITHOUT_RTT_US,
            _ if self.sock.packets_out == 1 => (srtt8_us >> 2) + u64::from(self.rtt.rto_min_us()),
            _ => (srtt8_us >> 2) + TIMEOUT_MIN_US,
        };
        let rto_us = if from_now { self.rtt.rto_us() } else { self.rto_left_us() };
        self.arm(Pending::LossProbe, wait_us.min(rto_us));
        true
    }

    /// Sends a probe: new data if any, otherwise the last segment (`tcp_send_loss_probe`).
    fn on_loss_probe_timer(&mut self) {
        if self.tlp_high_seq.is_none() && self.sock.packets_out > 0 {
            self.tlp_retrans = false;
            self.queued = self.probe_with_new_data();
            if self.queued.is_none() {
                self.queued = Some(self.probe_with_last_segment());
                self.tlp_retrans = true;
            }
            self.tlp_high_seq = Some(self.sock.snd_nxt);
            // The timeout runs from now.
            self.timers.pending = Pending::Nothing;
        }
        self.rearm_rto();
    }

    /// `tcp_retransmit_timer`.
    fn on_retransmit_timer(&mut self) {
        if self.sock.packets_out == 0 {
            return;
        }
        self.sock.timeouts += 1;
        self.enter_loss();
        self.retransmits += 1;
        let first = self.board.first();
        self.queued = Some(self.resend_slot(first));
        self.rtt.back_off();
        self.arm(Pending::Retransmit, self.rtt.rto_us());
    }

    /// Marks lost segments after a timeout, and resets the window (`tcp_enter_loss`).
    fn enter_loss(&mut self) {
        let is_new = self.sock.ca_state < CaState::Recovery;
        let first = self.board.first();
        for number in first..self.board.end() {
            let slot = self.board.slot(number);
            // Recently sent segments may still arrive.
            if !slot.has(SACKED) && (number == first || self.rack_remaining_us(slot.sent_us, 0) <= 0) {
                self.mark_lost(number);
            }
        }
        if self.sock.ca_state <= CaState::Disorder
            || self.high_seq <= self.sock.snd_una
            || (self.sock.ca_state == CaState::Loss && self.retransmits == 0)
        {
            self.sock.prior_ssthresh = self.sock.current_ssthresh();
            self.sock.prior_cwnd = self.sock.snd_cwnd;
            self.sock.snd_ssthresh = self.congestion.ssthresh(&mut self.sock);
            self.start_undo();
        }
        self.sock.snd_cwnd = self.sock.packets_in_flight() + 1;
        self.cwnd_stamp_us = self.sock.mstamp_us;
        if self.sock.ca_state <= CaState::Disorder && self.sock.sacked_out >= super::REORDERING {
            self.forget_reordering();
        }
        self.set_state(CaState::Loss);
        self.high_seq = self.sock.snd_nxt;
        self.tlp_high_seq = None;
        self.queue_cwr = self.sock.ecn_ok;
        self.frto = is_new || self.retransmits > 0;
    }

    /// Marks a segment, or its retransmission, lost (`tcp_mark_skb_lost`).
    pub(super) fn mark_lost(&mut self, number: u64) {
        self.board.resend_from = self.board.resend_from.min(number);
        let slot = self.board.slot_mut(number);
        if slot.has(SACKED) {
            return;
        }
        let newly_lost = !slot.has(LOST);
        let lost_again = slot.has(RETRANS);
        slot.flags = (slot.flags | LOST) & !RETRANS;
        self.sock.lost_out += u32::from(newly_lost);
        self.sock.retrans_out -= u32::from(lost_again);
        self.sock.lost = self.sock.lost.wrapping_add(u32::from(newly_lost || lost_again));
    }
}
