use super::*;
use crate::env::reasoner::{Hyvar, SHIPPED};

/// 20 Mbit/s, 40 ms: 100 kB = 69 segments of 1,448 bytes; a buffer of one of that.
fn path(steered: bool, mtp_us: u64) -> Path {
    Path {
        capacity: Capacity::Rate(2.5e6),
        rate_bytes_per_s: 2.5e6,
        rtt_us: 40_000,
        buffer_bytes: 100_000,
        loss_ratio: 0.0,
        queue: ccp_emu::spec::Queue::default(),
        policer: None,
        cross: Vec::new(),
        peers_us: Vec::new(),
        start_us: 0,
        mode: if steered { Mode::Steered } else { Mode::Hybrid },
        mtp_us,
        seed: 1,
    }
}

fn episode(steered: bool, mtp_us: u64) -> (Episode, Step) {
    begun(path(steered, mtp_us))
}

fn begun(path: Path) -> (Episode, Step) {
    Episode::new(path, Heuristic::Cubic, SHIPPED, None, 10_000_000).unwrap()
}

#[test]
fn a_window_of_the_paths_product_fills_it_without_a_queue() {
    let (mut episode, first) = episode(true, 40_000);
    assert_eq!(first.cwnd_bytes, 14_480.0);
    // log2(66 / 10): 2.5e6 bytes/s * 40 ms are 66.7 packets of 1,500 bytes.
    for action in [1.0, 1.0, (66.0_f32 / 40.0).log2()] {
        episode.step(action, None);
        episode.step(0.0, None);
    }
    let steps: Vec<_> = (0..50).map(|_| episode.step(0.0, None)).collect();
    // 65 of 66.7, and delayed ACKs make the round trip longer.
    let share = steps[5..].iter().map(|s| s.thr_bytes_per_s / s.path_bytes_per_s).sum::<f64>() / 45.0;
    assert!((0.92..=0.98).contains(&share), "{share}");
    assert!(steps[5..].iter().all(|step| step.rtt_us < 42_500.0));
}

#[test]
fn actions_of_less_than_a_segment_add_up() {
    let (mut episode, _) = episode(true, 40_000);
    // 10 segments times 2^(0.05 * 20) are 20.
    let last = (0..20).map(|_| episode.step(0.05, None)).last().unwrap();
    assert!((19.0..=20.0).contains(&(last.cwnd_bytes / last.mss_bytes)), "{last:?}");
}

#[test]
fn a_window_that_is_lowered_stays_there_under_cubic() {
    let (mut episode, _) = episode(false, 40_000);
    let before = (0..100).map(|_| episode.step(0.0, None)).last().unwrap();
    let lowered = episode.step(-1.0, None);
    assert!(lowered.cwnd_bytes < 0.55 * before.cwnd_bytes, "{before:?} {lowered:?}");
    // It neither runs back to W_max nor begins another slow start: C t^3 after 1 s is less than a segment.
    let later = (0..25).map(|_| episode.step(0.0, None)).last().unwrap();
    assert!(later.cwnd_bytes < 1.5 * lowered.cwnd_bytes, "{lowered:?} {later:?}");
}

#[test]
fn an_interval_without_an_ack_is_longer() {
    // 10 segments a round trip of 40 ms, all at once: in most intervals of 1 ms nothing is heard.
    let (mut episode, _) = episode(true, 1_000);
    let steps: Vec<_> = (0..50).map(|_| episode.step(0.0, None)).collect();
    assert!(steps.iter().all(|step| step.thr_bytes_per_s > 0.0 && step.rtt_us > 0.0));
    assert!(steps.iter().any(|step| step.interval_us > 20_000.0));
}

#[test]
fn a_window_has_limits() {
    let (mut episode, _) = episode(true, 40_000);
    for _ in 0..30 {
        episode.step(1.0, None);
    }
    let most = episode.step(1.0, None);
    assert!(most.cwnd_bytes <= 4.0 * 200_000.0 + 2.0 * 1448.0, "{most:?}");
    for _ in 0..40 {
        episode.step(-1.0, None);
    }
    let least = episode.step(-1.0, None);
    assert_eq!(least.cwnd_bytes, 2.0 * 1448.0);
}

#[test]
fn losses_and_other_connections_are_seen() {
    let lossy = Path { loss_ratio: 0.02, ..path(true, 40_000) };
    let (mut episode, _) = begun(lossy);
    let lost: f64 = (0..200).map(|_| episode.step(0.0, None).loss_bytes_per_s).sum();
    assert!(lost > 0.0);

    let cross = vec![Cross { start_us: 0, phases_us: Vec::new(), bbr: false }];
    let (mut episode, _) =
        Episode::new(Path { cross, ..path(false, 40_000) }, Heuristic::Cubic, SHIPPED, None, 20_000_000)
            .unwrap();
    let steps: Vec<_> = (0..400).map(|_| episode.step(0.0, None)).collect();
    let share = steps[200..].iter().map(|s| s.thr_bytes_per_s / s.path_bytes_per_s).sum::<f64>() / 200.0;
    assert!((0.2..0.8).contains(&share), "{share}");
}

/// A policy that holds the window at about the BDP of its own best throughput.
fn net() -> Net {
    // The window against the BDP is the sixth number, log2 / 4.
    Net::from_json(br#"[{"weight": [[0, 0, 0, 0, 0, -1, 0]], "bias": [0]}]"#).unwrap()
}

#[test]
fn a_learner_that_is_late_finds_peers_that_act() {
    let late = Path { peers_us: vec![0, 500_000], start_us: 4_000_000, ..path(true, 40_000) };
    let net = net();
    let (_, first) = Episode::new(late, Heuristic::Cubic, SHIPPED, Some(&net), 10_000_000).unwrap();
    assert!(first.now_us > 4e6, "{first:?}");
    assert_eq!((first.path_peers, first.path_flows), (2, 3));
    assert_eq!(first.fair_bytes_per_s, first.path_bytes_per_s / 3.0);
    // Two windows of 10 segments would leave no queue: 69 fit without one.
    assert!(first.rtt_us < 60e3, "{first:?}");
}

#[test]
fn peers_without_a_policy_are_left_alone_and_one_changes_what_the_learner_meets() {
    let beside = Path { peers_us: vec![0], ..path(false, 40_000) };
    let played = |net: Option<&Net>| {
        let (mut episode, _) =
            Episode::new(beside.clone(), Heuristic::Cubic, SHIPPED, net, 10_000_000).unwrap();
        (0..200).map(|_| episode.step(0.0, net).rtt_us).collect::<Vec<_>>()
    };
    let policy = net();
    assert_eq!(played(None), played(None));
    assert_eq!(played(Some(&policy)), played(Some(&policy)));
    assert_ne!(played(None), played(Some(&policy)));
}

#[test]
fn cubic_leaves_the_window_to_the_policy_where_the_reasoner_says_so() {
    let (path, hyvar) =
        (Path { mode: Mode::Adaptive, ..path(false, 40_000) }, Hyvar { case4_alone: true, ..SHIPPED });
    let (mut episode, _) = Episode::new(path, Heuristic::Cubic, hyvar, None, 10_000_000).unwrap();
    let mut before = episode.step(0.0, None);
    let mut alone = 0;
    for _ in 0..200 {
        let step = episode.step(0.0, None);
        assert!((1..=4).contains(&step.case), "{step:?}");
        assert!(step.mtp_us >= 40e3, "not below a round trip: {step:?}");
        // Nobody acts, so that the window neither grows nor is reduced in an interval that is the policy's.
        if before.alone == 1 && step.loss_bytes_per_s == 0.0 {
            assert_eq!(step.cwnd_bytes, before.cwnd_bytes, "{before:?} {step:?}");
            alone += 1;
        }
        before = step;
    }
    assert!(alone > 10, "{alone}: a queue of CUBIC's is a long one");
}

#[test]
fn a_policer_and_a_managed_queue_bound_what_cubic_gets_and_queues() {
    let limit = ccp_emu::spec::TokenBucket { rate_bytes_per_s: 1.25e6, bucket_bytes: 20_000, shaper: false };
    let (mut episode, _) = begun(Path { policer: Some(limit), ..path(false, 40_000) });
    let steps: Vec<_> = (0..100).map(|_| episode.step(0.0, None)).collect();
    let mean = steps[50..].iter().map(|step| step.thr_bytes_per_s).sum::<f64>() / 50.0;
    assert!(mean < 1.25e6 && steps[99].path_bytes_per_s < 1.25e6, "{mean}");

    let queue = ccp_emu::spec::Queue::CoDel { target_us: 5_000, interval_us: 100_000, ecn: true };
    let waits = |path: Path| {
        let (mut episode, _) = begun(path);
        (0..200).map(|_| episode.step(0.0, None).rtt_us).skip(50).sum::<f64>() / 150.0 - 40e3
    };
    assert!(waits(Path { queue, ..path(false, 40_000) }) < 0.6 * waits(path(false, 40_000)));
}
