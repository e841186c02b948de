//! What waits for one subscriber: all of it while there is room, else the last of each topic.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use mqtt_proto::TopicName;

use crate::message::Message;

/// A message for a subscriber.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// What was published.
    pub message: Rc<Message>,
    /// Whether the subscriber acknowledges it.
    pub at_least_once: bool,
    /// Whether it says that the broker had kept it.
    pub retain: bool,
}

/// Messages of one quality of service, by the order in which they came.
#[derive(Debug, Default)]
struct Lane {
    waiting: BTreeMap<u64, Waiting>,
    newest: HashMap<TopicName, u64>,
    /// Those with a newer one of their topic behind them.
    superseded: BTreeSet<u64>,
}

impl Lane {
    fn push(&mut self, number: u64, waiting: Waiting) {
        if let Some(older) = self.newest.insert(waiting.message.topic().clone(), number) {
            self.superseded.insert(older);
        }
        self.waiting.insert(number, waiting);
    }

    fn remove(&mut self, number: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&number)?;
        if !self.superseded.remove(&number) {
            self.newest.remove(waiting.message.topic());
        }
        Some(waiting)
    }

    fn first(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|(&number, _)| number)
    }

    /// Returns the one that is missed least.
    fn least(&self) -> Option<u64> {
        self.superseded.first().copied().or_else(|| self.first())
    }
}

/// What waits for one subscriber.
#[derive(Debug, Default)]
pub struct Outbox {
    samples: Lane,
    decisions: Lane,
    next: u64,
    bytes: usize,
    /// How many messages found no room.
    pub dropped: u64,
}

impl Outbox {
    /// Adds a message, and makes room by what is missed least: messages at QoS 0 before those at QoS 1, of each
    /// the superseded before the last of a topic, and of those the oldest.
    pub fn push(&mut self, waiting: Waiting, limit_bytes: usize) {
        self.bytes += waiting.message.bytes;
        let number = self.next;
        self.next += 1;
        let lane = if waiting.at_least_once { &mut self.decisions } else { &mut self.samples };
        lane.push(number, waiting);
        while self.bytes > limit_bytes {
            let Some(dropped) = [&mut self.samples, &mut self.decisions]
                .into_iter()
                .find_map(|lane| lane.least().and_then(|number| lane.remove(number)))
            else {
                break;
            };
            self.bytes -= dropped.message.bytes;
            self.dropped += 1;
        }
    }

    /// Takes out the oldest message; only of QoS 0, unless one at QoS 1 may be sent.
    pub fn pop(&mut self, at_least_once: bool) -> Option<Waiting> {
        let sample = self.samples.first();
        let decision = self.decisions.first().filter(|_| at_least_once);
        let taken = match (sample, decision) {
            (Some(sample), Some(decision)) if decision < sample => self.decisions.remove(decision),
            (Some(sample), _) => self.samples.remove(sample),
            (None, Some(decision)) => self.decisions.remove(decision),
            (None, None) => None,
        }?;
        self.bytes -= taken.message.bytes;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use mqtt_proto::QosPid;
    use mqtt_proto::v5::Publish;
    use proptest::prelude::*;

    use super::*;

    fn waiting(topic: &str, body: u32, at_least_once: bool) -> Waiting {
        let topic = TopicName::try_from(topic).unwrap();
        let publish = Publish::new(QosPid::Level0, topic, body.to_be_bytes().to_vec().into());
        Waiting { message: Message::new(publish, Instant::now()).unwrap(), at_least_once, retain: false }
    }

    fn told(waiting: &Waiting) -> (String, u32, bool) {
        let publish = waiting.message.outgoing(None, false, Instant::now());
        let body = u32::from_be_bytes(publish.payload[..].try_into().unwrap());
        (publish.topic_name.to_string(), body, waiting.at_least_once)
    }

    fn all(outbox: &mut Outbox) -> Vec<(String, u32, bool)> {
        std::iter::from_fn(|| outbox.pop(true)).map(|w| told(&w)).collect()
    }

    #[test]
    fn with_room_all_come_in_order() {
        let mut outbox = Outbox::default();
        for n in 0..10 {
            outbox.push(waiting("a", n, n % 3 == 0), usize::MAX);
        }
        assert_eq!(all(&mut outbox).iter().map(|t| t.1).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
        assert_eq!((outbox.dropped, outbox.bytes), (0, 0));
    }

    #[test]
    fn without_room_the_last_of_each_topic_stays() {
        let mut outbox = Outbox::default();
        let limit = 3 * waiting("a", 0, false).message.bytes;
        for n in 0..100 {
            outbox.push(waiting("a", n, false), limit);
            outbox.push(waiting(if n == 0 { "b" } else { "c" }, n, false), limit);
        }
        assert_eq!(
            all(&mut outbox),
            [("b".to_owned(), 0, false), ("a".to_owned(), 99, false), ("c".to_owned(), 99, false)]
        );
        assert_eq!(outbox.dropped, 197);
    }

    #[test]
    fn samples_make_room_for_decisions() {
        let mut outbox = Outbox::default();
        let limit = 3 * waiting("a", 0, false).message.bytes;
        for (n, topic) in ["a", "b", "c"].into_iter().enumerate() {
            outbox.push(waiting(topic, n as u32, false), limit);
        }
        for n in 3..6 {
            outbox.push(waiting("d", n, true), limit);
        }
        outbox.push(waiting("e", 6, false), limit);
        assert_eq!(all(&mut outbox).iter().map(|t| t.1).collect::<Vec<_>>(), [3, 4, 5]);
        assert_eq!(outbox.dropped, 4);
    }

    #[test]
    fn what_may_not_be_sent_yet_is_passed_over() {
        let mut outbox = Outbox::default();
        outbox.push(waiting("a", 0, true), usize::MAX);
        outbox.push(waiting("a", 1, false), usize::MAX);
        assert_eq!(told(&outbox.pop(false).unwrap()).1, 1);
        assert!(outbox.pop(false).is_none());
        assert_eq!(told(&outbox.pop(true).unwrap()).1, 0);
    }

    proptest! {
        #[test]
        fn what_is_held_is_bounded_and_ends_with_the_last_of_each_topic(
            steps in prop::collection::vec((0..4u8, any::<bool>(), any::<bool>()), 1..200),
        ) {
            let mut outbox = Outbox::default();
            let size = waiting("t0", 0, false).message.bytes;
            let limit = 8 * size; // as many as there are topics and qualities: none of the last is lost
            let mut last = BTreeMap::new();
            let (mut pushed, mut popped) = (0, 0);
            for (n, (topic, at_least_once, take)) in steps.into_iter().enumerate() {
                let topic = format!("t{topic}");
                outbox.push(waiting(&topic, n as u32, at_least_once), limit);
                last.insert((topic, at_least_once), n as u32);
                pushed += 1;
                prop_assert!(outbox.bytes <= limit);
                if take && let Some(taken) = outbox.pop(true) {
                    popped += 1;
                    let (topic, n, at_least_once) = told(&taken);
                    let key = (topic, at_least_once);
                    if last.get(&key) == Some(&n) {
                        last.remove(&key);
                    }
                }
            }
            let dropped = outbox.dropped;
            let left = all(&mut outbox);
            prop_assert_eq!(pushed, popped + dropped + left.len() as u64);
            let mut seen = BTreeMap::new();
            for (topic, n, at_least_once) in left {
                prop_assert!(seen.insert((topic, at_least_once), n).is_none_or(|before| before < n));
            }
            for (key, n) in last {
                // Decisions alone may fill all the room; then a sample has none.
                if key.1 {
                    prop_assert_eq!(seen.get(&key), Some(&n));
                } else {
                    prop_assert!(seen.get(&key).is_none_or(|&found| found == n));
                }
            }
        }
    }
}
