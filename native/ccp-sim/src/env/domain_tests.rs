use super::*;

fn domain() -> Domain {
    Domain {
        rate_bytes_per_s: [750e3, 24e6],
        rtt_us: [10e3, 200e3],
        buffer_bdp: [0.2, 4.0],
        loss_ratio: [1e-4, 0.02],
        lossy_share: 0.2,
        cross_flows_max: 2,
        crossed_share: 0.25,
        traced_share: 0.2,
        traces_ms: vec![vec![1, 1, 4, 10], vec![5, 20]],
        steered_share: 0.4,
        mtp_us: [10e3, 200e3],
        episode_us: 10_000_000,
        aqm_share: 0.0,
        aqm_target_us: [2e3, 2e4],
        policed_share: 0.0,
        policed_ratio: [0.4, 0.9],
        policer_us: [1e4, 2e5],
    }
}

fn paths(seed: u64) -> Vec<Path> {
    paths_of(&domain(), seed)
}

fn paths_of(domain: &Domain, seed: u64) -> Vec<Path> {
    let mut stream = Stream::new(seed, "path", "episodes");
    (0..4000).map(|_| domain.draw(&mut stream)).collect()
}

fn share(paths: &[Path], of: impl Fn(&Path) -> bool) -> f64 {
    paths.iter().filter(|path| of(path)).count() as f64 / paths.len() as f64
}

#[test]
fn paths_are_within_their_ranges_and_everything_happens_as_often_as_asked_for() {
    let paths = paths(3);
    for path in &paths {
        assert!((10_000..=200_000).contains(&path.rtt_us), "{path:?}");
        assert!((10_000..=200_000).contains(&path.mtp_us), "{path:?}");
        assert!(path.loss_ratio == 0.0 || (1e-4..=0.02).contains(&path.loss_ratio), "{path:?}");
        assert!(path.buffer_bytes >= 8 * 1500, "{path:?}");
        let bdp = path.rate_bytes_per_s * path.rtt_us as f64 / 1e6;
        assert!(path.buffer_bytes as f64 <= (4.1 * bdp).max(BUFFER_MIN_BYTES), "{path:?}");
    }
    // Four standard deviations of a share of 0.2 of 4000 are 0.025.
    assert!((share(&paths, |p| p.loss_ratio > 0.0) - 0.2).abs() < 0.03);
    assert!((share(&paths, |p| !p.cross.is_empty()) - 0.25).abs() < 0.03);
    assert!((share(&paths, |p| p.cross.len() == 2) - 0.125).abs() < 0.03);
    assert!((share(&paths, |p| matches!(p.capacity, Capacity::Trace(_))) - 0.2).abs() < 0.03);
    assert!((share(&paths, |p| p.steered) - 0.4).abs() < 0.035);
    // Logarithmic: half of the rates are below the geometric mean.
    let steady: Vec<_> = paths.into_iter().filter(|p| matches!(p.capacity, Capacity::Rate(_))).collect();
    assert!((share(&steady, |p| p.rate_bytes_per_s < 4.243e6) - 0.5).abs() < 0.04);
}

#[test]
fn a_trace_begins_anywhere_and_keeps_its_gaps() {
    let ends: Vec<_> = paths(5)
        .into_iter()
        .filter_map(|p| match p.capacity {
            Capacity::Trace(times_ms) => Some(times_ms),
            Capacity::Rate(_) => None,
        })
        .collect();
    let expected: [&[u64]; 6] =
        [&[1, 1, 4, 10], &[0, 3, 9, 10], &[3, 9, 10, 10], &[6, 7, 7, 10], &[5, 20], &[15, 20]];
    assert!(ends.iter().all(|times_ms| expected.contains(&times_ms.as_slice())));
    assert!(expected.iter().all(|times_ms| ends.iter().any(|found| found == times_ms)));
}

#[test]
fn the_mean_rate_of_a_trace_is_that_of_its_opportunities() {
    let trace = Capacity::Trace(vec![1, 1, 4, 10]);
    let path = Path { capacity: trace, rate_bytes_per_s: 6e5, ..paths(1)[0].clone() };
    assert_eq!(path.mean_bytes_per_s(0, 10_000), 4.0 * 1500.0 / 0.01);
    assert_eq!(path.mean_bytes_per_s(3_000, 9_000), 1500.0 / 0.006);
    // From the second round's third to the third one's second: 10, 11, 11.
    assert_eq!(path.mean_bytes_per_s(15_000, 21_000), 3.0 * 1500.0 / 0.006);
    let steady = Path { capacity: Capacity::Rate(6e5), ..path };
    assert_eq!(steady.mean_bytes_per_s(3_000, 9_000), 6e5);
}

#[test]
fn pauses_of_other_connections_last_until_the_episode_is_over() {
    for cross in paths(7).iter().flat_map(|path| &path.cross).filter(|cross| !cross.phases_us.is_empty()) {
        let length_us: u64 = cross.phases_us.iter().map(|(on_us, off_us)| on_us + off_us).sum();
        assert!(cross.start_us + length_us >= 10_000_000);
    }
}

fn managed() -> Domain {
    Domain { aqm_share: 0.3, policed_share: 0.3, ..domain() }
}

#[test]
fn queues_are_managed_and_rates_policed() {
    let paths = paths_of(&managed(), 17);
    let codel =
        |p: &Path| matches!(p.queue, Queue::CoDel { target_us, .. } if (2_000..=20_000).contains(&target_us));
    let red =
        |p: &Path| matches!(p.queue, Queue::Red { min_bytes, max_bytes, .. } if max_bytes == 3 * min_bytes);
    assert!((share(&paths, codel) - 0.15).abs() < 0.025);
    assert!((share(&paths, red) - 0.15).abs() < 0.025);
    let policed: Vec<_> = paths.into_iter().filter(|p| p.policer.is_some()).collect();
    assert!((policed.len() as f64 / 4000.0 - 0.3).abs() < 0.03);
    for path in policed {
        let part = path.limit_bytes_per_s() / path.rate_bytes_per_s;
        assert!((0.4..=0.9).contains(&part), "{path:?}");
        assert!(path.mean_bytes_per_s(0, 1_000_000) <= path.limit_bytes_per_s(), "{path:?}");
    }
}

#[test]
fn what_a_property_is_drawn_from_leaves_the_others_alone() {
    for (plain, more) in paths(19).into_iter().zip(paths_of(&managed(), 19)) {
        let found = (more.capacity, more.rtt_us, more.buffer_bytes, more.loss_ratio, more.mtp_us);
        assert_eq!(found, (plain.capacity, plain.rtt_us, plain.buffer_bytes, plain.loss_ratio, plain.mtp_us));
        assert_eq!((more.steered, more.cross), (plain.steered, plain.cross));
    }
}

#[test]
fn traces_that_cannot_be_are_refused() {
    // Other invalid values come from Python: `tests/unit/learning/test_learning_worlds.py`.
    for traces_ms in [vec![], vec![vec![3, 1]], vec![vec![0]]] {
        let domain = Domain { traces_ms, ..domain() };
        assert_eq!(domain.check().unwrap_err().slug, "learning.bad_domain");
    }
    domain().check().unwrap();
}
