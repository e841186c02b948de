//! Propagation: packets are delayed, perhaps with jitter, on a usual way and a longer one. On each of them no
//! packet is overtaken.

use std::collections::VecDeque;

use crate::rng::Stream;

#[derive(Clone, Debug)]
pub struct Propagation<P> {
    usual: Way<P>,
    longer: Way<P>,
    random: Stream,
}

/// Packets in their order, with the times of their arrivals.
#[derive(Clone, Debug)]
struct Way<P> {
    flying: VecDeque<(u64, P)>,
    last_due_ns: u64,
}

impl<P> Way<P> {
    fn new() -> Self {
        Way { flying: VecDeque::new(), last_due_ns: 0 }
    }

    /// A packet with less jitter, or after the delay was reduced, waits for those before it.
    fn in_order(&self, due_ns: u64) -> u64 {
        self.last_due_ns.max(due_ns)
    }

    fn push(&mut self, due_ns: u64, packet: P) {
        self.last_due_ns = self.in_order(due_ns);
        self.flying.push_back((self.last_due_ns, packet));
    }

    fn due_ns(&self) -> Option<u64> {
        self.flying.front().map(|(due_ns, _)| *due_ns)
    }
}

impl<P> Propagation<P> {
    pub fn new(random: Stream) -> Self {
        Propagation { usual: Way::new(), longer: Way::new(), random }
    }

    /// Sends a packet off. `late_us`: the additional delay of the longer way, if it takes that one.
    pub fn push(&mut self, now_ns: u64, delay_us: u64, jitter_us: u64, late_us: Option<u64>, packet: P) {
        let jitter_ns = self.random.up_to(jitter_us.saturating_mul(1000));
        let due_ns = now_ns.saturating_add(delay_us.saturating_mul(1000)).saturating_add(jitter_ns);
        match late_us {
            None => self.usual.push(due_ns, packet),
            Some(late_us) => {
                // Later than it would have been on the usual way, where no packet waits for it.
                let usual_ns = self.usual.in_order(due_ns);
                self.longer.push(usual_ns.saturating_add(late_us.saturating_mul(1000)), packet);
            }
        }
    }

    pub fn due_ns(&self) -> Option<u64> {
        self.usual.due_ns().into_iter().chain(self.longer.due_ns()).min()
    }

    pub fn pop(&mut self) -> Option<(u64, P)> {
        // Of two that arrive simultaneously, the late one was sent first.
        let is_late = self.longer.due_ns().is_some_and(|due_ns| self.due_ns() == Some(due_ns));
        let way = if is_late { &mut self.longer } else { &mut self.usual };
        way.flying.pop_front()
    }

    pub fn len(&self) -> usize {
        self.usual.flying.len() + self.longer.flying.len()
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
        way.push(0, 10_000, 0, None, 1);
        way.push(1_000_000, 2_000, 0, None, 2);
        assert_eq!(way.pop(), Some((10_000_000, 1)));
        assert_eq!(way.pop(), Some((10_000_000, 2)));
        way.push(20_000_000, 2_000, 0, None, 3);
        assert_eq!(way.due_ns(), Some(22_000_000));
    }

    #[test]
    fn packets_overtake_those_on_the_longer_way_which_keep_their_order() {
        let mut way = made();
        for number in 0..10 {
            // One every millisecond; the fourth and the sixth are 2.5 ms late.
            let late_us = [3, 5].contains(&number).then_some(2_500);
            way.push(number as u64 * 1_000_000, 10_000, 0, late_us, number);
        }
        assert_eq!(way.len(), 10);
        let order: Vec<_> = std::iter::from_fn(|| way.pop()).collect();
        assert_eq!(order.iter().map(|(_, who)| *who).collect::<Vec<_>>(), [0, 1, 2, 4, 3, 6, 7, 5, 8, 9]);
        assert!(order.contains(&(15_500_000, 3)));
        assert!(order.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }

    #[test]
    fn a_late_packet_is_never_early_despite_jitter() {
        let mut way = made();
        way.push(0, 10_000, 0, None, 0);
        way.push(0, 1_000, 0, Some(500), 1); // it would have waited for the first
        way.push(0, 1_000, 0, Some(100), 2); // not before the other late one
        way.push(0, 1_000, 0, None, 3);
        let order: Vec<_> = std::iter::from_fn(|| way.pop()).collect();
        assert_eq!(order, [(10_000_000, 0), (10_000_000, 3), (10_500_000, 1), (10_500_000, 2)]);
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
                way.push(now_ns, delay_us, jitter_us, None, number);
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
