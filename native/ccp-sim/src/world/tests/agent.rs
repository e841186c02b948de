//! Flows controlled by an agent.

use ccp_lang::Source;
use ccp_record::{Record, Update};

use super::super::Stop;
use super::*;

const PROGRAM: &str = "
(def (cap 0) (Report (volatile acked 0) (cap 0)))
(when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.cap cap)
    (fallthrough))
(when (> Micros 50000)
    (:= Micros 0)
    (report))
";

fn program() -> ccp_lang::Program {
    ccp_lang::compile(&Source { text: PROGRAM, name: "p", origin: "here", first_line: 1 }).unwrap()
}

#[test]
fn time_stands_still_when_a_flow_has_reported_something() {
    let mut world = world(bottleneck());
    world.register("ccp.mine", false).unwrap();
    world.add(plan("ccp.mine", bulk(None))).unwrap();
    assert_eq!(world.run_until(START + 10 * S), Stop::Agent);
    // Both ways, and 60 bytes of a SYN at 1.25 MB/s.
    assert_eq!(world.now_ns(), START + 20 * MS + 48 * US);
    let records = world.shared().take_records();
    let Some(Record::Create(create)) = records.get(0) else { panic!("{records:?}") };
    let flow_id = create.record.flow_id;
    let info = create.info;
    assert_eq!(
        (records.len(), info.family, info.netns_inum, info.mss, info.created_us),
        (1, 2, 1, 1448, 1_020_048)
    );
    assert_eq!(world.names().nth(info.cc_id as usize), Some("ccp.mine"));
    assert_eq!(world.agent_flows().count(), 1);

    let handle = world.shared().install(program()).unwrap();
    let update = Update { cwnd_bytes: Some(20 * 1448), program: Some(handle), ..Update::default() };
    world.agent_flow_mut(flow_id).unwrap().update(&update);
    // An id is unique.
    assert!(world.agent_flow_mut(flow_id + (1 << 32)).is_none());
    assert_eq!(world.run_until(START + 10 * S), Stop::Agent);
    let records = world.shared().take_records();
    let Some(Record::Report { head, raw }) = records.get(0) else { panic!("{records:?}") };
    assert_eq!((head.flow_id, head.cwnd_bytes, u32::from(head.program)), (flow_id, 20 * 1448, handle));
    assert_eq!(raw[raw.len() - 8..], 0u64.to_ne_bytes());
    let update = Update { controls: &[(0, 7)], ..Update::default() };
    world.agent_flow_mut(flow_id).unwrap().update(&update);
    assert_eq!(world.run_until(START + 10 * S), Stop::Agent);
    let records = world.shared().take_records();
    let Some(Record::Report { raw, .. }) = records.get(0) else { panic!("{records:?}") };
    assert_eq!(raw[raw.len() - 8..], 7u64.to_ne_bytes());
    // Records already waiting do not stop time.
    assert_eq!(world.run_until(START + S), Stop::Agent);
    assert_eq!(world.run_until(START + 2 * S), Stop::Time);
    let rate = f64::from(20 * 1448) / 0.020;
    let stats = world.agent_flow(flow_id).unwrap().snapshot().stats;
    assert!(stats.bytes_acked as f64 > 0.8 * rate.min(1.25e6) * 1.5, "{stats:?}");
}

#[test]
fn a_flow_that_ends_says_so() {
    let mut world = world(bottleneck());
    world.add(Plan { stop_us: Some(2_000_000), ..plan("ccp", bulk(None)) }).unwrap();
    while world.run_until(START + 5 * S) != Stop::Time {}
    let records = world.shared().take_records();
    let Some(Record::Close(close)) = records.get(records.len() - 1) else { panic!("{records:?}") };
    // The time of its last segment.
    assert!((1_950_000..=2_000_000).contains(&close.record.now_us));
    assert_eq!(world.agent_flows().count(), 0);
    assert!(close.stats.bytes_acked > 900_000);
}

#[test]
fn what_a_name_needs_its_connections_have() {
    let mut world = world(bottleneck());
    world.register("ccp.ecn", true).unwrap();
    world.add(plan("ccp.ecn", bulk(None))).unwrap();
    world.run_until(START + S);
    assert!(world.sender(0, 0).unwrap().sock.ecn_ok);
}

#[test]
fn a_window_from_outside_holds_at_once() {
    let mut world = world(delayed(50_000));
    world.add(plan("steered", bulk(None))).unwrap();
    world.run_until(START + 250 * MS);
    let sent = world.counters().sent_pkts;
    world.sender_mut(0, 0).unwrap().sock.snd_cwnd = 30;
    world.kick(0, 0);
    assert!(world.counters().sent_pkts > sent);
    assert_eq!(world.sender(0, 0).unwrap().sock.packets_in_flight(), 30);
}
