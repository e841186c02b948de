use super::*;
use crate::env::interval::Yardstick;

const REWARD: Reward =
    Reward { yardstick: Yardstick::Path, loss_weight: 5.0, rtt_tolerance: 1.0, lower_bound: -10.0 };

/// 20 Mbit/s, 40 ms: 100 kB = 69 segments of 1,448 bytes; a buffer of one of that.
fn path(steered: bool, mtp_us: u64) -> Path {
    Path {
        capacity: Capacity::Rate(2.5e6),
        rate_bytes_per_s: 2.5e6,
        rtt_us: 40_000,
        buffer_bytes: 100_000,
        loss_ratio: 0.0,
        cross: Vec::new(),
        steered,
        mtp_us,
        seed: 1,
    }
}

fn episode(steered: bool, mtp_us: u64) -> (Episode, Step) {
    Episode::new(path(steered, mtp_us), Heuristic::Cubic, 10_000_000).unwrap()
}

#[test]
fn a_window_of_the_paths_product_fills_it_without_a_queue() {
    let (mut episode, first) = episode(true, 40_000);
    assert_eq!(first.cwnd_bytes, 14_480.0);
    // log2(66 / 10): 2.5e6 bytes/s * 40 ms are 66.7 packets of 1,500 bytes.
    for action in [1.0, 1.0, (66.0_f32 / 40.0).log2()] {
        episode.step(action, &REWARD);
        episode.step(0.0, &REWARD);
    }
    let steps: Vec<_> = (0..50).map(|_| episode.step(0.0, &REWARD)).collect();
    // 65 of 66.7, and delayed ACKs make the round trip longer.
    let share = steps[5..].iter().map(|s| s.thr_bytes_per_s / s.path_bytes_per_s).sum::<f64>() / 45.0;
    assert!((0.92..=0.98).contains(&share), "{share}");
    assert!(steps[5..].iter().all(|step| step.rtt_us < 42_500.0 && step.reward > 0.85));
}

#[test]
fn actions_of_less_than_a_segment_add_up() {
    let (mut episode, _) = episode(true, 40_000);
    // 10 segments times 2^(0.05 * 20) are 20.
    let last = (0..20).map(|_| episode.step(0.05, &REWARD)).last().unwrap();
    assert!((19.0..=20.0).contains(&(last.cwnd_bytes / last.mss_bytes)), "{last:?}");
}

#[test]
fn a_window_that_is_lowered_stays_there_under_cubic() {
    let (mut episode, _) = episode(false, 40_000);
    let before = (0..100).map(|_| episode.step(0.0, &REWARD)).last().unwrap();
    let lowered = episode.step(-1.0, &REWARD);
    assert!(lowered.cwnd_bytes < 0.55 * before.cwnd_bytes, "{before:?} {lowered:?}");
    // It neither runs back to W_max nor begins another slow start: C t^3 after 1 s is less than a segment.
    let later = (0..25).map(|_| episode.step(0.0, &REWARD)).last().unwrap();
    assert!(later.cwnd_bytes < 1.5 * lowered.cwnd_bytes, "{lowered:?} {later:?}");
}

#[test]
fn an_interval_without_an_ack_is_longer() {
    // 10 segments a round trip of 40 ms, all at once: in most intervals of 1 ms nothing is heard.
    let (mut episode, _) = episode(true, 1_000);
    let steps: Vec<_> = (0..50).map(|_| episode.step(0.0, &REWARD)).collect();
    assert!(steps.iter().all(|step| step.thr_bytes_per_s > 0.0 && step.rtt_us > 0.0));
    assert!(steps.iter().any(|step| step.interval_us > 20_000.0));
}

#[test]
fn a_window_has_limits() {
    let (mut episode, _) = episode(true, 40_000);
    for _ in 0..30 {
        episode.step(1.0, &REWARD);
    }
    let most = episode.step(1.0, &REWARD);
    assert!(most.cwnd_bytes <= 4.0 * 200_000.0 + 2.0 * 1448.0, "{most:?}");
    for _ in 0..40 {
        episode.step(-1.0, &REWARD);
    }
    let least = episode.step(-1.0, &REWARD);
    assert_eq!(least.cwnd_bytes, 2.0 * 1448.0);
}

#[test]
fn losses_and_other_connections_are_seen() {
    let lossy = Path { loss_ratio: 0.02, ..path(true, 40_000) };
    let (mut episode, _) = Episode::new(lossy, Heuristic::Cubic, 10_000_000).unwrap();
    let lost: f64 = (0..200).map(|_| episode.step(0.0, &REWARD).loss_bytes_per_s).sum();
    assert!(lost > 0.0);

    let cross = vec![Cross { start_us: 0, phases_us: Vec::new() }];
    let (mut episode, _) =
        Episode::new(Path { cross, ..path(false, 40_000) }, Heuristic::Cubic, 20_000_000).unwrap();
    let steps: Vec<_> = (0..400).map(|_| episode.step(0.0, &REWARD)).collect();
    let share = steps[200..].iter().map(|s| s.thr_bytes_per_s / s.path_bytes_per_s).sum::<f64>() / 200.0;
    assert!((0.2..0.8).contains(&share), "{share}");
}
