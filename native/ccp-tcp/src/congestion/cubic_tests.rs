//! Numbers by hand: RFC 9438, with Linux' integers.

use proptest::prelude::*;

use super::super::test_sock::{acked, busy};
use super::*;
use crate::INFINITE_SSTHRESH;

/// Congestion avoidance after a loss at a window, with a minimum RTT of 100 ms.
fn after_loss(cwnd: u32) -> (Cubic, Sock) {
    let (mut cubic, mut sock) = (Cubic::default(), busy(cwnd));
    cubic.init(&mut sock);
    sock.snd_ssthresh = cwnd;
    cubic.pkts_acked(&mut sock, 1, 100_000);
    sock.snd_ssthresh = cubic.ssthresh(&mut sock);
    sock.snd_cwnd = sock.snd_ssthresh;
    (cubic, sock)
}

#[test]
fn a_loss_leaves_seven_tenths() {
    // RFC 9438, section 4.6: 1000 * 717 / 1024 = 700.19
    let (cubic, sock) = after_loss(1000);
    assert_eq!(sock.snd_ssthresh, 700);
    assert_eq!(cubic.curve.last_max_cwnd, 1000);
}

#[test]
fn a_second_loss_below_the_maximum_aims_lower() {
    // RFC 9438, section 4.7: W_max = cwnd (1 + beta) / 2 = 700 * 1741 / 2048 = 595.06
    let (mut cubic, mut sock) = after_loss(1000);
    assert_eq!(cubic.ssthresh(&mut sock), 490);
    assert_eq!(cubic.curve.last_max_cwnd, 595);
}

#[test]
fn no_threshold_is_below_two_segments() {
    let (_, sock) = after_loss(2);
    assert_eq!(sock.snd_ssthresh, 2);
}

#[test]
fn k_is_the_cube_root_of_the_deficit_over_c() {
    // RFC 9438, figure 2: cbrt(300 / 0.4) = 9.0856 s = 9303.7 units of 2^-10 s; C is 410/1024 = 0.40039 here: 9300.6
    let (mut cubic, mut sock) = after_loss(1000);
    acked(&mut cubic, &mut sock, 0, 1, -1);
    assert_eq!(cubic.curve.k, 9300);
    assert_eq!(cubic.curve.origin_pkts, 1000);
}

#[test]
fn the_curve_is_back_at_the_maximum_after_k() {
    let (mut cubic, mut sock) = after_loss(1000);
    // 2.4 s at an RTT of 100 ms suffice for 40 segments: W(2.4) = 1000 - 0.4 (9.08 - 2.4)^3 = 880.8
    let window_at = |cubic: &mut Cubic, sock: &mut Sock, end_us: u64| {
        while sock.mstamp_us < end_us {
            let pkts = sock.snd_cwnd / 10;
            acked(cubic, sock, 10_000, pkts, -1);
        }
        f64::from(sock.snd_cwnd)
    };
    let start_us = sock.mstamp_us;
    // The curve's target is one round trip ahead.
    let curve = |t_s: f64| 1000.0 + 0.40039 * (t_s - 9.083).powi(3);
    for t_s in [2.4, 5.0, 9.0, 12.0] {
        let window = window_at(&mut cubic, &mut sock, start_us + (t_s * 1e6) as u64);
        assert!((window - curve(t_s)).abs() < 0.01 * window, "{t_s}: {window}, {}", curve(t_s));
    }
}

#[test]
fn a_small_window_grows_as_reno_would() {
    // RFC 9438, section 4.3: alpha = 3 (1 - 0.7) / (1 + 0.7) = 0.53 segments per round trip. At 10 segments
    // and 10 ms the curve needs 1 s for 1.2 segments: 0.53 * 100 = 53.
    let (mut cubic, mut sock) = after_loss(14);
    assert_eq!(sock.snd_cwnd, 9);
    for _ in 0..100 {
        let pkts = sock.snd_cwnd;
        acked(&mut cubic, &mut sock, 10_000, pkts, -1);
    }
    assert!((55..=65).contains(&sock.snd_cwnd), "{}", sock.snd_cwnd);
}

#[test]
fn before_any_loss_a_round_trip_brings_a_twentieth() {
    let (mut cubic, mut sock) = (Cubic::default(), busy(200));
    cubic.init(&mut sock);
    sock.snd_ssthresh = 200;
    acked(&mut cubic, &mut sock, 10_000, 200, -1);
    assert_eq!(sock.snd_cwnd, 210);
}

#[test]
fn slow_start_doubles_and_ends_at_the_threshold() {
    let (mut cubic, mut sock) = (Cubic::default(), busy(10));
    cubic.init(&mut sock);
    acked(&mut cubic, &mut sock, 100, 10, -1);
    assert_eq!(sock.snd_cwnd, 20);
    sock.snd_ssthresh = 25;
    acked(&mut cubic, &mut sock, 100, 5, -1);
    assert_eq!(sock.snd_cwnd, 25);
}

#[test]
fn an_unused_window_does_not_grow() {
    let (mut cubic, mut sock) = (Cubic::default(), busy(10));
    cubic.init(&mut sock);
    sock.is_cwnd_limited = false;
    sock.max_packets_out = 4;
    acked(&mut cubic, &mut sock, 100, 4, -1);
    assert_eq!(sock.snd_cwnd, 10);
}

#[test]
fn hystart_finds_a_queue_by_the_delay() {
    // 40 ms / 8 = 5 ms, between 4 and 16: the ninth sample of a round above 45 ms ends slow start.
    let (mut cubic, mut sock) = (Cubic::default(), busy(100));
    cubic.init(&mut sock);
    acked(&mut cubic, &mut sock, 40_000, 1, 40_000);
    sock.snd_una = cubic.hystart.end_seq + 1;
    for _ in 0..8 {
        acked(&mut cubic, &mut sock, 5000, 1, 45_001);
        assert_eq!(sock.snd_ssthresh, INFINITE_SSTHRESH);
    }
    acked(&mut cubic, &mut sock, 5000, 1, 45_001);
    assert_eq!(sock.snd_ssthresh, 109);
}

#[test]
fn hystart_finds_a_full_pipe_by_a_train_of_acks() {
    // ACKs 1 ms apart, for half of the minimum RTT of 40 ms plus the time of bursts (1 ms at most).
    let (mut cubic, mut sock) = (Cubic::default(), busy(100));
    cubic.init(&mut sock);
    sock.pacing_rate_bytes_per_s = 1_000_000;
    let start_us = sock.mstamp_us;
    while sock.snd_ssthresh == INFINITE_SSTHRESH {
        sock.snd_una = 0; // the round goes on
        acked(&mut cubic, &mut sock, 1000, 1, 40_000);
        sock.snd_una = 0;
    }
    assert_eq!(sock.mstamp_us - start_us, 21_000);
}

#[test]
fn a_timeout_forgets_the_maximum() {
    let (mut cubic, mut sock) = after_loss(1000);
    cubic.set_state(&mut sock, CaState::Loss);
    assert_eq!(cubic.curve.last_max_cwnd, 0);
    assert_eq!(cubic.curve.delay_min_us, 0);
}

#[test]
fn a_pause_does_not_move_along_the_curve() {
    let (mut cubic, mut sock) = after_loss(1000);
    acked(&mut cubic, &mut sock, 0, 1, -1);
    let epoch_start = cubic.curve.epoch_start.unwrap();
    sock.last_sent_us = sock.mstamp_us;
    sock.mstamp_us += 2_000_000;
    cubic.tx_start(&mut sock);
    assert_eq!(cubic.curve.epoch_start, Some(epoch_start + 2 * HZ));
}

#[test]
fn a_window_from_outside_is_a_new_start() {
    let (mut cubic, mut sock) = after_loss(1000);
    acked(&mut cubic, &mut sock, 0, 1, -1);
    (sock.snd_cwnd, sock.snd_ssthresh) = (300, 300);
    cubic.restart(300, false);
    acked(&mut cubic, &mut sock, 10_000, 300, -1);
    assert_eq!((cubic.curve.origin_pkts, cubic.curve.k), (300, 0));
    assert_eq!(sock.snd_cwnd, 300, "the curve is flat there, as a loss has shown where");
    assert_eq!(cubic.curve.delay_min_us, 100_000);
}

#[test]
fn before_any_loss_only_a_lowered_window_is_where_the_curve_is_flat() {
    for (lowered, window) in [(false, 210), (true, 200)] {
        let (mut cubic, mut sock) = (Cubic::default(), busy(200));
        cubic.init(&mut sock);
        sock.snd_ssthresh = 200;
        cubic.restart(200, lowered);
        acked(&mut cubic, &mut sock, 10_000, 200, -1);
        assert_eq!(sock.snd_cwnd, window);
    }
}

proptest! {
    #[test]
    fn a_cube_root_is_the_floor(deficit in 0..100_000_000u32) {
        let root = u128::from(cube_root(deficit));
        let cubed = u128::from((1u64 << 40) / C * u64::from(deficit));
        prop_assert!(root.pow(3) <= cubed && (root + 1).pow(3) > cubed);
    }

    #[test]
    fn windows_stay_within_their_bounds(events in prop::collection::vec((0..4u8, 0..200_000u64, 1..50u32), 1..200)) {
        let (mut cubic, mut sock) = (Cubic::default(), busy(10));
        cubic.init(&mut sock);
        sock.snd_cwnd_clamp = 5000;
        for (kind, after_us, pkts) in events {
            let before = sock.snd_cwnd;
            match kind {
                0 => {
                    sock.snd_ssthresh = cubic.ssthresh(&mut sock);
                    prop_assert!(sock.snd_ssthresh >= 2 && sock.snd_ssthresh <= before.max(2));
                    sock.snd_cwnd = sock.snd_ssthresh;
                }
                1 if pkts == 1 => {
                    cubic.set_state(&mut sock, CaState::Loss);
                    sock.snd_cwnd = 1;
                }
                _ => {
                    acked(&mut cubic, &mut sock, after_us, pkts, i64::from(pkts) * 1000);
                    prop_assert!(sock.snd_cwnd >= before && sock.snd_cwnd <= 5000);
                    prop_assert!(sock.snd_cwnd - before <= pkts + 1);
                }
            }
        }
    }
}
