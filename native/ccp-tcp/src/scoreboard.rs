//! What has been sent and is not acknowledged in order: one slot a segment, in the order of their bytes, and linked in
//! the order in which they were sent last.

use std::collections::VecDeque;

use crate::SackRange;

/// No slot: the end of the list.
pub(crate) const NIL: u64 = u64::MAX;

/// The receiver has it out of order.
pub(crate) const SACKED: u8 = 1;
pub(crate) const LOST: u8 = 2;
/// It has been sent again, and that is neither acknowledged nor taken for lost.
pub(crate) const RETRANS: u8 = 4;
/// It has been sent again some time.
pub(crate) const EVER_RETRANS: u8 = 8;
/// It is in the list by time of sending.
const LISTED: u8 = 16;
/// A FIN is behind its data.
pub(crate) const FIN: u8 = 32;
/// The application limited the rate when it was sent.
pub(crate) const APP_LIMITED: u8 = 64;
/// It has been counted in a rate sample already.
pub(crate) const RATED: u8 = 128;

/// A segment: `struct tcp_skb_cb`.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) seq: u64,
    /// When it was sent last [us].
    pub(crate) sent_us: u64,
    /// `RateEstimator::first_tx_us` then.
    pub(crate) first_tx_us: u64,
    /// `Sock::delivered_mstamp_us` then.
    pub(crate) delivered_mstamp_us: u64,
    older: u64,
    newer: u64,
    /// `Sock::delivered` then.
    pub(crate) delivered: u32,
    /// `Sock::delivered_ce` then.
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

/// The retransmission queue. Slots are named by numbers that count up and are never used again.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    slots: VecDeque<Slot>,
    first: u64,
    oldest: u64,
    newest: u64,
    /// No slot before it waits to be sent again.
    pub(crate) resend_from: u64,
    /// Behind the last byte that was reported out of order.
    pub(crate) highest_sacked: u64,
    /// Ranges whose slots all are sacked: they need not be walked through again.
    known: [SackRange; 4],
}

impl Scoreboard {
    pub(crate) fn new() -> Self {
        Self { oldest: NIL, newest: NIL, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Number of the first slot.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Number behind the last slot.
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

    /// Appends a segment that has just been sent.
    pub(crate) fn push(&mut self, slot: Slot) {
        let number = self.end();
        self.slots.push_back(slot);
        self.list(number);
    }

    /// Takes the first slot away: it is acknowledged in order.
    pub(crate) fn pop(&mut self) -> Option<Slot> {
        self.unlist(self.first);
        let slot = self.slots.pop_front()?;
        self.first += 1;
        self.resend_from = self.resend_from.max(self.first);
        Some(slot)
    }

    /// The slot that was sent last becomes the newest of the list.
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

    /// Takes a slot out of the list: it is acknowledged or taken for lost.
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

    /// The slot of the list that was sent first; `NIL`: the list is empty.
    pub(crate) fn oldest(&self) -> u64 {
        self.oldest
    }

    /// The slot that was sent next.
    pub(crate) fn newer(&self, number: u64) -> u64 {
        self.slot(number).newer
    }

    /// The first slot that ends behind a byte.
    pub(crate) fn find(&self, seq: u64) -> u64 {
        self.first + self.slots.partition_point(|slot| slot.end_seq() <= seq) as u64
    }

    /// Number of the next slot that is lost and waits to be sent again.
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

    /// The part of a range in front of which everything is sacked already; None: all of it is.
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

    /// Remembers the ranges of an ACK, all of whose slots are sacked now.
    pub(crate) fn remember(&mut self, ranges: &[SackRange]) {
        self.known = [SackRange::default(); 4];
        for (known, range) in self.known.iter_mut().zip(ranges) {
            *known = *range;
        }
    }
}
