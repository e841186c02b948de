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
    for (found, expected) in interval().observation(0.0).into_iter().zip(expected) {
        assert!((f64::from(found) - expected).abs() < 1e-5, "{found} {expected}");
    }
}

#[test]
fn what_is_not_known_has_its_value() {
    let nothing = Interval { mss_bytes: 1448.0, cwnd_bytes: 14_480.0, ..Interval::default() };
    assert_eq!(nothing.observation(0.0), [0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0]);
}

#[test]
fn own_packets_in_the_queue_are_not_shown() {
    // 5 packets take 5 * 1448 / 5e6 s = 1.448 ms.
    let shown = interval().observation(5.0);
    assert!((f64::from(shown[2]) - 30.0 / (40.0 - 1.448)).abs() < 1e-5);
    assert!((f64::from(shown[5]) - ((360e3 - 5.0 * 1448.0) / 180e3_f64).log2() / 4.0).abs() < 1e-5);
    // More than all of the queue is no less than none.
    assert_eq!(interval().observation(500.0)[2], 1.0);
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
