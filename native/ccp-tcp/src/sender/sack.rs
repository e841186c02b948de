//! Processing of SACK options: `tcp_sacktag_write_queue`.

use super::Sender;
use super::ack::Found;
use crate::scoreboard::{EVER_RETRANS, LOST, RETRANS, SACKED};
use crate::{Ack, CaState, Congestion, SackRange};

impl<C: Congestion> Sender<C> {
    /// End of the data reported out of order; `snd_una` if none.
    pub(super) fn highest_sacked(&self) -> u64 {
        if self.sock.sacked_out == 0 { self.sock.snd_una } else { self.board.highest_sacked }
    }

    /// Marks the segments of an ACK's ranges.
    pub(super) fn take_sacks(&mut self, ack: &Ack, prior_una: u64, found: &mut Found) {
        let mut sacks = ack.sacks;
        let mut ranges: &mut [SackRange] = &mut sacks;
        if let Some(duplicate) = duplicate_of(ack) {
            self.take_dsack(duplicate, prior_una, found);
            ranges = &mut ranges[1..];
        }
        // In order, as Linux traverses its queue: the newest range comes first, and does not indicate that
        // others are late.
        ranges.sort_unstable_by_key(|range| range.start);
        for &range in ranges.iter() {
            if range.end <= range.start || range.end > self.sock.snd_nxt || range.start < self.sock.snd_una {
                continue;
            }
            if let Some(part) = self.board.unknown_part(range) {
                self.sack(part, found);
            }
        }
        if !ranges.is_empty() {
            self.board.remember(ranges);
        }
        if self.sock.ca_state != CaState::Loss || self.undo_marker.is_some() {
            self.note_reordering(found.reordered_seq);
        }
    }

    /// Marks segments completely inside a range as SACKed.
    fn sack(&mut self, range: SackRange, found: &mut Found) {
        let mut number = self.board.find(range.start);
        while number < self.board.end() {
            let slot = self.board.slot(number);
            if slot.end_seq() > range.end {
                break;
            }
            if slot.seq >= range.start && !slot.has(SACKED) {
                self.sack_slot(number, found);
            }
            number += 1;
        }
    }

    fn sack_slot(&mut self, number: u64, found: &mut Found) {
        let slot = self.board.slot(number);
        let (seq, end_seq, sent_us, flags) = (slot.seq, slot.end_seq(), slot.sent_us, slot.flags);
        self.rack_advance(sent_us, end_seq, flags & EVER_RETRANS != 0);
        if flags & RETRANS != 0 {
            if flags & LOST != 0 {
                self.sock.lost_out -= 1;
                self.sock.retrans_out -= 1;
            }
        } else {
            if flags & EVER_RETRANS == 0 {
                if seq < self.highest_sacked() {
                    found.reordered_seq = found.reordered_seq.min(seq);
                }
                found.orig_acked |= end_seq <= self.high_seq;
                found.first_sacked_us.get_or_insert(sent_us);
                found.last_sacked_us = sent_us;
            }
            if flags & LOST != 0 {
                self.sock.lost_out -= 1;
            }
        }
        self.sock.sacked_out += 1;
        found.data_sacked = true;
        self.count_delivered(found);
        let slot = self.board.slot_mut(number);
        if flags & LOST != 0 {
            slot.flags &= !(LOST | RETRANS);
        }
        slot.flags |= SACKED;
        self.rate.delivered(slot, &mut found.rate);
        self.board.unlist(number);
        self.board.highest_sacked = self.board.highest_sacked.max(end_seq);
    }

    /// The receiver got duplicates (`tcp_check_dsack`).
    fn take_dsack(&mut self, range: SackRange, prior_una: u64, found: &mut Found) {
        let bytes = range.end.saturating_sub(range.start);
        let segments = bytes.div_ceil(u64::from(self.sock.mss_bytes)).max(1) as u32;
        found.is_dsack = true;
        self.dsack_dups += segments;
        // More than was ever retransmitted: the network duplicates.
        if self.dsack_dups > self.sock.total_retrans {
            return;
        }
        if self.tlp_retrans && self.tlp_high_seq == Some(range.end) {
            found.is_dsack_of_probe = true;
        } else {
            self.rack.dsack_seen = true;
        }
        let Some(marker) = self.undo_marker else { return };
        if range.end <= prior_una {
            if range.end > marker && self.undo_retrans > 0 {
                self.undo_retrans = (self.undo_retrans - i64::from(segments)).max(0);
            }
            return;
        }
        let mut number = self.board.find(range.start);
        while number < self.board.end() && self.board.slot(number).end_seq() <= range.end {
            self.dsack_slot(number, marker, found);
            number += 1;
        }
    }

    /// A segment not yet acknowledged in order arrived twice.
    fn dsack_slot(&mut self, number: u64, marker: u64, found: &mut Found) {
        let slot = self.board.slot_mut(number);
        if !slot.has(EVER_RETRANS) {
            return;
        }
        if self.undo_retrans > 0 && slot.end_seq() > marker {
            self.undo_retrans -= 1;
        }
        if slot.has(SACKED) {
            found.reordered_seq = found.reordered_seq.min(slot.seq);
        }
        if slot.has(RETRANS) {
            slot.flags &= !RETRANS;
            self.sock.retrans_out -= 1;
        }
    }
}

/// The first range, if a DSACK (RFC 2883, section 4): already acknowledged, or inside the second one.
fn duplicate_of(ack: &Ack) -> Option<SackRange> {
    let first = *ack.sacks.first()?;
    let is_inside =
        ack.sacks.get(1).is_some_and(|second| second.start <= first.start && first.end <= second.end);
    (first.start < ack.ack || is_inside).then_some(first)
}
