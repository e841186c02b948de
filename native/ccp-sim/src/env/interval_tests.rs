use super::*;

fn interval() -> Interval {
    Interval {
        length_us: 20e3,
        thr_bytes_per_s: 5e6,
        thr_max_bytes_per_s: 6e6,
        loss_bytes_per_s: 1e5,
        rtt_us: 40e3,
        rtt_min_us: 30e3,
        srtt_us: 37.5e3,
        cwnd_bytes: 360e3,
        mss_bytes: 1448.0,
    }
}

const BEST: Best = Best { thr_bytes_per_s: 10e6, rtt_us: 20e3 };

fn reward(yardstick: Yardstick, rtt_tolerance: f64) -> Reward {
    Reward { yardstick, loss_weight: 5.0, rtt_tolerance, lower_bound: -10.0 }
}

#[test]
fn the_observation_is_that_of_its_definition() {
    // bdp = 6e6 * 0.03 = 180,000 bytes = 124.3 segments; the window is twice that.
    let expected = [0.833_333, 0.435_584, 0.75, 0.412_849, 0.019_607_8, 0.25, 0.8];
    for (found, expected) in interval().observation().into_iter().zip(expected) {
        assert!((f64::from(found) - expected).abs() < 1e-5, "{found} {expected}");
    }
}

#[test]
fn what_is_not_known_has_its_value() {
    let nothing = Interval { mss_bytes: 1448.0, cwnd_bytes: 14_480.0, ..Interval::default() };
    assert_eq!(nothing.observation(), [0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0]);
}

#[test]
fn the_reward_of_the_slides_holds_the_interval_against_the_best_so_far() {
    // (5e6 - 5 * 1e5) / 6e6 / (40 / 30) = 0.75 * 0.75
    assert!((reward(Yardstick::Flow, 1.0).of(&interval(), BEST) - 0.5625).abs() < 1e-9);
}

#[test]
fn the_reward_may_be_held_against_the_path() {
    // 4.5e6 / 10e6 / (40 / 20)
    assert!((reward(Yardstick::Path, 1.0).of(&interval(), BEST) - 0.225).abs() < 1e-9);
    // The RTT is 2 of the path's, 1.25 are free.
    assert!((reward(Yardstick::Path, 1.25).of(&interval(), BEST) - 0.45 / 1.6).abs() < 1e-9);
}

#[test]
fn a_short_rtt_is_no_gain_and_a_missing_one_is_the_smoothed_one() {
    let close = Interval { rtt_us: 21e3, ..interval() };
    assert!((reward(Yardstick::Path, 1.25).of(&close, BEST) - 0.45).abs() < 1e-9);
    let unknown = Interval { rtt_us: 0.0, ..interval() };
    assert!((reward(Yardstick::Flow, 1.0).of(&unknown, BEST) - 0.75 * 0.8).abs() < 1e-9);
}

#[test]
fn a_reward_is_not_below_its_bound() {
    let lost = Interval { thr_bytes_per_s: 0.0, loss_bytes_per_s: 600e6, ..interval() };
    assert_eq!(reward(Yardstick::Flow, 1.0).of(&lost, BEST), -10.0);
}
