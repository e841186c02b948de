//! What was lost: gaps between sequence numbers, and what packets that come late make of them.

use std::collections::VecDeque;

use ccp_ioam::Numbers;

/// Gaps of a flow that are remembered, in case what is missing comes late.
const MAX_GAPS: usize = 1024;
/// Packets whose numbers are remembered.
const MAX_RECENT: usize = 64;
/// After so many packets in a row with numbers that were there before, the source has started anew.
const OLD_PKTS: u32 = 64;

/// Numbers of lost packets by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// On links.
    pub wireless: u64,
    /// In queues.
    pub overflow: u64,
    /// Nothing shows where.
    pub unknown: u64,
}

impl Losses {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.wireless.saturating_add(self.overflow).saturating_add(self.unknown)
    }

    /// Adds others.
    pub fn add(&mut self, other: Losses) {
        self.wireless = self.wireless.saturating_add(other.wireless);
        self.overflow = self.overflow.saturating_add(other.overflow);
        self.unknown = self.unknown.saturating_add(other.unknown);
    }

    /// Takes so many away, if there are so many; what was taken.
    fn take(&mut self, pkts: u64) -> Losses {
        let mut left = pkts;
        let mut from = |count: &mut u64| {
            let taken = left.min(*count);
            *count -= taken;
            left -= taken;
            taken
        };
        Losses {
            wireless: from(&mut self.wireless),
            overflow: from(&mut self.overflow),
            unknown: from(&mut self.unknown),
        }
    }
}

/// What a packet is whose number is not higher than all before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Old {
    /// It was overtaken, or nobody knows any more.
    Late,
    /// It was there before.
    Again,
}

#[derive(Clone, Copy, Debug)]
struct Gap {
    /// The number before it, and the one behind.
    bounds: (u64, u64),
    losses: Losses,
    interval: u64,
}

/// The numbers of one flow.
#[derive(Debug)]
pub struct Sequence {
    first: u64,
    highest: u64,
    /// Packets without a number since the highest one.
    plain: u64,
    /// In the order of the numbers.
    gaps: VecDeque<Gap>,
    /// The last numbers that came, in that order; those of a super-packet are one.
    recent: VecDeque<Numbers>,
    pending: Losses,
    /// Losses that were told and are none.
    debt: u64,
    interval: u64,
    old_in_row: u32,
}

impl Sequence {
    /// Begins with these numbers.
    pub fn new(numbers: Numbers) -> Self {
        Sequence {
            first: numbers.first,
            highest: numbers.last(),
            plain: 0,
            gaps: VecDeque::new(),
            recent: VecDeque::from([numbers]),
            pending: Losses::default(),
            debt: 0,
            interval: 0,
            old_in_row: 0,
        }
    }

    /// Packets without a number came.
    pub fn plain(&mut self, pkts: u64) {
        self.plain += pkts;
    }

    /// Whether they are higher than all before.
    pub fn is_next(&self, numbers: Numbers) -> bool {
        numbers.first > self.highest
    }

    /// A packet came whose numbers are higher than all before. `judge` says what became of those that are missing;
    /// returned is what was lost.
    pub fn next(&mut self, numbers: Numbers, judge: impl FnOnce(u64) -> Losses) -> Losses {
        self.old_in_row = 0;
        self.note(numbers);
        let number = numbers.first;
        let came = self.plain + 1;
        let span = number - self.highest;
        let bounds = (self.highest, number);
        (self.highest, self.plain) = (numbers.last(), 0);
        if span <= came {
            // Packets without a number that were overtaken, and counted as lost then.
            self.come_back(came - span);
            return Losses::default();
        }
        let losses = judge(span - came);
        self.pending.add(losses);
        self.remember(Gap { bounds, losses, interval: self.interval });
        losses
    }

    /// A packet came whose numbers are not all higher than all before; how many of them were there before.
    pub fn old(&mut self, numbers: Numbers) -> u64 {
        self.old_in_row += 1;
        if self.old_in_row >= OLD_PKTS {
            let (pending, debt, interval) = (self.pending, self.debt, self.interval);
            *self = Sequence { pending, debt, interval, ..Sequence::new(numbers) };
            return 0;
        }
        let again =
            (numbers.first..=numbers.last()).filter(|number| self.one_old(*number) == Old::Again).count();
        if numbers.first >= self.first && again < numbers.pkts as usize {
            self.note(numbers);
        }
        self.highest = self.highest.max(numbers.last());
        again as u64
    }

    fn one_old(&mut self, number: u64) -> Old {
        if number < self.first || number > self.highest {
            return Old::Late;
        }
        if self.recent.iter().any(|recent| (recent.first..=recent.last()).contains(&number)) {
            return Old::Again;
        }
        let at = self.gaps.partition_point(|gap| gap.bounds.1 <= number);
        let Some(gap) = self.gaps.get(at).copied().filter(|gap| gap.bounds.0 < number) else {
            if self.recent.iter().all(|recent| number < recent.first) {
                return Old::Again;
            }
            // Packets without a number that came late stood for it, and are missed elsewhere.
            self.come_back(1);
            return Old::Late;
        };
        let mut behind = gap.losses;
        let found = behind.take(1);
        let before = behind.take(number - gap.bounds.0 - 1);
        self.gaps.remove(at);
        for (bounds, losses) in [((number, gap.bounds.1), behind), ((gap.bounds.0, number), before)] {
            if losses.total() > 0 {
                self.gaps.insert(at, Gap { bounds, losses, ..gap });
            }
        }
        self.found(found, gap.interval);
        Old::Late
    }

    /// What was lost since this was last asked.
    pub fn take(&mut self) -> Losses {
        self.debt -= self.pending.take(self.debt).total();
        self.interval += 1;
        std::mem::take(&mut self.pending)
    }

    /// What was lost is there.
    fn found(&mut self, losses: Losses, interval: u64) {
        let told = interval != self.interval;
        for (pending, found) in [
            (&mut self.pending.wireless, losses.wireless),
            (&mut self.pending.overflow, losses.overflow),
            (&mut self.pending.unknown, losses.unknown),
        ] {
            let not_told = if told { 0 } else { found.min(*pending) };
            *pending -= not_told;
            self.debt += found - not_told;
        }
    }

    fn come_back(&mut self, pkts: u64) {
        self.debt += pkts - self.pending.take(pkts).total();
    }

    fn note(&mut self, numbers: Numbers) {
        if self.recent.len() == MAX_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(numbers);
    }

    fn remember(&mut self, gap: Gap) {
        if self.gaps.len() == MAX_GAPS {
            self.gaps.pop_front();
        }
        self.gaps.push_back(gap);
    }
}
