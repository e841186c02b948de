//! Propagation: packets are delayed, perhaps with jitter, and never overtaken.

use std::collections::VecDeque;

use crate::rng::Stream;

#[derive(Clone, Debug)]
pub struct Propagation<P> {
    flying: VecDeque<(u64, P)>,
    last_due_ns: u64,
    random: Stream,
}

impl<P> Propagation<P> {
    pub fn new(random: Stream) -> Self {
        Propagation { flying: VecDeque::new(), last_due_ns: 0, random }
    }

    pub fn push(&mut self, now_ns: u64, delay_us: u64, jitter_us: u64, packet: P) {
        let jitter_ns = self.random.up_to(jitter_us.saturating_mul(1000));
        let due_ns = now_ns.saturating_add(delay_us.saturating_mul(1000)).saturating_add(jitter_ns);
        // A packet with less jitter, or after the delay was reduced, waits for those before it.
        self.last_due_ns = self.last_due_ns.max(due_ns);
        self.flying.push_back((self.last_due_ns, packet));
    }

    pub fn due_ns(&self) -> Option<u64> {
        self.flying.front().map(|(due_ns, _)| *due_ns)
    }

    pub fn pop(&mut self) -> Option<(u64, P)> {
        self.flying.pop_front()
    }

    pub fn len(&self) -> usize {
        self.flying.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn made() -> Propagation<usize> {
        Propagation::new(Stream::new(1, "l>", "jitter"))
    }

    #[test]
    fn a_lowered_delay_does_not_reorder() {
        let mut way = made();
        way.push(0, 10_000, 0, 1);
        way.push(1_000_000, 2_000, 0, 2);
        assert_eq!(way.pop(), Some((10_000_000, 1)));
        assert_eq!(way.pop(), Some((10_000_000, 2)));
        way.push(20_000_000, 2_000, 0, 3);
        assert_eq!(way.due_ns(), Some(22_000_000));
    }

    proptest! {
        #[test]
        fn never_early_never_later_than_all_jitter_never_reordered(
            steps in prop::collection::vec(0u64..100_000, 1..100), delay_us in 0u64..10_000, jitter_us in 0u64..5_000,
        ) {
            let mut way = made();
            let mut now_ns = 0;
            let mut sent = Vec::new();
            for (number, step_ns) in steps.into_iter().enumerate() {
                now_ns += step_ns;
                way.push(now_ns, delay_us, jitter_us, number);
                sent.push(now_ns);
            }
            let mut before_ns = 0;
            for (number, sent_ns) in sent.into_iter().enumerate() {
                let (due_ns, who) = way.pop().unwrap();
                prop_assert_eq!(who, number);
                prop_assert!(due_ns >= sent_ns + delay_us * 1000);
                prop_assert!(due_ns <= sent_ns + (delay_us + jitter_us) * 1000);
                prop_assert!(due_ns >= before_ns);
                before_ns = due_ns;
            }
        }
    }
}
