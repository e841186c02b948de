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
fn a_best_of_some_round_trips_is_forgotten() {
    let mut sock = Sock::new(1000, 10);
    sock.min_rtt_us = 10_000;
    let best = |rtts: f64, sock: &mut Sock| {
        let mut monitor = Monitor::new(sock, 0, rtts);
        [100, 10, 10, 10, 10, 10, 10, 10]
            .iter()
            .zip(1..)
            .map(|(pkts, interval)| {
                sock.delivered += pkts;
                monitor.end(sock, interval * 20_000_000).thr_max_bytes_per_s
            })
            .last()
    };
    // 100 packets of 1,000 bytes in 20 ms, then 10.
    assert_eq!(best(1e9, &mut sock.clone()), Some(5e6));
    assert_eq!(best(10.0, &mut sock), Some(5e5));
}
