//! Applications, to the microsecond where it can be computed.

use super::*;

#[test]
fn a_bulk_transfer_with_an_end_arrives_whole_on_all_its_connections() {
    for parallel in [1, 3] {
        let mut world = world(bottleneck());
        let app = App::Bulk { total_bytes: Some(1_000_001), rate_bytes_per_s: None, parallel };
        world.add(plan("cubic", app)).unwrap();
        world.run_until(START + 10 * S);
        let outcome = outcome(&world);
        assert_eq!((outcome.received_bytes, outcome.complete), (1_000_001, true));
        assert!(world.is_finished());
        // 1 MB at 1.25 MB/s, plus losses and handshake.
        assert!((1_800_000..2_600_000).contains(&outcome.end_us.unwrap()), "{outcome:?}");
        let rows = world.take_rows();
        let last: Vec<_> = rows.iter().filter(|row| row.state == 7).map(|row| row.sport).collect();
        assert_eq!(last.len(), parallel as usize);
        // Data and FIN are completely acknowledged.
        assert!(rows.iter().filter(|row| row.state == 7).all(|row| row.bytes_in_flight == 0));
    }
}

#[test]
fn streams_connect_one_after_the_other_and_begin_together() {
    let mut world = world(delayed(10_000));
    let app = App::Bulk { total_bytes: None, rate_bytes_per_s: None, parallel: 3 };
    world.add(plan("cubic", app)).unwrap();
    let mut sent = Vec::new();
    for us in [19_999, 20_000, 40_000, 60_000, 80_799, 80_800] {
        world.run_until(START + us * US);
        sent.push([0, 1, 2].map(|nth| world.sender(0, nth).map(|sender| sender.sock.bytes_sent)));
    }
    let all = |bytes| [Some(bytes); 3];
    assert_eq!(sent[..3], [[None; 3], [Some(37), None, None], [Some(37), Some(37), None]]);
    // One more round trip, plus processing at both ends.
    assert_eq!(sent[3..5], [all(37), all(37)]);
    assert!(sent[5].iter().all(|bytes| bytes.is_some_and(|bytes| bytes >= 37 + 9 * 1448)), "{sent:?}");
    world.run_until(START + 80_800 * US + 9_999 * US);
    assert_eq!(outcome(&world).received_bytes, 0);
}

#[test]
fn a_limited_rate_is_kept_in_blocks_as_iperf3_writes_them() {
    let mut world = world(delayed(10_000));
    let app = App::Bulk { total_bytes: None, rate_bytes_per_s: Some(500_000.0), parallel: 2 };
    world.add(plan("cubic", app)).unwrap();
    world.run_until(START + 20 * S);
    let blocks = outcome(&world).received_bytes as f64 / f64::from(128 << 10);
    // Each stream: 20 s at 500 kB/s in whole blocks, of which the first is sent at once.
    assert!((blocks - 2.0 * (20.0 * 500_000.0 / f64::from(128 << 10)).ceil()).abs() <= 2.0, "{blocks}");
}

#[test]
fn what_is_stopped_ends_then() {
    for (app, complete) in [(bulk(None), true), (bulk(Some(1 << 30)), false)] {
        let mut world = world(bottleneck());
        world.add(Plan { start_us: 2_000_000, stop_us: Some(5_000_000), ..plan("cubic", app) }).unwrap();
        world.run_until(2 * S - 1);
        assert_eq!(outcome(&world).start_us, None);
        world.run_until(10 * S);
        let outcome = outcome(&world);
        assert_eq!((outcome.start_us, outcome.end_us), (Some(2_000_000), Some(5_000_000)));
        assert_eq!(outcome.complete, complete);
        assert!(world.is_finished() && world.counters().stray_pkts > 0);
        assert!(world.sender(0, 0).is_none());
    }
}

fn http(objects: &[u64], gaps_us: &[u64], connections: u32, persistent: bool) -> App {
    App::Http { objects: objects.to_vec(), gaps_us: gaps_us.to_vec(), repeat: 1, connections, persistent }
}

#[test]
fn a_download_is_asked_for_by_its_receiver() {
    let mut world = world(delayed(10_000));
    world.add(plan("cubic", http(&[1000, 2000, 500], &[0, 300_000], 1, true))).unwrap();
    world.run_until(START + 5 * S);
    let got = outcome(&world);
    assert_eq!((got.received_bytes, got.complete, got.objects.len()), (3500, true, 3));
    let times: Vec<_> = got.objects.iter().map(|o| (o.start_us, o.first_byte_us, o.new_connection)).collect();
    // Two round trips of 20 ms with connecting, one without.
    let at = |ms: u64| 1_000_000 + ms * 1000;
    assert_eq!(times, [(at(0), at(40), true), (at(40), at(60), false), (at(360), at(380), false)]);
    // 2240 bytes are two segments; Nagle delays none: the first is full.
    assert!(got.objects.iter().all(|o| o.end_us == o.first_byte_us));
    assert_eq!(got.end_us, Some(at(380)));
}

#[test]
fn clients_without_a_persistent_connection_connect_for_each_object() {
    let mut world = world(delayed(10_000));
    world.add(Plan { dport: Some(7000), ..plan("cubic", http(&[1000, 2000], &[], 2, false)) }).unwrap();
    world.run_until(START + 5 * S);
    let got = outcome(&world);
    assert!(got.complete && got.objects.iter().all(|o| o.new_connection));
    assert_eq!(
        got.objects.iter().map(|o| (o.connection, o.number)).collect::<Vec<_>>(),
        [(0, 0), (1, 0), (0, 1), (1, 1)]
    );
    let mut ports: Vec<_> = world.take_arrivals().iter().map(|arrived| arrived.counts.sport).collect();
    ports.sort_unstable();
    assert_eq!(ports, [7000, 7001, 7002, 7003]);
}

#[test]
fn a_lost_request_is_asked_again() {
    let loss = Some(ccp_emu::spec::Loss::Pattern { drop: vec![2], repeat_every_pkts: None });
    let mut world = world_of(spec(delayed(10_000), Direction { loss, ..delayed(10_000) }));
    world.add(plan("cubic", http(&[1000], &[], 1, true))).unwrap();
    world.run_until(START + 5 * S);
    // SYN, ACK, and then the request: it is repeated as a tail-loss probe, or after a timeout.
    let got = outcome(&world);
    assert!(got.complete && got.objects[0].first_byte_us > 1_080_000, "{got:?}");
}

#[test]
fn a_source_is_silent_while_it_is_off() {
    let mut world = world(bottleneck());
    let app =
        App::OnOff { phases_us: vec![(200_000, 800_000), (300_000, 700_000)], rate_bytes_per_s: Some(1e6) };
    world.add(plan("cubic", app)).unwrap();
    let mut received = Vec::new();
    for ms in [500, 1000, 1500, 2000, 2100] {
        world.run_until(START + ms * MS);
        received.push(outcome(&world).received_bytes);
    }
    // It is connected after 20.048 ms, including a SYN of 60 bytes: 200 ms and 300 ms at 1 MB/s, in whole milliseconds.
    assert!((190_000..=200_000).contains(&received[0]), "{received:?}");
    assert_eq!(received[0], received[1]);
    assert!((290_000..=300_000).contains(&(received[2] - received[1])), "{received:?}");
    assert_eq!(received[2], received[3]);
    assert_eq!((outcome(&world).complete, outcome(&world).end_us), (true, Some(3_020_048)));
}

#[test]
fn a_source_without_a_rate_leaves_little_unsent_when_it_pauses() {
    let mut world = world(bottleneck());
    let app = App::OnOff { phases_us: vec![(2_000_000, 2_000_000)], rate_bytes_per_s: None };
    world.add(plan("cubic", app)).unwrap();
    world.run_until(START + 2020 * MS);
    let paused = world.sender(0, 0).unwrap();
    assert!((1..=128 << 10).contains(&paused.unsent_bytes()));
    world.run_until(START + 3 * S);
    assert_eq!(world.sender(0, 0).unwrap().unacked_bytes(), 0);
}
