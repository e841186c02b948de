//! R-TCP's CUBIC and BBR over a path with a token bucket.

use std::ops::{Deref, DerefMut};

use ccp_lang::{Source, compile};
use ccp_record::{Message, Record, Update};
use ccp_rtcp_core::types::{RTCP_CAP_CWND, RTCP_CAP_RATE, RTCP_CAPPED, RTCP_GONE};
use ccp_rtcp_core::{EXTENSION, Options, Row};
use ccp_tcp::Sock;

use super::limit::tests::test_message;
use super::{Attached, NAMES};
use crate::test_world::{self, add_bulk as add};
use crate::{App, Plan, World};

const S: u64 = 1_000_000_000;
/// Payload of 2 Mbit/s of IP packets.
const LIMIT_BYTES_PER_S: f64 = 250e3 * 1448.0 / 1500.0;
const BUCKET_BYTES: f64 = 400e3 * 1448.0 / 1500.0;

/// Two hosts, a forward path, and 18 ms back.
fn world_with(there: &str) -> World {
    test_world::world(there, 18_000)
}

/// 40 Mbit/s, and a bucket of 400 kB filled at 2 Mbit/s.
fn world() -> World {
    world_with(
        r#"{"rate_bytes_per_s": 5e6, "delay_us": 18000, "buffer": {"packets": 1000},
            "token_bucket": {"rate_bytes_per_s": 250e3, "bucket_bytes": 400000}}"#,
    )
}

struct Bounded {
    world: World,
    attached: Attached,
}

impl Deref for Bounded {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl DerefMut for Bounded {
    fn deref_mut(&mut self) -> &mut World {
        &mut self.world
    }
}

fn attached(options: Options, records: bool) -> Bounded {
    let mut world = world();
    let attached = Attached::attach(&mut world, options, records).unwrap();
    Bounded { world, attached }
}

fn sock_at(world: &mut World, seconds: u64) -> Sock {
    world.run_until(seconds * S);
    world.sender(0, 0).unwrap().sock.clone()
}

fn is_near(found: u64, true_value: f64, ratio: f64) -> bool {
    (found as f64 / true_value - 1.0).abs() < ratio
}

/// Retransmissions of a flow after 20 s, and the verdicts.
fn after_20_s(congestion: &str, options: Options) -> (f64, Vec<Row>) {
    let mut world = attached(options, false);
    add(&mut world, congestion);
    let sock = sock_at(&mut world, 21);
    (sock.bytes_retrans as f64 / sock.bytes_sent as f64, world.attached.take_rows())
}

#[test]
fn a_limited_flow_finds_its_bucket_and_retransmits_less() {
    for (plain, bounded) in ["cubic", "bbr"].into_iter().zip(NAMES) {
        let (before, none) = after_20_s(plain, Options::usual());
        let (after, rows) = after_20_s(bounded, Options::usual());
        assert!(none.is_empty(), "{plain} is not R-TCP's");
        let last = rows.last().unwrap_or_else(|| panic!("{bounded} finds a limit"));
        assert!(is_near(last.rate_bytes_per_s, LIMIT_BYTES_PER_S, 0.02), "{bounded} {last:?}");
        assert!(is_near(last.bucket_bytes, BUCKET_BYTES, 0.15), "{bounded} {last:?}");
        assert!(rows.iter().any(|row| row.verdict == RTCP_CAPPED), "{bounded} {rows:?}");
        assert!(rows.iter().all(|row| row.verdict != RTCP_GONE), "{bounded} {rows:?}");
        assert!(rows.windows(2).all(|two| two[0].verdict != two[1].verdict), "only what is new: {rows:?}");
        assert!(after < 0.8 * before, "{bounded} {after} {before}");
    }
}

#[test]
fn who_only_observes_sends_as_without() {
    let watching = Options { observe: 1, ..Options::usual() };
    let (before, _) = after_20_s("cubic", Options::usual());
    let (after, rows) = after_20_s("rtcp_cubic", watching);
    assert_eq!(before, after);
    assert!(!rows.is_empty());
}

#[test]
fn what_is_sent_is_within_the_limit_and_no_less() {
    for name in NAMES {
        let mut world = attached(Options::usual(), false);
        add(&mut world, name);
        let early = sock_at(&mut world, 11);
        let late = sock_at(&mut world, 31);
        let rate = (late.bytes_acked - early.bytes_acked) as f64 / 20.0;
        assert!((0.9..1.01).contains(&(rate / LIMIT_BYTES_PER_S)), "{name} {rate}");
        let lost = f64::from(late.lost - early.lost) / f64::from(late.delivered - early.delivered);
        assert!(lost < 0.03, "{name} {lost}");
    }
}

#[test]
fn a_second_flow_to_the_client_is_bounded_from_the_start() {
    let mut world = attached(Options::usual(), false);
    add(&mut world, "rtcp_cubic");
    world.run_until(16 * S);
    add(&mut world, "rtcp_bbr");
    world.run_until(26 * S);
    let late = [0, 1].map(|flow| world.sender(flow, 0).unwrap().sock.clone());
    let lost = f64::from(late[1].lost) / f64::from(late[1].delivered);
    assert!(lost < 0.05, "{lost}");
    let rates = late.map(|sock| sock.max_pacing_rate_bytes_per_s.min(sock.pacing_rate_bytes_per_s));
    assert!(rates.iter().all(|rate| (*rate as f64) < 0.75 * LIMIT_BYTES_PER_S), "{rates:?}");
}

#[test]
fn the_end_of_a_limit_is_found() {
    for name in NAMES {
        let mut world = attached(Options::usual(), false);
        add(&mut world, name);
        world.run_until(16 * S);
        let free = r#"{"rate_bytes_per_s": 5e6, "delay_us": 18000, "buffer": {"packets": 1000}}"#;
        world.set_link("l>", serde_json::from_str(free).unwrap()).unwrap();
        let early = sock_at(&mut world, 26);
        let late = sock_at(&mut world, 31);
        let rows = world.attached.take_rows();
        assert_eq!(rows.last().map(|row| row.verdict), Some(RTCP_GONE), "{name} {rows:?}");
        let rate = (late.bytes_acked - early.bytes_acked) as f64 / 5.0;
        assert!(rate > 4e6, "{name} {rate}");
        assert!(!late.is_paced || name == "rtcp_bbr", "{name}");
    }
}

#[test]
fn acks_are_recorded_where_that_is_asked_for() {
    let mut world = attached(Options::usual(), true);
    add(&mut world, "rtcp_bbr");
    world.run_until(3 * S);
    let acks = world.attached.take_acks();
    let sock = world.sender(0, 0).unwrap().sock.clone();
    assert_eq!(acks.first().map(|ack| (ack.starts, ack.delivered_pkts)), Some((1, 0)));
    assert!(acks.windows(2).all(|two| two[0].t_us <= two[1].t_us), "in order");
    assert_eq!(acks.last().map(|ack| ack.delivered_pkts), Some(sock.delivered));
    assert!(world.attached.take_acks().is_empty());
    let mut world = attached(Options::usual(), false);
    add(&mut world, "rtcp_bbr");
    world.run_until(3 * S);
    assert!(world.attached.take_acks().is_empty());
}

#[test]
fn without_r_tcp_there_are_no_such_names_and_it_is_attached_once() {
    let app = App::Bulk { total_bytes: None, rate_bytes_per_s: None, parallel: 1 };
    let mut world = world();
    let slug = |result: crate::Result<()>| result.map_err(|e| e.slug);
    for name in NAMES {
        let refused = world.add(Plan::new("a", "b", name, app.clone())).map(drop);
        assert_eq!(slug(refused), Err("sim.no_congestion_control"));
        assert_eq!(slug(world.register(name, false)), Err("register.bad_name"));
    }
    let bad = Options { n_candidates: 99, ..Options::usual() };
    assert_eq!(slug(Attached::attach(&mut world, bad, false).map(drop)), Err("rtcp.bad_options"));
    assert_eq!(slug(Attached::attach(&mut world, Options::usual(), false).map(drop)), Ok(()));
    assert_eq!(slug(Attached::attach(&mut world, Options::usual(), false).map(drop)), Err("rtcp.name_taken"));
}

/// A large window, unconditionally.
const GREEDY: &str =
    "(def (Report (limit 0))) (when true (:= Cwnd 300000) (:= Report.limit Flow.rate_allowed))";

#[test]
fn caps_keep_a_greedy_algorithm_within_a_policers_rate() {
    let figures = [0, RTCP_CAP_CWND | RTCP_CAP_RATE].map(|caps| {
        let mut world = world_with(
            r#"{"delay_us": 10000, "rate_bytes_per_s": 1.25e7, "buffer": {"packets": 1000},
                "token_bucket": {"rate_bytes_per_s": 1.25e6, "bucket_bytes": 200000}}"#,
        );
        let source = Source { text: GREEDY, name: "p", origin: "here", first_line: 1 };
        let program = world.shared().install(compile(&source).unwrap()).unwrap();
        add(&mut world, "ccp");
        world.run_until(2 * S);
        let records = world.shared().take_records();
        let Some(Record::Create(create)) = records.get(0) else { panic!("{records:?}") };
        let messages = [Message { extension: EXTENSION, raw: &test_message(caps, Options::usual()) }];
        let update = Update { program: Some(program), messages: &messages, ..Update::default() };
        world.agent_flow_mut(create.record.flow_id).unwrap().update(&update);
        let [early, late] = [6, 12].map(|seconds| {
            while world.now_ns() < seconds * S {
                world.run_until(seconds * S);
                let _ = world.shared().take_records();
            }
            world.sender(0, 0).unwrap().sock.clone()
        });
        let lost = f64::from(late.lost - early.lost) / f64::from(late.delivered - early.delivered);
        (lost, (late.bytes_acked - early.bytes_acked) as f64 / 6.0 * 1500.0 / 1448.0 / 1.25e6)
    });
    let [(lost, _), (capped_lost, utilised)] = figures;
    assert!(lost > 0.2 && capped_lost < 0.03 && utilised > 0.85, "{figures:?}");
}
