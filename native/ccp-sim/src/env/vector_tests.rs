use super::*;

const SETTINGS: &str = r#"{
    "domain": {
        "rate_bytes_per_s": [5e5, 2e6], "rtt_us": [1e4, 6e4], "buffer_bdp": [0.5, 2.0],
        "loss_ratio": [1e-3, 1e-2], "lossy_share": 0.3, "cross_flows_max": 2, "crossed_share": 0.5,
        "traced_share": 0.3, "traces_ms": [[1, 2, 3, 10, 12]], "steered_share": 0.3,
        "mtp_us": [1e4, 5e4], "episode_us": 2000000,
        "cross_bbr_share": 0.5, "peers_max": 3, "peered_share": 0.5, "late_share": 0.3, "late_us": [1e5, 1e6],
        "aqm_share": 0.3, "aqm_target_us": [2e3, 2e4], "policed_share": 0.2, "policed_ratio": [0.4, 0.9],
        "policer_us": [1e4, 2e5], "adaptive_share": 0.5,
        "hyvar": {"alpha_rtts": 0.2, "delta_ratio": 0.01, "mtp_min_ms": 10, "mtp_max_ms": 200,
            "mtp_min_rtts": 1, "case4_alone": true, "thr_window_rtts": 10}
    },
    "heuristic": "cubic"
}"#;

fn vector(n: usize) -> Vector {
    Vector::new(SETTINGS.as_bytes(), n).unwrap()
}

fn played(steps: usize) -> Vec<Step> {
    let mut vector = vector(6);
    vector.set_peers(br#"[{"weight": [[0, 0, 0, 0, 0, -1, 0]], "bias": [0]}]"#).unwrap();
    let mut rows: Vec<_> =
        (0..6).map(|world| vector.reset(world, Some(40 + world as u64)).unwrap()).collect();
    for step in 0..steps {
        let actions: Vec<_> = (0..6).map(|world| ((step * 7 + world * 3) % 11) as f32 / 10.0 - 0.5).collect();
        rows.extend(vector.step(&actions).unwrap());
    }
    rows
}

#[test]
fn the_same_seeds_and_actions_give_the_same_steps() {
    assert_eq!(played(150), played(150));
}

#[test]
fn every_step_is_of_sound_numbers() {
    for step in played(400) {
        assert!(step.observation.iter().all(|value| (-1.0..=1.0).contains(value)), "{step:?}");
        assert!(step.over == 1 || step.case > 0 || step.interval_us >= step.mtp_us, "{step:?}");
        // Timestamps, which tell the RTT of what was sent again, tick in milliseconds.
        assert!(step.rtt_us == 0.0 || step.rtt_us >= step.path_rtt_us - 1e3, "{step:?}");
        assert!(step.cwnd_bytes >= step.mss_bytes, "{step:?}");
    }
}

#[test]
fn actions_that_are_not_one_a_world_and_worlds_that_are_not_there_are_refused() {
    let mut vector = vector(2);
    assert_eq!(vector.step(&[0.0]).unwrap_err().slug, "learning.bad_domain");
    assert_eq!(vector.reset(2, None).unwrap_err().slug, "learning.bad_domain");
    assert_eq!(Vector::new(b"{}", 1).err().unwrap().slug, "learning.bad_domain");
}

#[test]
fn a_world_stands_still_where_the_action_is_no_number() {
    let mut vector = vector(1);
    let first = vector.reset(0, Some(1)).unwrap();
    assert_eq!(vector.step(&[f32::NAN]).unwrap(), [Step::default()]);
    assert_eq!(vector.step(&[0.0]).unwrap()[0].now_us - vector_step_length(1), first.now_us);
}

fn vector_step_length(seed: u64) -> f64 {
    let mut vector = vector(1);
    vector.reset(0, Some(seed)).unwrap();
    vector.step(&[0.0]).unwrap()[0].interval_us
}
