//! Due times: at most one per link, the earliest first.

const NEVER: u64 = u64::MAX;
/// Children of each entry: four are in one cache line.
const CHILDREN: usize = 4;

/// A link's due time. Of equal times the one entered first comes first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Entry {
    at_ns: u64,
    entered: u32,
    link: u32,
}

/// A heap of the links' times; an entry moves when its time changes.
#[derive(Debug)]
pub struct Agenda {
    heap: Vec<Entry>,
    /// Each link's place in the heap.
    places: Vec<u32>,
    entered: u32,
}

impl Agenda {
    pub fn new(links: usize) -> Self {
        let links = 0..u32::try_from(links).unwrap_or(u32::MAX);
        let heap = links.clone().map(|link| Entry { at_ns: NEVER, entered: 0, link });
        Agenda { heap: heap.collect(), places: links.collect(), entered: 0 }
    }

    pub fn set(&mut self, link: usize, at_ns: Option<u64>) {
        let at_ns = at_ns.unwrap_or(NEVER);
        let place = self.places[link] as usize;
        let before_ns = self.heap[place].at_ns;
        if at_ns == before_ns {
            return;
        }
        self.count();
        self.heap[place] = Entry { at_ns, entered: self.entered, link: link as u32 };
        if at_ns < before_ns { self.rise(place) } else { self.sink(place) }
    }

    /// Restarts the order of entry long before the counter overflows.
    fn count(&mut self) {
        if self.entered == u32::MAX {
            let mut sorted: Vec<_> = (0..self.heap.len()).collect();
            sorted.sort_unstable_by_key(|place| self.heap[*place].entered);
            for (number, place) in sorted.into_iter().enumerate() {
                self.heap[place].entered = number as u32;
            }
            self.entered = self.heap.len() as u32;
        }
        self.entered += 1;
    }

    pub fn first(&self) -> Option<(u64, usize)> {
        let first = self.heap.first().filter(|entry| entry.at_ns != NEVER)?;
        Some((first.at_ns, first.link as usize))
    }

    /// Removes the earliest entry, if it is due.
    pub fn take(&mut self, now_ns: u64) -> Option<(u64, usize)> {
        let (at_ns, link) = self.first().filter(|(at_ns, _)| *at_ns <= now_ns)?;
        self.set(link, None);
        Some((at_ns, link))
    }

    fn rise(&mut self, mut place: usize) {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.heap[parent] < entry {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    fn sink(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let first = place * CHILDREN + 1;
            let last = (first + CHILDREN).min(self.heap.len());
            let Some(minimum) = (first..last).min_by_key(|child| self.heap[*child]) else { break };
            if self.heap[minimum] > entry {
                break;
            }
            self.put(place, self.heap[minimum]);
            place = minimum;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        self.places[entry.link as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    #[test]
    fn the_order_of_entry_outlives_its_count() {
        let mut agenda = Agenda::new(2);
        agenda.set(1, Some(7));
        agenda.entered = u32::MAX;
        agenda.set(0, Some(7));
        assert_eq!((agenda.take(7), agenda.take(7)), (Some((7, 1)), Some((7, 0))));
    }

    proptest! {
        #[test]
        fn it_is_as_a_search_through_all_would_have_it(
            changes in prop::collection::vec((0usize..11, prop::option::of(0u64..30)), 1..200),
        ) {
            let mut agenda = Agenda::new(11);
            let mut all: Vec<Option<(u64, usize)>> = vec![None; 11];
            for (number, (link, at_ns)) in changes.into_iter().enumerate() {
                if all[link].map(|(at_ns, _)| at_ns) != at_ns {
                    all[link] = at_ns.map(|at_ns| (at_ns, number));
                }
                agenda.set(link, at_ns);
                let minimum = (0..11).filter(|link| all[*link].is_some()).min_by_key(|link| all[*link]);
                prop_assert_eq!(agenda.first(), minimum.and_then(|link| Some((all[link]?.0, link))));
                if number % 3 == 0
                    && let Some((at_ns, link)) = agenda.first()
                {
                    prop_assert_eq!(agenda.take(at_ns), Some((at_ns, link)));
                    all[link] = None;
                }
            }
        }
    }
}
