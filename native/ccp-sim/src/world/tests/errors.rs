//! Invalid requests are rejected, and change nothing.

use super::*;

#[test]
fn plans_that_cannot_be_are_refused() {
    let on_off = |on_us| App::OnOff { phases_us: vec![(on_us, 5)], rate_bytes_per_s: None };
    let rate = |rate| App::Bulk { total_bytes: None, rate_bytes_per_s: Some(rate), parallel: 1 };
    let http = |size| App::Http {
        objects: vec![size],
        gaps_us: Vec::new(),
        repeat: 1,
        connections: 1,
        persistent: true,
    };
    let good = || plan("cubic", bulk(None));
    let mut world = world(bottleneck());
    for (bad, place) in [
        (plan("cubic", bulk(Some(0))), "app"),
        (plan("cubic", rate(0.0)), "app"),
        (plan("cubic", rate(f64::NAN)), "app"),
        (plan("cubic", App::Bulk { total_bytes: None, rate_bytes_per_s: None, parallel: 0 }), "app"),
        (plan("cubic", http(0)), "app"),
        (plan("cubic", on_off(0)), "app"),
        (plan("cubic", App::OnOff { phases_us: Vec::new(), rate_bytes_per_s: None }), "app"),
        (plan("rtp/none", App::Rtp { frames_per_s: 0.0, frame: vec![1], report_us: 1 }), "app"),
        (plan("rtp/none", App::Rtp { frames_per_s: 1.0, frame: vec![1, 0], report_us: 1 }), "app"),
        (plan("cubic", App::OnOff { phases_us: vec![(1, 1)], rate_bytes_per_s: Some(-1.0) }), "app"),
        (Plan { start_us: 5, stop_us: Some(5), ..good() }, "stop_us"),
        (Plan { sport: Some(0), ..good() }, "sport, dport"),
        (Plan { receiver: "a".to_owned(), ..good() }, "receiver"),
    ] {
        let error = world.add(bad).unwrap_err();
        assert_eq!((error.slug, error.place.as_str()), ("sim.bad_plan", place));
    }
    let error = Plan::from_json(br#"{"sender": "a"}"#).unwrap_err();
    assert_eq!(error.slug, "sim.bad_plan");
    assert!(error.why.contains("missing field"), "{error}");
    assert_eq!(world.outcomes().count(), 0);
}

#[test]
fn a_plan_is_read_with_what_is_usual() {
    let read = Plan::from_json(
        br#"{"sender": "a", "receiver": "b", "congestion": "cubic", "app": {"kind": "bulk"}}"#,
    );
    assert_eq!(read.unwrap(), Plan { name: String::new(), ..plan("cubic", bulk(None)) });
}

#[test]
fn hosts_and_congestion_controls_that_are_not_there_are_named() {
    let mut spec = spec(bottleneck(), delayed(10_000));
    spec.nodes[1].addresses.pop();
    let mut world = world_of(spec);
    let error = world.add(Plan { receiver: "c".to_owned(), ..plan("cubic", bulk(None)) }).unwrap_err();
    assert_eq!((error.slug, error.place.as_str()), ("sim.no_host", "receiver"));
    assert!(error.why.contains("a, b"));
    // It has no address of that family.
    let error = world.add(Plan { family: Family::Ipv6, ..plan("cubic", bulk(None)) }).unwrap_err();
    assert_eq!((error.slug, error.place.as_str()), ("sim.no_host", "receiver"));
    let error = world.add(plan("vegas", bulk(None))).unwrap_err();
    assert_eq!(error.slug, "sim.no_congestion_control");
}

#[test]
fn names_come_and_go() {
    let mut world = world(bottleneck());
    assert_eq!(world.registered().collect::<Vec<_>>(), ["ccp"]);
    world.register("ccp.one", false).unwrap();
    world.add(plan("ccp.one", bulk(None))).unwrap();
    world.unregister("ccp.one").unwrap();
    assert_eq!(world.unregister("ccp.one").unwrap_err().slug, "register.unknown");
    assert_eq!(world.add(plan("ccp.one", bulk(None))).unwrap_err().slug, "sim.no_congestion_control");
    // It keeps its index.
    world.register("ccp.one", true).unwrap();
    assert_eq!(world.names().collect::<Vec<_>>(), ["ccp", "ccp.one"]);
    for bad in ["", "sixteen.bytes.is", "cubic"] {
        assert_eq!(world.register(bad, false).unwrap_err().slug, "register.bad_name");
    }
    for number in 2..64 {
        world.register(&format!("ccp.{number}"), false).unwrap();
    }
    assert_eq!(world.register("ccp.more", false).unwrap_err().slug, "register.full");
}
