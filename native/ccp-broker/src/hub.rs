//! What connections share: who is there, who wants what, and what is retained.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Instant;

use bytes::BytesMut;
use mqtt_proto::v5::{
    DisconnectReasonCode, LastWill, Packet, Puback, PubackReasonCode, Publish, RetainHandling,
    SubscribeReasonCode, SubscriptionOptions,
};
use mqtt_proto::{Pid, QoS, QosPid, TopicFilter, TopicName};
use tokio::sync::Notify;

use crate::acl::Rights;
use crate::message::{Message, of_will};
use crate::notices::{Notices, say};
use crate::outbox::{Outbox, Waiting};
use crate::retained::Retained;
use crate::wire;

/// What waits for one subscriber [bytes]; and for all of them together, in equal shares.
const MAX_OUTBOX_BYTES: usize = 8 << 20;
const MAX_OUTBOXES_BYTES: usize = 256 << 20;

/// Filters that one client may subscribe to, and all clients together.
const MAX_FILTERS: usize = 100;
const MAX_FILTERS_IN_ALL: usize = 10_000;

/// Messages at QoS 1 that a subscriber may owe the acknowledgement of.
const MAX_IN_FLIGHT: u16 = 100;

/// Answers that a client may leave unread before no more is read from it [bytes].
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// About how much is written at a time [bytes].
const BATCH_BYTES: usize = 64 * 1024;

/// A connection, by the order in which they came.
pub type Id = u64;

/// The hub, for the tasks of all connections; they share one thread.
pub type Shared = Rc<RefCell<Hub>>;

/// How a connection's tasks wake each other.
#[derive(Debug, Default)]
pub struct Bells {
    /// There is something to write.
    pub write: Notify,
    /// Answers were written.
    pub written: Notify,
    /// The connection is to end.
    pub end: Notify,
}

/// Who connects.
#[derive(Debug)]
pub struct Joining {
    /// As whom.
    pub user: Option<Rc<str>>,
    /// Name of the connection.
    pub client: Rc<str>,
    /// What it may do.
    pub rights: Rights,
    /// What is published if it vanishes.
    pub will: Option<LastWill>,
    /// Messages at QoS 1 that it takes before it acknowledges the first.
    pub receive_max: u16,
    /// Longest packet that it takes [bytes].
    pub max_packet_bytes: usize,
}

#[derive(Debug)]
struct Session {
    who: Joining,
    bells: Rc<Bells>,
    answers: BytesMut,
    outbox: Outbox,
    drops_told: u64,
    in_flight: HashSet<u16>,
    last_pid: Pid,
    filters: HashSet<TopicFilter>,
    end: Option<DisconnectReasonCode>,
}

#[derive(Debug)]
struct Subscriber {
    id: Id,
    options: SubscriptionOptions,
}

/// What happened since the start.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    received: u64,
    sent: u64,
    dropped: u64,
    refused: u64,
}

/// What connections share.
#[derive(Debug, Default)]
pub struct Hub {
    sessions: HashMap<Id, Session>,
    /// By user and name: nobody ends the connection of another user by taking its name.
    names: HashMap<(Option<Rc<str>>, Rc<str>), Id>,
    last_id: Id,
    filters: HashMap<TopicFilter, Vec<Subscriber>>,
    filter_count: usize,
    retained: Retained,
    counters: Counters,
    /// What is told of it.
    pub notices: Notices,
}

impl Hub {
    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Adds a connection; one of the same user and name ends.
    pub fn join(&mut self, who: Joining) -> (Id, Rc<Bells>) {
        let name = (who.user.clone(), Rc::clone(&who.client));
        if let Some(&before) = self.names.get(&name) {
            if let Some(session) = self.sessions.get_mut(&before) {
                session.end = Some(DisconnectReasonCode::SessionTakenOver);
                session.bells.end.notify_one();
            }
            self.leave_names(before);
            self.publish_will(before);
        }
        self.last_id += 1;
        let (id, bells) = (self.last_id, Rc::new(Bells::default()));
        self.names.insert(name, id);
        let session = Session {
            who,
            bells: Rc::clone(&bells),
            answers: BytesMut::new(),
            outbox: Outbox::default(),
            drops_told: 0,
            in_flight: HashSet::new(),
            last_pid: Pid::default(),
            filters: HashSet::new(),
            end: None,
        };
        self.sessions.insert(id, session);
        (id, bells)
    }

    /// Removes a connection; who said good-bye leaves no will.
    pub fn leave(&mut self, id: Id, said_goodbye: bool) {
        if !said_goodbye {
            self.publish_will(id);
        }
        self.leave_names(id);
        if let Some(session) = self.sessions.remove(&id) {
            self.counters.dropped += session.outbox.dropped;
            for filter in &session.filters {
                self.remove_subscriber(id, filter);
            }
        }
    }

    fn leave_names(&mut self, id: Id) {
        if let Some(session) = self.sessions.get(&id) {
            let name = (session.who.user.clone(), Rc::clone(&session.who.client));
            if self.names.get(&name) == Some(&id) {
                self.names.remove(&name);
            }
        }
    }

    fn publish_will(&mut self, id: Id) {
        if let Some(will) = self.sessions.get_mut(&id).and_then(|session| session.who.will.take()) {
            self.publish(id, of_will(will));
        }
    }

    /// Why the hub wants a connection to end.
    pub fn end(&self, id: Id) -> Option<DisconnectReasonCode> {
        self.sessions.get(&id).and_then(|session| session.end)
    }

    // In

    /// Delivers what a connection publishes, or says why not.
    pub fn publish(&mut self, from: Id, publish: Publish) -> PubackReasonCode {
        self.counters.received += 1;
        let Some(session) = self.sessions.get(&from) else { return PubackReasonCode::UnspecifiedError };
        // Topics of `$` are the broker's own.
        if publish.topic_name.starts_with('$') || !session.who.rights.may_write(&publish.topic_name) {
            self.refuse(from, "publish to", &publish.topic_name.clone());
            return PubackReasonCode::NotAuthorized;
        }
        let retain = publish.retain;
        let now = Instant::now();
        let Some(message) = Message::new(publish, now) else { return PubackReasonCode::QuotaExceeded };
        if retain && !self.retained.keep(&message, now) {
            self.tell(from, "no room", "wants more retained than there is room for");
            return PubackReasonCode::QuotaExceeded;
        }
        self.deliver(Some(from), &message, retain);
        PubackReasonCode::Success
    }

    fn deliver(&mut self, from: Option<Id>, message: &Rc<Message>, retain: bool) {
        let mut receivers: HashMap<Id, (bool, bool)> = HashMap::new();
        for (filter, subscribers) in &self.filters {
            if !crate::topic::matches(filter, message.topic()) {
                continue;
            }
            for subscriber in subscribers {
                if subscriber.options.no_local && from == Some(subscriber.id) {
                    continue;
                }
                let one = receivers.entry(subscriber.id).or_default();
                one.0 |= message.at_least_once && subscriber.options.max_qos != QoS::Level0;
                one.1 |= retain && subscriber.options.retain_as_published;
            }
        }
        for (id, (at_least_once, retain)) in receivers {
            self.enqueue(id, Waiting { message: Rc::clone(message), at_least_once, retain });
        }
    }

    fn enqueue(&mut self, id: Id, waiting: Waiting) {
        let limit_bytes = MAX_OUTBOX_BYTES.min(MAX_OUTBOXES_BYTES / self.sessions.len().max(1));
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.who.rights.may_read(waiting.message.topic()) {
            session.outbox.push(waiting, limit_bytes);
            session.bells.write.notify_one();
        }
    }

    /// Subscribes a connection to a filter, or says why not.
    pub fn subscribe(
        &mut self,
        id: Id,
        filter: &TopicFilter,
        options: SubscriptionOptions,
    ) -> SubscribeReasonCode {
        let Some(session) = self.sessions.get_mut(&id) else { return SubscribeReasonCode::UnspecifiedError };
        if filter.is_shared() {
            return SubscribeReasonCode::SharedSubscriptionNotSupported;
        }
        if !session.who.rights.may_subscribe(filter) {
            self.refuse(id, "subscribe to", filter);
            return SubscribeReasonCode::NotAuthorized;
        }
        let is_new = !session.filters.contains(filter);
        if is_new && (session.filters.len() >= MAX_FILTERS || self.filter_count >= MAX_FILTERS_IN_ALL) {
            self.tell(id, "no room", "has too many subscriptions");
            return SubscribeReasonCode::QuotaExceeded;
        }
        if is_new {
            session.filters.insert(filter.clone());
            self.filter_count += 1;
        } else {
            self.filters.entry(filter.clone()).or_default().retain(|subscriber| subscriber.id != id);
        }
        self.filters.entry(filter.clone()).or_default().push(Subscriber { id, options });
        let sends_retained = match options.retain_handling {
            RetainHandling::SendAtSubscribe => true,
            RetainHandling::SendAtSubscribeIfNotExist => is_new,
            RetainHandling::DoNotSend => false,
        };
        let at_least_once = options.max_qos != QoS::Level0;
        if sends_retained {
            let kept: Vec<Rc<Message>> = self.retained.of(filter, Instant::now()).cloned().collect();
            for message in kept {
                let at_least_once = at_least_once && message.at_least_once;
                self.enqueue(id, Waiting { message, at_least_once, retain: true });
            }
        }
        if at_least_once { SubscribeReasonCode::GrantedQoS1 } else { SubscribeReasonCode::GrantedQoS0 }
    }

    /// Ends a subscription; false if there was none.
    pub fn unsubscribe(&mut self, id: Id, filter: &TopicFilter) -> bool {
        let had = self.sessions.get_mut(&id).is_some_and(|session| session.filters.remove(filter));
        if had {
            self.remove_subscriber(id, filter);
        }
        had
    }

    fn remove_subscriber(&mut self, id: Id, filter: &TopicFilter) {
        if let Some(subscribers) = self.filters.get_mut(filter) {
            subscribers.retain(|subscriber| subscriber.id != id);
            if subscribers.is_empty() {
                self.filters.remove(filter);
            }
            self.filter_count -= 1;
        }
    }

    /// Takes an acknowledgement.
    pub fn acknowledged(&mut self, id: Id, puback: &Puback) {
        if let Some(session) = self.sessions.get_mut(&id)
            && session.in_flight.remove(&puback.pid.value())
        {
            session.bells.write.notify_one();
        }
    }

    // Out

    /// Answers a packet.
    pub fn answer(&mut self, id: Id, packet: &Packet) {
        if let Some(session) = self.sessions.get_mut(&id) {
            wire::put(&mut session.answers, packet, session.who.max_packet_bytes);
            session.bells.write.notify_one();
        }
    }

    /// Whether a client leaves too many answers unread.
    pub fn is_behind(&self, id: Id) -> bool {
        self.sessions.get(&id).is_some_and(|session| session.answers.len() > MAX_ANSWER_BYTES)
    }

    /// Moves what may be sent now into a buffer: answers first, then messages.
    pub fn next_batch(&mut self, id: Id, out: &mut BytesMut) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if !session.answers.is_empty() {
            out.extend_from_slice(&session.answers);
            session.answers.clear();
            session.bells.written.notify_one();
        }
        let now = Instant::now();
        let window = usize::from(session.who.receive_max.min(MAX_IN_FLIGHT));
        while out.len() < BATCH_BYTES {
            let Some(waiting) = session.outbox.pop(session.in_flight.len() < window) else { break };
            if waiting.message.is_expired(now) {
                continue;
            }
            let pid = waiting.at_least_once.then(|| session.free_pid());
            let packet = waiting.message.outgoing(pid, waiting.retain, now).into();
            if wire::put(out, &packet, session.who.max_packet_bytes) {
                self.counters.sent += 1;
            } else {
                session.outbox.dropped += 1;
                if let Some(pid) = pid {
                    session.in_flight.remove(&pid.value());
                }
            }
        }
    }

    // What is told

    /// Tells what of late found no room, and publishes the counters; to be called now and then.
    pub fn tick(&mut self) {
        let now = Instant::now();
        self.retained.sweep(now);
        let mut dropped = self.counters.dropped;
        for session in self.sessions.values_mut() {
            dropped += session.outbox.dropped;
            let late = session.outbox.dropped - session.drops_told;
            if late > 0 {
                session.drops_told = session.outbox.dropped;
                say(&format!("dropped: {late} messages to {}, which reads too slowly", session.who));
            }
        }
        self.notices.tick();
        for (name, count) in [
            ("clients/connected", self.sessions.len() as u64),
            ("publish/messages/received", self.counters.received),
            ("publish/messages/sent", self.counters.sent),
            ("publish/messages/dropped", dropped),
            ("publish/messages/refused", self.counters.refused),
        ] {
            let Ok(topic) = TopicName::try_from(format!("$SYS/broker/{name}").as_str()) else { continue };
            let publish = Publish::new(QosPid::Level0, topic, count.to_string().into());
            if let Some(message) = Message::new(publish, now) {
                self.retained.keep(&message, now);
                self.deliver(None, &message, true);
            }
        }
    }

    fn refuse(&mut self, id: Id, what: &str, topic: &str) {
        self.counters.refused += 1;
        self.tell(id, "refused", &format!("may not {what} {topic:?}"));
    }

    /// Tells something of a client; those of one user share its lines.
    pub fn tell(&mut self, id: Id, matter: &'static str, what: &str) {
        if let Some(Session { who, .. }) = self.sessions.get(&id) {
            let subject = who.user.as_ref().unwrap_or(&who.client);
            self.notices.tell(matter, subject, || format!("{who} {what}"));
        }
    }
}

impl Session {
    fn free_pid(&mut self) -> Pid {
        loop {
            self.last_pid += 1;
            if self.in_flight.insert(self.last_pid.value()) {
                return self.last_pid;
            }
        }
    }
}

impl std::fmt::Display for Joining {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.user {
            Some(user) => write!(f, "user {user:?} (client {:?})", self.client),
            None => write!(f, "client {:?}", self.client),
        }
    }
}

#[cfg(test)]
mod tests;
