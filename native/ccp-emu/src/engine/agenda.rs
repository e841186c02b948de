//! What is due when: for each link one time at most, the earliest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Times of links. Of equal times the one that was entered first comes first.
#[derive(Debug, Default)]
pub struct Agenda {
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    entered: u64,
    /// What holds for each link: entries of the heap that say something else are passed over.
    times_ns: Vec<Option<u64>>,
}

impl Agenda {
    /// Of so many links, nothing due.
    pub fn new(links: usize) -> Self {
        Agenda { times_ns: vec![None; links], ..Agenda::default() }
    }

    /// Enters the time of a link instead of the one before.
    pub fn set(&mut self, link: usize, at_ns: Option<u64>) {
        if self.times_ns[link] != at_ns {
            self.times_ns[link] = at_ns;
            if let Some(at_ns) = at_ns {
                self.entered += 1;
                self.heap.push(Reverse((at_ns, self.entered, link)));
            }
        }
    }

    /// The earliest.
    pub fn first(&mut self) -> Option<(u64, usize)> {
        while let Some(Reverse((at_ns, _, link))) = self.heap.peek() {
            if self.times_ns[*link] == Some(*at_ns) {
                return Some((*at_ns, *link));
            }
            self.heap.pop();
        }
        None
    }

    /// Takes the earliest off, if it is due.
    pub fn take(&mut self, now_ns: u64) -> Option<(u64, usize)> {
        let (at_ns, link) = self.first().filter(|(at_ns, _)| *at_ns <= now_ns)?;
        self.heap.pop();
        self.times_ns[link] = None;
        Some((at_ns, link))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_of_equals_the_first_entered() {
        let mut agenda = Agenda::new(3);
        agenda.set(2, Some(7));
        agenda.set(0, Some(7));
        agenda.set(1, Some(5));
        assert_eq!(agenda.take(4), None);
        let order: Vec<_> = std::iter::from_fn(|| agenda.take(7)).collect();
        assert_eq!(order, [(5, 1), (7, 2), (7, 0)]);
    }

    #[test]
    fn a_changed_time_replaces_the_one_before() {
        let mut agenda = Agenda::new(1);
        agenda.set(0, Some(5));
        agenda.set(0, Some(9));
        assert_eq!((agenda.take(8), agenda.first()), (None, Some((9, 0))));
        agenda.set(0, None);
        assert_eq!(agenda.first(), None);
    }
}
