//! Timers: at most one per owner, the earliest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

const NEVER: u64 = u64::MAX;

/// Timers by owner, an index. A postponed timer, such as a retransmission's at each ACK, stays in the heap,
/// and is found outdated when it expires: so nearly all changes touch one number.
#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    /// Of equal times the first entered comes first.
    entered: u64,
    /// The earliest entry of each owner in the heap.
    armed_ns: Vec<u64>,
    wanted_ns: Vec<u64>,
}

impl Timers {
    pub fn set(&mut self, owner: usize, at_ns: Option<u64>) {
        if owner >= self.wanted_ns.len() {
            self.wanted_ns.resize(owner + 1, NEVER);
            self.armed_ns.resize(owner + 1, NEVER);
        }
        let at_ns = at_ns.unwrap_or(NEVER);
        self.wanted_ns[owner] = at_ns;
        if at_ns < self.armed_ns[owner] {
            self.arm(owner, at_ns);
        }
    }

    fn arm(&mut self, owner: usize, at_ns: u64) {
        self.armed_ns[owner] = at_ns;
        self.entered += 1;
        self.heap.push(Reverse((at_ns, self.entered, owner)));
    }

    /// No timer expires before this time.
    pub fn next_ns(&self) -> u64 {
        self.heap.peek().map_or(NEVER, |Reverse((at_ns, ..))| *at_ns)
    }

    /// Removes the earliest timer, if due.
    pub fn take(&mut self, now_ns: u64) -> Option<usize> {
        while let Some(Reverse((at_ns, _, owner))) = self.heap.peek().copied().filter(|e| e.0.0 <= now_ns) {
            self.heap.pop();
            if self.armed_ns[owner] != at_ns {
                continue; // an earlier one was entered
            }
            self.armed_ns[owner] = NEVER;
            let wanted_ns = self.wanted_ns[owner];
            if wanted_ns <= now_ns {
                self.wanted_ns[owner] = NEVER;
                return Some(owner);
            }
            if wanted_ns != NEVER {
                self.arm(owner, wanted_ns);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_earliest_comes_first_and_of_equals_the_first_entered() {
        let mut timers = Timers::default();
        timers.set(2, Some(7));
        timers.set(0, Some(7));
        timers.set(1, Some(5));
        assert_eq!((timers.next_ns(), timers.take(4)), (5, None));
        let order: Vec<_> = std::iter::from_fn(|| timers.take(7)).collect();
        assert_eq!(order, [1, 2, 0]);
        assert_eq!(timers.next_ns(), NEVER);
    }

    proptest! {
        #[test]
        fn each_comes_at_the_time_that_was_set_last(
            changes in prop::collection::vec((0usize..5, prop::option::of(0u64..100)), 1..60),
        ) {
            let mut timers = Timers::default();
            let mut expected = [None; 5];
            for (owner, at_ns) in changes {
                timers.set(owner, at_ns);
                expected[owner] = at_ns;
            }
            for now_ns in 0..100 {
                while let Some(owner) = timers.take(now_ns) {
                    prop_assert_eq!(expected[owner].take(), Some(now_ns));
                }
                prop_assert!(timers.next_ns() > now_ns);
            }
            prop_assert!(expected.iter().all(Option::is_none));
        }
    }
}
