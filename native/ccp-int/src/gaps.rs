//! Missing packets of a flow: gaps between their numbers, and late arrivals.

use ccp_ioam::Numbers;

/// Numbers below the highest that are remembered individually.
const REMEMBERED: u64 = 1024;
const WORD_BITS: u64 = u64::BITS as u64;
/// After this many consecutive packets with old numbers, the source has restarted.
const OLD_PKTS: u32 = 64;
/// A number that is further ahead is not explained by losses: the source has restarted.
const MAX_AHEAD: u64 = 1 << 31;

#[derive(Clone, Debug)]
pub struct Gaps {
    first: u64,
    highest: u64,
    /// Arrived numbers among the remembered ones: a ring of bits.
    came: [u64; (REMEMBERED / WORD_BITS) as usize],
    missing: i64,
    plain: u64,
    old_in_row: u32,
}

impl Gaps {
    pub fn new(numbers: Numbers) -> Self {
        let first = numbers.first;
        let mut gaps = Gaps {
            first,
            highest: first,
            came: [0; (REMEMBERED / WORD_BITS) as usize],
            missing: 0,
            plain: 0,
            old_in_row: 0,
        };
        gaps.advance(numbers.last());
        gaps.note_all(first);
        gaps
    }

    /// Packets missing now, without late arrivals and packets without a number.
    pub fn missing(&self) -> i64 {
        self.missing
    }

    pub fn plain(&mut self, pkts: u64) {
        self.plain += pkts;
    }

    /// Whether the numbers are above all earlier ones.
    pub fn is_next(&self, numbers: Numbers) -> bool {
        numbers.first > self.highest
    }

    /// Packets with these numbers arrived; returns how many had arrived before.
    pub fn came(&mut self, numbers: Numbers) -> u64 {
        let (first, last) = (numbers.first, numbers.last());
        if self.is_next(numbers) {
            if first - self.highest > MAX_AHEAD {
                self.restart(numbers);
                return 0;
            }
            self.old_in_row = 0;
            self.missing += (first - self.highest - 1) as i64 - std::mem::take(&mut self.plain) as i64;
            self.advance(last);
            self.note_all(first);
            return 0;
        }
        self.old_in_row += 1;
        if self.old_in_row >= OLD_PKTS {
            self.restart(numbers);
            return 0;
        }
        let highest = self.highest;
        self.advance(last);
        (first..=last).filter(|number| !self.is_new(*number, highest)).count() as u64
    }

    fn restart(&mut self, numbers: Numbers) {
        *self = Gaps { missing: self.missing, ..Gaps::new(numbers) };
    }

    /// Records a number; returns whether it is new.
    fn is_new(&mut self, number: u64, highest: u64) -> bool {
        // Nothing is missing before the first one, and forgotten numbers are unknown.
        if number < self.first || self.highest.saturating_sub(number) >= REMEMBERED {
            return true;
        }
        let (word, bit) = place(number);
        if self.came[word] & bit != 0 {
            return false;
        }
        self.note(number);
        self.missing -= i64::from(number <= highest);
        true
    }

    fn advance(&mut self, last: u64) {
        if last <= self.highest {
            return;
        }
        if last - self.highest < REMEMBERED {
            self.mark(self.highest + 1, last, false);
        } else {
            self.came.fill(0);
        }
        self.highest = last;
    }

    fn note_all(&mut self, first: u64) {
        self.mark(first.max(self.highest.saturating_sub(REMEMBERED - 1)), self.highest, true);
    }

    /// Marks a range by words: a super-packet has many numbers.
    fn mark(&mut self, first: u64, last: u64, came: bool) {
        let mut next = Some(first);
        while let Some(number) = next.filter(|number| *number <= last) {
            let end = last.min(number | (WORD_BITS - 1));
            let bits = u64::MAX >> (WORD_BITS - 1 - (end - number)) << (number % WORD_BITS);
            let (word, _) = place(number);
            self.came[word] = if came { self.came[word] | bits } else { self.came[word] & !bits };
            next = end.checked_add(1);
        }
    }

    fn note(&mut self, number: u64) {
        if self.highest.saturating_sub(number) < REMEMBERED {
            let (word, bit) = place(number);
            self.came[word] |= bit;
        }
    }
}

fn place(number: u64) -> (usize, u64) {
    let at = number % REMEMBERED;
    ((at / WORD_BITS) as usize, 1 << (at % WORD_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_the_end_of_their_range_are_counted_like_others() {
        let pkts = 1;
        let mut gaps = Gaps::new(Numbers { first: u64::MAX - 2, pkts });
        assert_eq!(gaps.came(Numbers { first: u64::MAX, pkts }), 0);
        assert_eq!(gaps.missing(), 1);
        assert_eq!(gaps.came(Numbers { first: u64::MAX, pkts }), 1);
        assert_eq!(gaps.came(Numbers { first: u64::MAX - 1, pkts: 2 }), 1);
        assert_eq!(gaps.missing(), 0);
    }

    #[test]
    fn a_number_far_ahead_is_that_of_a_source_that_has_restarted() {
        let mut gaps = Gaps::new(Numbers { first: 1, pkts: 1 });
        gaps.came(Numbers { first: 4, pkts: 1 });
        for first in [u64::MAX, 7, 1 << 40] {
            // One old number alone is a late packet.
            (0..OLD_PKTS).for_each(|_| _ = gaps.came(Numbers { first, pkts: 1 }));
            assert_eq!(gaps.missing(), 2, "{first}");
        }
        gaps.came(Numbers { first: (1 << 40) + 3, pkts: 1 });
        assert_eq!(gaps.missing(), 4);
    }

    #[test]
    fn packets_that_come_at_once_are_marked_as_those_that_come_one_by_one() {
        for pkts in [1, 2, 63, 64, 65, 130, 1023, 1024, 1500] {
            for first in [1, 63, 64, 100, 1000] {
                let mut at_once = Gaps::new(Numbers { first: 0, pkts: 1 });
                let mut one_by_one = at_once.clone();
                at_once.came(Numbers { first, pkts });
                (first..first + u64::from(pkts)).for_each(|first| {
                    one_by_one.came(Numbers { first, pkts: 1 });
                });
                assert_eq!(at_once.missing(), one_by_one.missing(), "{first} {pkts}");
                assert_eq!(at_once.came, one_by_one.came, "{first} {pkts}");
            }
        }
    }
}
