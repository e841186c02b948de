use bytes::Bytes;
use mqtt_proto::v5::SubscriptionOptions;

use super::*;
use crate::acl::Acl;

const ACL: &str = "user anna\ntopic read a/#\ntopic deny a/secret\nuser ben\ntopic #";

fn joining(user: &str, client: &str) -> Joining {
    Joining {
        user: Some(user.into()),
        client: client.into(),
        rights: Acl::parse(ACL).unwrap().rights(Some(user), client),
        will: None,
        receive_max: u16::MAX,
        max_packet_bytes: usize::MAX,
    }
}

fn message(topic: &str, at_least_once: bool, retain: bool) -> Publish {
    let qos = if at_least_once { QosPid::Level1(Pid::default()) } else { QosPid::Level0 };
    let mut publish =
        Publish::new(qos, TopicName::try_from(topic).unwrap(), Bytes::copy_from_slice(topic.as_bytes()));
    publish.retain = retain;
    publish
}

fn options(max_qos: QoS) -> SubscriptionOptions {
    SubscriptionOptions { retain_as_published: false, ..SubscriptionOptions::new(max_qos) }
}

fn subscribe(hub: &mut Hub, id: Id, filter: &str) -> SubscribeReasonCode {
    hub.subscribe(id, &TopicFilter::try_from(filter).unwrap(), options(QoS::Level1))
}

/// All that is on the way to a client now.
fn sent(hub: &mut Hub, id: Id) -> Vec<Publish> {
    let mut out = BytesMut::new();
    hub.next_batch(id, &mut out);
    let mut packets = Vec::new();
    while !out.is_empty() {
        let Ok(Some(packet)) = Packet::decode(&out) else { panic!("no packet") };
        let length = packet.encode_len().unwrap();
        let _ = out.split_to(length);
        if let Packet::Publish(publish) = packet {
            packets.push(publish);
        }
    }
    packets
}

fn topics(hub: &mut Hub, id: Id) -> Vec<String> {
    sent(hub, id).iter().map(|publish| publish.topic_name.to_string()).collect()
}

#[test]
fn a_name_is_taken_over_by_its_user_only() {
    let mut hub = Hub::default();
    let mut first = joining("ben", "one");
    first.will = Some(LastWill::new(QoS::Level0, TopicName::try_from("gone").unwrap(), Bytes::from("x")));
    let (first, _) = hub.join(first);
    let (watching, _) = hub.join(joining("ben", "two"));
    subscribe(&mut hub, watching, "#");
    hub.join(joining("anna", "one"));
    assert_eq!(hub.end(first), None);
    let (again, _) = hub.join(joining("ben", "one"));
    assert_eq!(hub.end(first), Some(DisconnectReasonCode::SessionTakenOver));
    assert_eq!(topics(&mut hub, watching), ["gone"]);
    hub.leave(first, false);
    assert_eq!(topics(&mut hub, watching), [""; 0]);
    assert_eq!((hub.end(again), hub.len()), (None, 3));
}

#[test]
fn rights_hold_when_a_message_is_delivered() {
    let mut hub = Hub::default();
    let ((anna, _), (ben, _)) = (hub.join(joining("anna", "a")), hub.join(joining("ben", "b")));
    assert_eq!(subscribe(&mut hub, anna, "b/#"), SubscribeReasonCode::NotAuthorized);
    assert_eq!(subscribe(&mut hub, anna, "#"), SubscribeReasonCode::GrantedQoS1);
    for topic in ["a/open", "a/secret", "b"] {
        assert_eq!(hub.publish(ben, message(topic, true, true)), PubackReasonCode::Success);
    }
    assert_eq!(topics(&mut hub, anna), ["a/open"]);
    assert_eq!(hub.publish(anna, message("a/open", true, false)), PubackReasonCode::NotAuthorized);
    assert_eq!(hub.publish(ben, message("$SYS/broker/x", true, false)), PubackReasonCode::NotAuthorized);
    assert_eq!(hub.counters.refused, 3);
    subscribe(&mut hub, anna, "+/+");
    assert_eq!(topics(&mut hub, anna), ["a/open"]); // what was retained
}

#[test]
fn overlapping_subscriptions_bring_one_message_at_the_best_quality() {
    let mut hub = Hub::default();
    let (ben, _) = hub.join(joining("ben", "b"));
    for (filter, qos) in [("a/#", QoS::Level0), ("a/+", QoS::Level1), ("#", QoS::Level0)] {
        hub.subscribe(ben, &TopicFilter::try_from(filter).unwrap(), options(qos));
    }
    hub.publish(ben, message("a/b", true, true));
    hub.publish(ben, message("a/b", false, false));
    let came = sent(&mut hub, ben);
    let qualities: Vec<bool> = came.iter().map(|publish| publish.qos_pid != QosPid::Level0).collect();
    assert_eq!(qualities, [true, false]);
    assert!(came.iter().all(|publish| !publish.retain));
}

#[test]
fn options_of_a_subscription_are_kept() {
    let mut hub = Hub::default();
    let (ben, _) = hub.join(joining("ben", "b"));
    let filter = TopicFilter::try_from("#").unwrap();
    hub.publish(ben, message("a", false, true));
    let own = SubscriptionOptions { no_local: true, ..options(QoS::Level1) };
    hub.subscribe(ben, &filter, SubscriptionOptions { retain_handling: RetainHandling::DoNotSend, ..own });
    assert_eq!(topics(&mut hub, ben), [""; 0]);
    let if_new = RetainHandling::SendAtSubscribeIfNotExist;
    hub.subscribe(ben, &filter, SubscriptionOptions { retain_handling: if_new, ..own });
    hub.publish(ben, message("b", false, false));
    assert_eq!(topics(&mut hub, ben), [""; 0]);
    hub.subscribe(ben, &filter, SubscriptionOptions { retain_as_published: true, ..options(QoS::Level1) });
    hub.publish(ben, message("c", false, true));
    let came: Vec<(String, bool)> =
        sent(&mut hub, ben).iter().map(|publish| (publish.topic_name.to_string(), publish.retain)).collect();
    assert_eq!(came, [("a".to_owned(), true), ("c".to_owned(), true)]);
    assert!(hub.unsubscribe(ben, &filter) && !hub.unsubscribe(ben, &filter));
    hub.publish(ben, message("d", false, false));
    assert_eq!(topics(&mut hub, ben), [""; 0]);
    assert_eq!((hub.filter_count, hub.filters.len()), (0, 0));
}

#[test]
fn no_more_is_on_the_way_than_a_client_takes() {
    let mut hub = Hub::default();
    let (ben, _) = hub.join(Joining { receive_max: 2, max_packet_bytes: 60, ..joining("ben", "b") });
    subscribe(&mut hub, ben, "#");
    for topic in ["a", "b", "c", &"long".repeat(10)] {
        hub.publish(ben, message(topic, true, false));
    }
    hub.publish(ben, message("sample", false, false));
    let first = sent(&mut hub, ben);
    assert_eq!(first.iter().map(|p| &*p.topic_name).collect::<Vec<_>>(), ["a", "b", "sample"]);
    hub.acknowledged(ben, &Puback::new_success(first[0].qos_pid.pid().unwrap()));
    assert_eq!(topics(&mut hub, ben), ["c"]);
    hub.acknowledged(ben, &Puback::new_success(first[1].qos_pid.pid().unwrap()));
    assert_eq!(topics(&mut hub, ben), [""; 0]);
    assert_eq!(hub.sessions[&ben].outbox.dropped, 1); // longer than it takes
}

#[test]
fn there_is_an_end_to_subscriptions() {
    let mut hub = Hub::default();
    let (ben, _) = hub.join(joining("ben", "b"));
    let granted =
        (0..200).filter(|n| subscribe(&mut hub, ben, &format!("t/{n}")) == SubscribeReasonCode::GrantedQoS1);
    assert_eq!(granted.count(), MAX_FILTERS);
    assert_eq!(subscribe(&mut hub, ben, "t/200"), SubscribeReasonCode::QuotaExceeded);
    assert_eq!(subscribe(&mut hub, ben, "t/1"), SubscribeReasonCode::GrantedQoS1);
    assert_eq!(subscribe(&mut hub, ben, "$share/g/t"), SubscribeReasonCode::SharedSubscriptionNotSupported);
    hub.leave(ben, true);
    assert_eq!((hub.len(), hub.filter_count, hub.filters.len(), hub.names.len()), (0, 0, 0, 0));
}
