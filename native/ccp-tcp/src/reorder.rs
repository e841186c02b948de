//! Data behind a gap, and the receiver's reports of it.

use std::collections::VecDeque;

use crate::SackRange;
use crate::segment::Sacks;

/// Ranges remembered for SACK options.
const MAX_RECENT: usize = 4;

/// Ranges certain to fit into an ACK (`TCP_SACK_BLOCKS_EXPECTED`): the third may be replaced by a DSACK.
const EXPECTED: usize = 2;

/// Out-of-order data: disjoint ranges that do not touch, by bytes.
#[derive(Debug, Default)]
pub(crate) struct OutOfOrder {
    ranges: VecDeque<SackRange>,
    /// The most recently changed ranges, newest first (RFC 2018, section 4).
    recent: [SackRange; MAX_RECENT],
    n_recent: usize,
}

impl OutOfOrder {
    /// Behind the last byte.
    pub(crate) fn end(&self) -> Option<u64> {
        self.ranges.back().map(|range| range.end)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether a new range in front would reduce the reports of recently changed ones.
    pub(crate) fn displaces(&self, range: SackRange) -> bool {
        let recent = &self.recent[..self.n_recent];
        let touched = recent.iter().position(|other| range.start <= other.end && other.start <= range.end);
        touched.unwrap_or(self.n_recent) >= EXPECTED
    }

    /// Adds a range; returns the part that was already present.
    pub(crate) fn insert(&mut self, range: SackRange) -> Option<SackRange> {
        let first = self.ranges.partition_point(|other| other.end < range.start);
        let mut merged = range;
        let mut duplicate: Option<SackRange> = None;
        let mut last = first;
        while let Some(other) = self.ranges.get(last).filter(|other| other.start <= range.end) {
            let common = SackRange { start: other.start.max(range.start), end: other.end.min(range.end) };
            if common.start < common.end {
                let start = duplicate.map_or(common.start, |old| old.start);
                duplicate = Some(SackRange { start, end: common.end });
            }
            merged = SackRange { start: merged.start.min(other.start), end: merged.end.max(other.end) };
            last += 1;
        }
        match last - first {
            0 => self.ranges.insert(first, merged),
            count => {
                self.ranges[first] = merged;
                if count > 1 {
                    self.ranges.drain(first + 1..last);
                }
            }
        }
        self.note(merged);
        duplicate
    }

    /// All data up to `end` is in order: returns the new end, including data waiting here, and duplicates.
    pub(crate) fn advance(&mut self, end: u64) -> (u64, Option<SackRange>) {
        let mut reached = end;
        let mut duplicate = None;
        while let Some(range) = self.ranges.front().copied().filter(|range| range.start <= reached) {
            if range.start < reached && duplicate.is_none() {
                duplicate = Some(SackRange { start: range.start, end: range.end.min(reached) });
            }
            reached = reached.max(range.end);
            self.ranges.pop_front();
        }
        if self.n_recent > 0 {
            self.keep_recent(|range| range.start > reached);
        }
        (reached, duplicate)
    }

    /// The ranges of an ACK, with a DSACK in front.
    pub(crate) fn sacks(&self, duplicate: Option<SackRange>) -> Sacks {
        let mut sacks = Sacks::default();
        if let Some(duplicate) = duplicate {
            sacks.push(duplicate);
        }
        for range in &self.recent[..self.n_recent] {
            if !sacks.push(*range) {
                break;
            }
        }
        sacks
    }

    fn note(&mut self, merged: SackRange) {
        if let Some(front) = self.recent[..self.n_recent].first()
            && merged.start <= front.start
            && front.end <= merged.end
            && self.n_recent == 1
        {
            self.recent[0] = merged;
            return;
        }
        self.keep_recent(|range| range.end < merged.start || merged.end < range.start);
        let kept = self.n_recent.min(MAX_RECENT - 1);
        self.recent.copy_within(..kept, 1);
        self.recent[0] = merged;
        self.n_recent = kept + 1;
    }

    fn keep_recent(&mut self, keep: impl Fn(&SackRange) -> bool) {
        let mut kept = 0;
        for i in 0..self.n_recent {
            if keep(&self.recent[i]) {
                self.recent[kept] = self.recent[i];
                kept += 1;
            }
        }
        self.n_recent = kept;
    }
}
