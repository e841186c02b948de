//! Congestion controls over whole paths with a bottleneck.

use super::*;
use crate::World;
use crate::test_world::{self, add_bulk as add};

const S: u64 = 1_000_000_000;
/// 10 Mbit/s.
const RATE_BYTES_PER_S: f64 = 1.25e6;

/// Two hosts with an RTT of 20 ms, and a JSON description of the forward path.
fn world(there: &str) -> World {
    test_world::world(there, 10_000)
}

fn bottleneck(packets: u32) -> World {
    world(&format!(
        r#"{{"rate_bytes_per_s": {RATE_BYTES_PER_S}, "delay_us": 10000, "buffer": {{"packets": {packets}}}}}"#
    ))
}

/// Runs, discards records, and returns the state of the sender.
fn sock_after(world: &mut World, seconds: u64) -> Sock {
    while world.now_ns() < seconds * S {
        world.run_until(seconds * S);
        let _ = world.shared().take_records();
    }
    world.sender(0, 0).unwrap().sock.clone()
}

fn utilisation(before: &Sock, after: &Sock) -> f64 {
    let bytes = (after.bytes_acked - before.bytes_acked) as f64 * 1500.0 / 1448.0;
    bytes / ((after.mstamp_us - before.mstamp_us) as f64 * 1e-6 * RATE_BYTES_PER_S)
}

/// Delivered and retransmitted by CUBIC and the fallback in 20 s with random losses.
fn cubic_and_fallback(loss_ratio: f64) -> [(f64, f64); 2] {
    ["cubic", "ccp"].map(|name| {
        // 17 packets in flight, 20 in the buffer.
        let mut world = world(&format!(
            r#"{{"rate_bytes_per_s": {RATE_BYTES_PER_S}, "delay_us": 10000, "buffer": {{"packets": 20}},
                "loss": {{"kind": "bernoulli", "ratio": {loss_ratio}}}}}"#
        ));
        add(&mut world, name);
        let sock = sock_after(&mut world, 20);
        (sock.bytes_acked as f64, f64::from(sock.total_retrans))
    })
}

#[test]
fn the_fallback_fallback_is_cubic_packet_for_packet() {
    let [cubic, fallback] = cubic_and_fallback(0.0);
    assert!(cubic.0 > 0.95 * 19.0 * RATE_BYTES_PER_S, "{cubic:?}");
    assert_eq!(cubic, fallback);
}

#[test]
fn with_losses_by_chance_the_fallback_is_close_to_cubic() {
    // If one ACK ends a recovery and begins another, the fallback does not return to the threshold in between.
    for loss_ratio in [0.01, 0.1] {
        let [cubic, fallback] = cubic_and_fallback(loss_ratio);
        assert!((fallback.0 / cubic.0 - 1.0).abs() < 0.1, "{loss_ratio} {cubic:?} {fallback:?}");
        assert!((fallback.1 / cubic.1 - 1.0).abs() < 0.1, "{loss_ratio} {cubic:?} {fallback:?}");
    }
}

#[test]
fn bbr_fills_the_link_and_not_the_buffer() {
    let mut world = bottleneck(500);
    add(&mut world, "bbr");
    let early = sock_after(&mut world, 3);
    let late = sock_after(&mut world, 9);
    assert!(utilisation(&early, &late) > 0.95);
    assert!(early.srtt_us < 35_000, "{}", early.srtt_us);
    assert!(late.srtt_us < 35_000, "{}", late.srtt_us);
    assert_eq!(late.total_retrans, early.total_retrans);
}

#[test]
fn bbr_keeps_to_a_policers_rate() {
    // 1.25 MB/s and a bucket of 50 kB: it searches for the rate every 48 rounds, and keeps to it in between.
    let mut world = world(
        r#"{"delay_us": 10000, "rate_bytes_per_s": 1.25e7, "buffer": {"packets": 1000},
            "token_bucket": {"rate_bytes_per_s": 1.25e6, "bucket_bytes": 50000}}"#,
    );
    add(&mut world, "bbr");
    let early = sock_after(&mut world, 4);
    let late = sock_after(&mut world, 10);
    assert!(utilisation(&early, &late) > 0.85);
    let lost = f64::from(late.lost - early.lost) / f64::from(late.delivered - early.delivered);
    assert!(lost < 0.1, "{lost}");
}

#[test]
fn a_steered_window_bounds_what_is_on_the_way() {
    // 10 segments in 20 ms plus the time of one: 1448 * 10 / 21.2 ms = 683 kB/s, with ACKs of two segments.
    let mut world = bottleneck(100);
    add(&mut world, "steered");
    let early = sock_after(&mut world, 2);
    assert_eq!(early.snd_cwnd, 10);
    let late = sock_after(&mut world, 6);
    let rate = (late.bytes_acked - early.bytes_acked) as f64 / 4.0;
    assert!((620e3..724e3).contains(&rate), "{rate}");
}

#[test]
fn each_name_is_that_of_its_control() {
    for name in ["reno", "cubic", "bbr", "steered"] {
        assert!(Control::plain(name).is_some_and(|control| control.agent().is_none()), "{name}");
    }
    assert!(Control::plain("ccp").is_none());
}
