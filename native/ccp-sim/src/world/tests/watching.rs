//! Recordings: rows of sockets and links, arrivals, telemetry.

use ccp_emu::spec::Loss;
use serde_json::json;

use super::super::Stop;
use super::*;

#[test]
fn rows_come_with_segments_but_not_more_often_than_was_asked_for() {
    let mut world = world(bottleneck());
    let app = App::OnOff { phases_us: vec![(200_000, 550_000), (250_000, 0)], rate_bytes_per_s: Some(5e5) };
    world.add(Plan { sport: Some(4000), dport: Some(5001), ..plan("cubic", app) }).unwrap();
    world.run_until(START + 5 * S);
    let rows = world.take_rows();
    let times: Vec<_> = rows.iter().map(|row| row.t_us / 1000 - 1000).collect();
    // It is connected after 20 ms, writes 1 ms later, and gets the ACK after 20 ms; the second pulse begins at 770 ms.
    let [first, .., last] = times[..] else { panic!("{times:?}") };
    assert_eq!((first, last), (41, 1020));
    assert!(times[..times.len() - 1].windows(2).all(|pair| pair[1] - pair[0] >= 100), "{times:?}");
    assert_eq!(times.iter().find(|ms| **ms > 300), Some(&791));
    let [.., before, last] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((last.state, before.state, last.netns, last.family), (7, 1, 1, 2));
    assert_eq!((last.sport, last.dport, last.mss_bytes), (4000, 5001, 1448));
    assert!((20_000..22_000).contains(&last.min_rtt_us));
    assert_eq!(
        (&last.saddr[10..], &last.daddr[10..]),
        (&[255, 255, 10, 0, 0, 1][..], &[255, 255, 10, 0, 0, 2][..])
    );
    // The last arrivals are not yet acknowledged when the flow ends.
    assert!((200_000..=outcome(&world).received_bytes).contains(&last.bytes_acked));
    assert_eq!(last.congestion.map(|byte| byte as u8)[..6], *b"cubic\0");
    assert_eq!(last.ssthresh_bytes, u64::MAX);
    assert!(world.take_rows().is_empty());
}

#[test]
fn links_are_sampled_into_a_file() {
    let path = std::env::temp_dir().join(format!("ccp-sim-links-{}.csv", std::process::id()));
    let mut spec = spec(bottleneck(), delayed(10_000));
    spec.samples_path = Some(path.clone());
    let mut world = world_of(spec);
    world.add(plan("cubic", bulk(None))).unwrap();
    world.run_until(START + 2550 * MS);
    world.close().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    // 25 intervals, and a last row.
    assert_eq!(text.lines().filter(|line| line.contains(",l>,")).count(), 26);
    assert!(text.lines().last().unwrap().starts_with("3550000,l<,"));
}

#[test]
fn receivers_count_what_arrives_and_how_late() {
    let loss = Some(Loss::Pattern { drop: vec![5], repeat_every_pkts: None });
    let mut world = world(Direction { loss, ..bottleneck() });
    world.add(plan("reno", bulk(Some(100_000)))).unwrap();
    world.run_until(START + 25 * MS);
    assert!(world.take_arrivals().is_empty());
    world.run_until(START + 10 * S);
    let arrived = world.take_arrivals();
    let [arrived] = &arrived[..] else { panic!("{arrived:?}") };
    let counts = &arrived.counts;
    assert_eq!(
        (arrived.netns, arrived.bytes_received, counts.closed, counts.resent_segs),
        (2, 100_037, 1, 1)
    );
    assert_eq!((counts.segs, arrived.data_in, arrived.duplicates), (71, 71, 0));
    assert!(arrived.out_of_order > 0);
    assert_eq!(counts.bins.iter().sum::<u32>(), 71);
    // The first of ten packets sent together waits for none.
    assert!(counts.bins[0] > 0 && counts.bins[1..].iter().sum::<u32>() > 0);
    assert_eq!(&counts.saddr[10..], [255, 255, 10, 0, 0, 2]);
    assert!(world.take_arrivals().is_empty());
}

#[test]
fn probes_meet_what_is_on_their_way() {
    let mut world = world(bottleneck());
    world.probe("b", "a", 500_000, Family::Ipv4).unwrap();
    world.probe("b", "a", 1_000_000, Family::Ipv6).unwrap();
    world.run_until(START + 900 * MS);
    let echoes = world.take_echoes();
    // 84 bytes at 1.25 MB/s, behind none; 104 bytes behind them.
    let a = ["10.0.0.1", "fd00::1"].map(|address| address.parse().unwrap());
    let found: Vec<_> = echoes.iter().map(|echo| (echo.peer, echo.at_us, echo.rtt_us)).collect();
    assert_eq!(found, [(a[0], 1_020_067, 20_067), (a[1], 1_020_150, 20_150), (a[0], 1_520_067, 20_067)]);
    world.add(plan("cubic", bulk(None))).unwrap();
    world.run_until(START + 10 * S);
    let echoes = world.take_echoes();
    assert!(echoes.iter().all(|echo| echo.host == "b"));
    // The buffer holds 48 ms.
    assert!(echoes.iter().any(|echo| echo.rtt_us > 55_000) && echoes.iter().all(|echo| echo.rtt_us < 70_000));
    assert_eq!(world.probe("b", "z", 1, Family::Ipv4).unwrap_err().slug, "sim.no_host");
}

#[test]
fn sinks_of_telemetry_are_received_and_sources_know_windows() {
    let path = std::env::temp_dir().join(format!("ccp-sim-records-{}.csv", std::process::id()));
    let mut spec = spec(bottleneck(), delayed(10_000));
    spec.mtu_bytes = 1640;
    spec.int = Some(
        serde_json::from_value(json!({
            "source": {"tcp_state": true},
            "sink": {"interval_us": 100_000, "records": true},
            "nodes": [{"node": 0, "roles": ["source", "transit"], "node_id": 1}, {"node": 1, "roles": ["sink"], "node_id": 2}],
            "records_path": path,
        }))
        .unwrap(),
    );
    let options = Options { host_mtu_bytes: Some(1400), ..Options::default() };
    let mut world = World::new(spec, &options).unwrap();
    world.add(Plan { family: Family::Ipv6, ..plan("cubic", bulk(None)) }).unwrap();
    assert_eq!(world.run_until(START + 5 * S), Stop::Telemetry);
    let summaries = world.take_summaries();
    assert_eq!(summaries.len(), 1);
    let said = serde_json::to_value(&summaries[0]).unwrap();
    assert_eq!((said["flow"]["src"].as_str(), said["kind"].as_str()), (Some("fd00::1"), Some("int_summary")));
    assert_eq!(world.sender(0, 0).unwrap().sock.mss_bytes, 1400 - 72);
    assert!(said["cwnd_bytes"].as_u64().unwrap() >= 10 * (1400 - 72), "{said}");
    world.run_until(START + S);
    world.close().unwrap();
    let records = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(records.lines().count() > 100);
}
