//! The states of loss recovery (`tcp_fastretrans_alert`), and their windows.

use super::ack::Found;
use super::{Resend, Sender};
use crate::scoreboard::EVER_RETRANS;
use crate::{CaState, Congestion, reduced_cwnd};

impl<C: Congestion> Sender<C> {
    /// Handles unusual ACKs and states: enters, continues and leaves recovery.
    pub(super) fn alert(&mut self, prior_una: u64, found: &mut Found) {
        if found.ece {
            self.sock.prior_ssthresh = 0;
        }
        self.leave_states();
        match self.sock.ca_state {
            CaState::Recovery => {
                if found.una_advanced && self.try_undo_partial(prior_una) {
                    return;
                }
                if self.try_undo_dsack() {
                    self.try_to_open(found);
                }
                self.identify_loss(found);
                if self.sock.ca_state != CaState::Recovery {
                    if self.sock.lost_out == 0 {
                        return;
                    }
                    self.enter_recovery(found.ece);
                }
            }
            CaState::Loss => {
                self.process_loss(found);
                self.identify_loss(found);
                if self.sock.ca_state != CaState::Open && !found.lost_resent {
                    return;
                }
                if !self.recover_or_open(found) {
                    return;
                }
            }
            CaState::Open | CaState::Disorder | CaState::Cwr => {
                if self.sock.ca_state <= CaState::Disorder {
                    self.try_undo_dsack();
                }
                self.identify_loss(found);
                if !self.recover_or_open(found) {
                    return;
                }
            }
        }
        self.resend = Resend::Lost;
    }

    /// A state ends when all data sent before it began is acknowledged.
    fn leave_states(&mut self) {
        if self.sock.ca_state == CaState::Open {
            self.retrans_stamp_us = None;
            return;
        }
        if self.sock.snd_una < self.high_seq {
            return;
        }
        match self.sock.ca_state {
            // Later data must be acknowledged, so that the receiver has seen the CWR flag.
            CaState::Cwr if self.sock.snd_una != self.high_seq => {
                self.end_reduction();
                self.set_state(CaState::Open);
            }
            CaState::Recovery => {
                self.try_undo_recovery();
                // The state is already Open; the window becomes the threshold.
                self.end_reduction();
            }
            _ => {}
        }
    }

    fn recover_or_open(&mut self, found: &Found) -> bool {
        if self.sock.lost_out == 0 {
            self.try_to_open(found);
            return false;
        }
        self.enter_recovery(found.ece);
        true
    }

    fn identify_loss(&mut self, found: &mut Found) {
        if self.board.is_empty() {
            return;
        }
        let resent = self.sock.retrans_out;
        if self.rack_mark_lost() {
            found.set_timer = false;
        }
        if resent > self.sock.retrans_out {
            found.lost_resent = true;
        }
    }

    fn try_to_open(&mut self, found: &Found) {
        if !self.has_resent() {
            self.retrans_stamp_us = None;
        }
        if found.ece {
            self.enter_cwr();
        }
        if self.sock.ca_state != CaState::Cwr {
            self.keep_open();
        }
    }

    /// Open if nothing is out of order and nothing was retransmitted, otherwise Disorder (`tcp_try_keep_open`).
    pub(super) fn keep_open(&mut self) {
        let state = if self.sock.sacked_out + self.sock.lost_out > 0 || self.has_resent() {
            CaState::Disorder
        } else {
            CaState::Open
        };
        if self.sock.ca_state != state {
            self.set_state(state);
            self.high_seq = self.sock.snd_nxt;
        }
    }

    /// Whether outstanding data was retransmitted (`tcp_any_retrans_done`).
    pub(super) fn has_resent(&self) -> bool {
        self.sock.retrans_out > 0 || self.board.head().is_some_and(|slot| slot.has(EVER_RETRANS))
    }

    /// The network requests a reduction (`tcp_enter_cwr`).
    fn enter_cwr(&mut self) {
        self.sock.prior_ssthresh = 0;
        if self.sock.ca_state < CaState::Cwr {
            self.undo_marker = None;
            self.start_reduction();
            self.set_state(CaState::Cwr);
        }
    }

    pub(super) fn enter_recovery(&mut self, ece: bool) {
        // The clock of the undo starts with the first retransmission of this recovery.
        if !self.has_resent() {
            self.retrans_stamp_us = None;
        }
        self.sock.prior_ssthresh = 0;
        self.start_undo();
        if !self.sock.in_reduction() {
            if !ece {
                self.sock.prior_ssthresh = self.sock.current_ssthresh();
            }
            self.start_reduction();
        }
        self.set_state(CaState::Recovery);
    }

    /// `tcp_init_cwnd_reduction`.
    fn start_reduction(&mut self) {
        self.high_seq = self.sock.snd_nxt;
        self.tlp_high_seq = None;
        self.sock.prior_cwnd = self.sock.snd_cwnd;
        self.prr_delivered = 0;
        self.sock.prr_out = 0;
        self.sock.snd_ssthresh = self.congestion.ssthresh(&mut self.sock);
        self.queue_cwr = self.sock.ecn_ok;
    }

    /// Proportional rate reduction: `tcp_cwnd_reduction`.
    pub(super) fn reduce_cwnd(&mut self, acked: u32, losses: u32, una_advanced: bool) {
        if acked == 0 || self.sock.prior_cwnd == 0 {
            return;
        }
        self.prr_delivered += acked;
        let progress = una_advanced && losses == 0;
        self.sock.snd_cwnd = reduced_cwnd(&self.sock, self.prr_delivered, acked, progress);
    }

    /// The window becomes the threshold (`tcp_end_cwnd_reduction`).
    fn end_reduction(&mut self) {
        if self.congestion.has_cong_control() {
            return;
        }
        let reduced = self.sock.ca_state == CaState::Cwr || self.undo_marker.is_some();
        if self.sock.snd_ssthresh < crate::INFINITE_SSTHRESH && reduced {
            self.sock.snd_cwnd = self.sock.snd_ssthresh;
            self.cwnd_stamp_us = self.sock.mstamp_us;
        }
    }

    /// After a timeout: was it spurious (F-RTO, RFC 5682), is it over? (`tcp_process_loss`)
    fn process_loss(&mut self, found: &Found) {
        let recovered = self.sock.snd_una >= self.high_seq;
        if found.una_advanced && self.try_undo_loss(false) {
            return;
        }
        if self.frto {
            if found.orig_acked && self.try_undo_loss(true) {
                return;
            }
            if self.sock.snd_nxt > self.high_seq {
                if found.data_sacked || found.is_plain_duplicate() {
                    self.frto = false;
                }
            } else if found.una_advanced && !recovered {
                self.high_seq = self.sock.snd_nxt;
                if self.sock.write_seq > self.sock.snd_nxt && self.window_end() > self.sock.snd_nxt {
                    self.resend = Resend::NewFirst;
                    return;
                }
                self.frto = false;
            }
        }
        if recovered {
            self.try_undo_recovery();
            return;
        }
        self.resend = Resend::Lost;
    }

    /// Evaluates a tail-loss probe (`tcp_process_tlp_ack`).
    pub(super) fn judge_probe(&mut self, ack: u64, found: &Found) {
        let Some(end) = self.tlp_high_seq else { return };
        if ack < end {
            return;
        }
        if !self.tlp_retrans || found.is_dsack_of_probe {
            self.tlp_high_seq = None;
        } else if ack > end {
            // The probe repaired a loss: the window is reduced as for a detected one.
            self.start_reduction();
            self.set_state(CaState::Cwr);
            self.end_reduction();
            self.keep_open();
        } else if found.is_plain_duplicate() {
            self.tlp_high_seq = None;
        }
    }
}
