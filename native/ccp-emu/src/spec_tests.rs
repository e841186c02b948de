//! Descriptions as written by Python, and errors in others.

use serde_json::{Value, json};

use super::*;

fn network() -> Value {
    json!({
        "seed": 1,
        "mtu_bytes": 1500,
        "nodes": [
            {"name": "a", "addresses": ["10.1.0.1", "fd00::1"], "tun": 0},
            {"name": "b", "addresses": ["10.1.0.2", "fd00::2"], "tun": 1},
        ],
        "links": [
            {"name": "l>", "from": 0, "to": 1, "direction": {"rate_bytes_per_s": 1e6, "buffer": {"packets": 9}}},
            {"name": "l<", "from": 1, "to": 0, "direction": {}},
        ],
        "routes": [[-1, 0], [1, -1]],
        "sample_interval_us": 100_000,
        "samples_path": null,
        "pcap": null,
    })
}

fn read(value: &Value) -> Result<Spec> {
    Spec::from_json(value.to_string().as_bytes())
}

fn direction(value: Value) -> Result<Direction> {
    let mut network = network();
    network["links"][0]["direction"] = value;
    read(&network).map(|mut spec| spec.links.swap_remove(0).direction)
}

#[test]
fn a_network_is_read() {
    let spec = read(&network()).unwrap();
    assert_eq!(spec.links[0].direction.buffer, Some(Buffer::Packets(9)));
    assert_eq!(spec.links[1].direction, Direction::default());
    assert_eq!(spec.nodes[1].addresses[1], "fd00::2".parse::<IpAddr>().unwrap());
}

#[test]
fn fields_that_are_left_out_have_the_defaults_of_python() {
    let read = direction(json!({
        "queue": {"kind": "red", "min_bytes": 10, "max_bytes": 20},
        "loss": {"kind": "gilbert_elliott", "good_to_bad": 0.1, "bad_to_good": 0.2},
        "token_bucket": {"rate_bytes_per_s": 5.0, "bucket_bytes": 7},
        "tunnel": {"overhead_bytes": 80},
    }))
    .unwrap();
    assert_eq!(read.tunnel, Some(Tunnel { overhead_bytes: 80, mtu_bytes: None, reports: true, ecn: true }));
    assert_eq!(
        read.queue,
        Queue::Red { min_bytes: 10, max_bytes: 20, max_ratio: 0.1, weight: 0.002, ecn: true }
    );
    assert_eq!(
        read.loss,
        Some(Loss::GilbertElliott { good_to_bad: 0.1, bad_to_good: 0.2, loss_bad: 1.0, loss_good: 0.0 })
    );
    assert!(read.token_bucket.is_some_and(|bucket| !bucket.shaper && bucket.refill_us == 0));
    let codel = direction(json!({"queue": {"kind": "codel"}})).unwrap().queue;
    assert_eq!(codel, Queue::CoDel { target_us: 5_000, interval_us: 100_000, ecn: true });
    for (kind, expected) in [
        ("pie", Queue::Pie(Pie::default())),
        ("fq_codel", Queue::FqCoDel(FqCoDel::default())),
        ("dualpi2", Queue::DualPi2(DualPi2::default())),
    ] {
        assert_eq!(direction(json!({"queue": {"kind": kind}})).unwrap().queue, expected);
    }
    let drop_tail = direction(json!({"queue": {"kind": "drop_tail", "ce_threshold_us": 5}})).unwrap().queue;
    assert_eq!(drop_tail, Queue::DropTail { ce_threshold_us: Some(5), ce_threshold_bytes: None });
}

#[test]
fn directions_that_cannot_be_are_refused() {
    for wrong in [
        json!({"rate": 5}),
        json!({"rate_bytes_per_s": 0.0}),
        json!({"rate_bytes_per_s": 5.0, "trace_ms": [1]}),
        json!({"trace_ms": []}),
        json!({"trace_ms": [0, 0]}),
        json!({"trace_ms": [2, 1]}),
        json!({"delay_us": -1}),
        json!({"buffer": {"packets": 0}}),
        json!({"buffer": {"bytes": 0}}),
        json!({"buffer": {"bdp": 1.0}}),
        json!({"queue": {"kind": "fifo"}}),
        json!({"queue": {"kind": "red", "min_bytes": 20, "max_bytes": 20}}),
        json!({"queue": {"kind": "red", "min_bytes": 10, "max_bytes": 20, "weight": 1.5}}),
        json!({"queue": {"kind": "pie", "interval_us": 5}}),
        json!({"queue": {"kind": "pie", "update_us": 0}}),
        json!({"queue": {"kind": "pie", "mark_max_ratio": 1.1}}),
        json!({"queue": {"kind": "fq_codel", "quantum_bytes": 0}}),
        json!({"queue": {"kind": "fq_codel", "flows": 0}}),
        json!({"queue": {"kind": "fq_codel", "flows": 65_537}}),
        json!({"queue": {"kind": "dualpi2", "target_us": 0}}),
        json!({"queue": {"kind": "dualpi2", "rtt_max_us": 2}}),
        json!({"queue": {"kind": "dualpi2", "coupling": 0.0}}),
        json!({"queue": {"kind": "dualpi2", "classic_share": 1.5}}),
        json!({"loss": {"kind": "bernoulli", "ratio": 1.1}}),
        json!({"loss": {"kind": "bernoulli", "ratio": 0.1, "burst": 2}}),
        json!({"loss": {"kind": "gilbert_elliott", "good_to_bad": 0.1, "bad_to_good": -0.2}}),
        json!({"loss": {"kind": "pattern", "drop": [2, 1]}}),
        json!({"loss": {"kind": "pattern", "drop": [1, 5], "repeat_every_pkts": 5}}),
        json!({"token_bucket": {"rate_bytes_per_s": -1.0, "bucket_bytes": 7}}),
        json!({"token_bucket": {"rate_bytes_per_s": 1.0, "bucket_bytes": 0}}),
        json!({"duplicate_ratio": 1.5}),
        json!({"corrupt_ratio": -0.5}),
    ] {
        let error = direction(wrong.clone()).expect_err(&wrong.to_string());
        assert_eq!(error.slug, "emulator.bad_spec", "{wrong}");
    }
}

#[test]
fn networks_that_cannot_be_are_refused_and_the_place_is_said() {
    let wrong = |change: &dyn Fn(&mut Value)| {
        let mut network = network();
        change(&mut network);
        read(&network).unwrap_err()
    };
    assert!(wrong(&|n| n["colour"] = json!("red")).why.contains("unknown field `colour`"));
    assert_eq!(wrong(&|n| n["links"][1]["to"] = json!(2)).place, "links[1] (l<)");
    assert_eq!(wrong(&|n| n["links"][1]["name"] = json!("l>")).place, "links[1] (l>)");
    assert_eq!(wrong(&|n| n["routes"] = json!([[-1, 0]])).place, "routes");
    assert_eq!(wrong(&|n| n["routes"][0][1] = json!(1)).place, "routes[0][1]");
    assert_eq!(wrong(&|n| n["routes"][0][1] = json!(7)).place, "routes[0][1]");
    assert_eq!(wrong(&|n| n["sample_interval_us"] = json!(0)).place, "sample_interval_us");
    assert_eq!(wrong(&|n| n["pcap"] = json!({"m>": "/tmp/x"})).place, "pcap");
    assert!(wrong(&|n| n["nodes"][0]["addresses"][0] = json!("10.1")).why.contains("IP address"));
}
