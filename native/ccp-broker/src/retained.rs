//! The last message of each topic whose publisher wanted it kept.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

use mqtt_proto::TopicName;

use crate::message::Message;
use crate::topic;

/// How much is kept in all [bytes].
const MAX_BYTES: usize = 64 << 20;

/// What is kept.
#[derive(Debug, Default)]
pub struct Retained {
    messages: HashMap<TopicName, Rc<Message>>,
    bytes: usize,
}

impl Retained {
    /// Keeps a message in place of the one before; an empty one only removes that. False if there is no room.
    pub fn keep(&mut self, message: &Rc<Message>, now: Instant) -> bool {
        self.forget(message.topic());
        if message.is_empty() {
            return true;
        }
        if self.bytes + message.bytes > MAX_BYTES {
            self.sweep(now);
        }
        if self.bytes + message.bytes > MAX_BYTES {
            return false;
        }
        self.bytes += message.bytes;
        self.messages.insert(message.topic().clone(), Rc::clone(message));
        true
    }

    /// Returns what is kept for a filter.
    pub fn of<'a>(&'a self, filter: &'a str, now: Instant) -> impl Iterator<Item = &'a Rc<Message>> {
        self.messages.values().filter(move |m| !m.is_expired(now) && topic::matches(filter, m.topic()))
    }

    /// Forgets what expired.
    pub fn sweep(&mut self, now: Instant) {
        let bytes = &mut self.bytes;
        self.messages.retain(|_, message| {
            let stays = !message.is_expired(now);
            if !stays {
                *bytes -= message.bytes;
            }
            stays
        });
    }

    fn forget(&mut self, topic: &TopicName) {
        if let Some(before) = self.messages.remove(topic) {
            self.bytes -= before.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mqtt_proto::QosPid;
    use mqtt_proto::v5::Publish;

    use super::*;

    fn message(topic: &str, length: usize, expiry_s: Option<u32>, now: Instant) -> Rc<Message> {
        let topic = TopicName::try_from(topic).unwrap();
        let mut publish = Publish::new(QosPid::Level0, topic, vec![0; length].into());
        publish.properties.message_expiry_interval = expiry_s;
        Message::new(publish, now).unwrap()
    }

    #[test]
    fn the_last_of_a_topic_is_kept_until_it_expires_or_is_taken_back() {
        let (mut retained, now) = (Retained::default(), Instant::now());
        for (topic, expiry_s) in [("a/b", None), ("a/c", Some(1)), ("a/b", None)] {
            assert!(retained.keep(&message(topic, 1, expiry_s, now), now));
        }
        assert_eq!(retained.of("a/+", now).count(), 2);
        let later = now + Duration::from_secs(1);
        assert_eq!(retained.of("a/+", later).map(|m| m.topic().to_string()).collect::<Vec<_>>(), ["a/b"]);
        retained.sweep(later);
        assert!(retained.keep(&message("a/b", 0, None, now), now));
        assert_eq!((retained.bytes, retained.messages.len()), (0, 0));
    }

    #[test]
    fn there_is_an_end_to_what_is_kept() {
        let (mut retained, now) = (Retained::default(), Instant::now());
        let refused =
            (0..1100).filter(|n| !retained.keep(&message(&n.to_string(), 64 << 10, Some(1), now), now));
        assert_eq!(refused.count(), 1100 - MAX_BYTES / message("1000", 64 << 10, Some(1), now).bytes);
        assert!(retained.keep(&message("new", 64 << 10, None, now), now + Duration::from_secs(1)));
        assert_eq!(retained.messages.len(), 1);
    }
}
