//! Sent segments not yet acknowledged in order: one slot each, ordered by bytes, and linked by the time of
//! their last transmission.

use std::collections::VecDeque;

use crate::SackRange;

/// No slot: end of the list.
pub(crate) const NIL: u64 = u64::MAX;

/// Received out of order.
pub(crate) const SACKED: u8 = 1;
pub(crate) const LOST: u8 = 2;
/// Retransmitted, and neither acknowledged nor marked lost since.
pub(crate) const RETRANS: u8 = 4;
/// Retransmitted at any time.
pub(crate) const EVER_RETRANS: u8 = 8;
/// In the list by transmission time.
const LISTED: u8 = 16;
/// Ends with a FIN.
pub(crate) const FIN: u8 = 32;
/// Sent while limited by the application.
pub(crate) const APP_LIMITED: u8 = 64;
/// Counted in a rate sample.
pub(crate) const RATED: u8 = 128;

/// A segment: `struct tcp_skb_cb`.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) seq: u64,
    /// Last transmission [us].
    pub(crate) sent_us: u64,
    /// `RateEstimator::first_tx_us` at that time.
    pub(crate) first_tx_us: u64,
    /// `Sock::delivered_mstamp_us` at that time.
    pub(crate) delivered_mstamp_us: u64,
    older: u64,
    newer: u64,
    /// `Sock::delivered` at that time.
    pub(crate) delivered: u32,
    /// `Sock::delivered_ce` at that time.
    pub(crate) delivered_ce: u32,
    pub(crate) len_bytes: u32,
    pub(crate) flags: u8,
}

impl Slot {
    pub(crate) fn new(seq: u64, len_bytes: u32, fin: bool) -> Self {
        Self {
            seq,
            sent_us: 0,
            first_tx_us: 0,
            delivered_mstamp_us: 0,
            older: NIL,
            newer: NIL,
            delivered: 0,
            delivered_ce: 0,
            len_bytes,
            flags: if fin { FIN } else { 0 },
        }
    }

    pub(crate) fn end_seq(&self) -> u64 {
        self.seq + u64::from(self.len_bytes) + u64::from(self.has(FIN))
    }

    pub(crate) fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }
}

/// The retransmission queue. Slots have increasing numbers, never reused.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    slots: VecDeque<Slot>,
    first: u64,
    oldest: u64,
    newest: u64,
    /// No earlier slot waits for retransmission.
    pub(crate) resend_from: u64,
    /// End of the data reported out of order.
    pub(crate) highest_sacked: u64,
    /// Ranges whose slots are all sacked: no need to visit them again.
    known: [SackRange; 4],
}

impl Scoreboard {
    pub(crate) fn new() -> Self {
        Self { oldest: NIL, newest: NIL, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    pub(crate) fn end(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    pub(crate) fn slot(&self, number: u64) -> &Slot {
        &self.slots[(number - self.first) as usize]
    }

    pub(crate) fn slot_mut(&mut self, number: u64) -> &mut Slot {
        &mut self.slots[(number - self.first) as usize]
    }

    pub(crate) fn head(&self) -> Option<&Slot> {
        self.slots.front()
    }

    /// Appends a segment just sent.
    pub(crate) fn push(&mut self, slot: Slot) {
        let number = self.end();
        self.slots.push_back(slot);
        self.list(number);
    }

    /// Removes the first slot: acknowledged in order.
    pub(crate) fn pop(&mut self) -> Option<Slot> {
        self.unlist(self.first);
        let slot = self.slots.pop_front()?;
        self.first += 1;
        self.resend_from = self.resend_from.max(self.first);
        Some(slot)
    }

    /// Makes the slot sent last the newest of the list.
    pub(crate) fn list(&mut self, number: u64) {
        if self.slot(number).has(LISTED) {
            self.unlist(number);
        }
        let newest = self.newest;
        let slot = self.slot_mut(number);
        slot.flags |= LISTED;
        slot.older = newest;
        slot.newer = NIL;
        if newest == NIL {
            self.oldest = number;
        } else {
            self.slot_mut(newest).newer = number;
        }
        self.newest = number;
    }

    /// Removes a slot from the list: acknowledged or marked lost.
    pub(crate) fn unlist(&mut self, number: u64) {
        if number >= self.end() || !self.slot(number).has(LISTED) {
            return;
        }
        let slot = self.slot_mut(number);
        slot.flags &= !LISTED;
        let (older, newer) = (slot.older, slot.newer);
        if older == NIL {
            self.oldest = newer;
        } else {
            self.slot_mut(older).newer = newer;
        }
        if newer == NIL {
            self.newest = older;
        } else {
            self.slot_mut(newer).older = older;
        }
    }

    /// The slot of the list sent first; `NIL`: the list is empty.
    pub(crate) fn oldest(&self) -> u64 {
        self.oldest
    }

    pub(crate) fn newer(&self, number: u64) -> u64 {
        self.slot(number).newer
    }

    /// The first slot that ends after a byte.
    pub(crate) fn find(&self, seq: u64) -> u64 {
        self.first + self.slots.partition_point(|slot| slot.end_seq() <= seq) as u64
    }

    /// Number of the next lost slot waiting for retransmission.
    pub(crate) fn next_lost(&mut self) -> Option<u64> {
        while self.resend_from < self.end() {
            let slot = self.slot(self.resend_from);
            if slot.has(LOST) && !slot.has(RETRANS | SACKED) {
                return Some(self.resend_from);
            }
            self.resend_from += 1;
        }
        None
    }

    /// The rest of a range after its part known to be sacked; None: all of it is.
    pub(crate) fn unknown_part(&self, mut range: SackRange) -> Option<SackRange> {
        let mut shrunk = true;
        while shrunk && range.start < range.end {
            shrunk = false;
            for known in &self.known {
                if known.start <= range.start && range.start < known.end {
                    range.start = known.end;
                    shrunk = true;
                }
                if known.start < range.end && range.end <= known.end {
                    range.end = known.start.max(range.start);
                    shrunk = true;
                }
            }
        }
        (range.start < range.end).then_some(range)
    }

    /// Remembers the ranges of an ACK, whose slots are now all sacked.
    pub(crate) fn remember(&mut self, ranges: &[SackRange]) {
        self.known = [SackRange::default(); 4];
        for (known, range) in self.known.iter_mut().zip(ranges) {
            *known = *range;
        }
    }
}
