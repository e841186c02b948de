//! Undoes unnecessary reductions: by DSACK (RFC 3708) and timestamps (Eifel, RFC 3522).

use super::Sender;
use super::ack::stamp_ms;
use crate::scoreboard::LOST;
use crate::{CaState, Congestion};

impl<C: Congestion> Sender<C> {
    /// From now on a reduction can be undone (`tcp_init_undo`).
    pub(super) fn start_undo(&mut self) {
        self.undo_marker = Some(self.sock.snd_una);
        self.undo_retrans = i64::from(self.sock.retrans_out);
        if self.tlp_high_seq.is_some() && self.tlp_retrans {
            self.undo_retrans += 1;
        }
        if self.undo_retrans == 0 {
            self.undo_retrans = -1;
        }
    }

    /// Whether the ACK answers something sent before the first retransmission.
    fn is_original_acked(&self) -> bool {
        self.retrans_stamp_us.is_none_or(|stamp_us| stamp_ms(self.ack_echo_ns) < stamp_us / 1000)
    }

    fn may_undo(&self) -> bool {
        self.undo_marker.is_some() && (self.undo_retrans == 0 || self.is_original_acked())
    }

    /// `tcp_undo_cwnd_reduction`.
    fn undo(&mut self, unmark: bool) {
        if unmark {
            for number in self.board.first()..self.board.end() {
                self.board.slot_mut(number).flags &= !LOST;
            }
            self.sock.lost_out = 0;
        }
        if self.sock.prior_ssthresh > 0 {
            self.sock.snd_cwnd = self.congestion.undo_cwnd(&mut self.sock);
            if self.sock.prior_ssthresh > self.sock.snd_ssthresh {
                self.sock.snd_ssthresh = self.sock.prior_ssthresh;
                self.queue_cwr = false;
            }
        }
        self.cwnd_stamp_us = self.sock.mstamp_us;
        self.undo_marker = None;
        self.rack.is_advanced = true;
    }

    /// Recovery is over; it may have been unnecessary.
    pub(super) fn try_undo_recovery(&mut self) {
        if self.may_undo() {
            self.undo(false);
        } else {
            self.rack.reo_wnd_persist = self.rack.reo_wnd_persist.saturating_sub(1);
        }
        self.set_state(CaState::Open);
    }

    /// Undoes if all retransmissions were duplicates.
    pub(super) fn try_undo_dsack(&mut self) -> bool {
        if self.undo_marker.is_none() || self.undo_retrans != 0 {
            return false;
        }
        self.rack.persist();
        self.undo(false);
        true
    }

    /// Undoes a spurious timeout; `frto`: detected by F-RTO.
    pub(super) fn try_undo_loss(&mut self, frto: bool) -> bool {
        if !frto && !self.may_undo() {
            return false;
        }
        self.undo(true);
        self.retransmits = 0;
        self.set_state(CaState::Open);
        true
    }

    /// A gap was filled by delayed data, not by a retransmission.
    pub(super) fn try_undo_partial(&mut self, prior_una: u64) -> bool {
        if self.undo_marker.is_none() || !self.is_original_acked() {
            return false;
        }
        self.note_reordering(prior_una);
        if self.sock.retrans_out > 0 {
            return true;
        }
        if !self.has_resent() {
            self.retrans_stamp_us = None;
        }
        self.undo(true);
        self.keep_open();
        true
    }
}
