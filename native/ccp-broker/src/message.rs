//! A message that the broker holds.

use std::rc::Rc;
use std::time::{Duration, Instant};

use mqtt_proto::v5::{LastWill, Publish, PublishProperties};
use mqtt_proto::{Encodable, Pid, QoS, QosPid};

/// What a message costs besides its own bytes, about: structures here, and its places in a queue [bytes].
const OVERHEAD_BYTES: usize = 400;

/// Of these a few bytes on the wire are many in memory.
const MAX_USER_PROPERTIES: usize = 32;

/// A published message, shared by all who wait for it.
#[derive(Debug)]
pub struct Message {
    /// As it came, without flags and identifiers.
    publish: Publish,
    /// When it is of no use any more.
    expires: Option<Instant>,
    /// Whether it came at QoS 1, and may be delivered so.
    pub at_least_once: bool,
    /// What it takes of memory [bytes].
    pub bytes: usize,
}

impl Message {
    /// Takes over what was published; `None` if it has too many user properties.
    pub fn new(mut publish: Publish, now: Instant) -> Option<Rc<Self>> {
        if publish.properties.user_properties.len() > MAX_USER_PROPERTIES {
            return None;
        }
        let at_least_once = publish.qos_pid != QosPid::Level0;
        (publish.dup, publish.retain, publish.qos_pid) = (false, false, QosPid::Level0);
        let expiry_s = publish.properties.message_expiry_interval;
        let expires = expiry_s.and_then(|s| now.checked_add(Duration::from_secs(s.into())));
        let bytes = publish.encode_len() + OVERHEAD_BYTES;
        Some(Rc::new(Self { publish, expires, at_least_once, bytes }))
    }

    /// Where it was published.
    pub fn topic(&self) -> &mqtt_proto::TopicName {
        &self.publish.topic_name
    }

    /// Whether it says that nothing is retained on its topic.
    pub fn is_empty(&self) -> bool {
        self.publish.payload.is_empty()
    }

    /// Whether it is of no use any more.
    pub fn is_expired(&self, now: Instant) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Returns it as a subscriber gets it, with the time that it has left.
    pub fn outgoing(&self, pid: Option<Pid>, retain: bool, now: Instant) -> Publish {
        let mut publish = self.publish.clone();
        publish.retain = retain;
        publish.qos_pid = pid.map_or(QosPid::Level0, QosPid::Level1);
        if let Some(expires) = self.expires {
            let left = expires.saturating_duration_since(now).as_millis().div_ceil(1000);
            publish.properties.message_expiry_interval = Some(u32::try_from(left).unwrap_or(u32::MAX));
        }
        publish
    }
}

/// Returns the message of a last will. Its delay is not kept: sessions end with their connection, and no delay
/// outlasts them.
pub fn of_will(will: LastWill) -> Publish {
    let properties = will.properties;
    let mut publish = Publish::new(
        match will.qos {
            QoS::Level0 => QosPid::Level0,
            QoS::Level1 => QosPid::Level1(Pid::default()),
            QoS::Level2 => QosPid::Level2(Pid::default()),
        },
        will.topic_name,
        will.payload,
    );
    publish.retain = will.retain;
    publish.properties = PublishProperties {
        payload_is_utf8: properties.payload_is_utf8,
        message_expiry_interval: properties.message_expiry_interval,
        response_topic: properties.response_topic,
        correlation_data: properties.correlation_data,
        user_properties: properties.user_properties,
        content_type: properties.content_type,
        ..PublishProperties::default()
    };
    publish
}
