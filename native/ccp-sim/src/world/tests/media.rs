//! Media over RTP, and receivers that misbehave.

use ccp_emu::spec::{Loss, Misbehaviour};

use super::*;

/// Two packets in each of 25 frames per second.
fn media(report_us: u64) -> App {
    App::Rtp { frames_per_s: 25.0, frame: vec![1000, 460], report_us }
}

fn stopped(app: App, stop_us: u64) -> Plan {
    Plan { stop_us: Some(stop_us), ..plan("rtp/none", app) }
}

#[test]
fn frames_leave_at_their_times_and_arrive_after_transmission_and_delay() {
    let mut world = world(bottleneck());
    world.add(stopped(media(1_000_000), 2_000_000)).unwrap();
    world.run_until(START + 5 * S);
    let got = outcome(&world);
    assert_eq!((got.packets.len(), got.received_bytes), (50, 25 * 1460));
    assert_eq!((got.end_us, got.complete), (Some(2_000_000), true));
    // 1.25 MB/s: the sender's report of 76 bytes goes first, then 1040 and 500 bytes; 10 ms.
    let times: Vec<_> = got.packets.iter().map(|p| (p.frame, p.sent_us, p.arrived_us.unwrap())).collect();
    let at = |us: u64| 1_000_000 + us;
    assert_eq!(times[..2], [(0, at(0), at(10_892)), (0, at(0), at(11_292))]);
    assert_eq!(times[2..4], [(1, at(40_000), at(50_832)), (1, at(40_000), at(51_232))]);
    assert!(world.is_finished());
}

#[test]
fn reports_state_the_loss_since_the_last_one_and_the_round_trip() {
    // Numbers at the link: the sender's report, then packets; 5 of the first 13 frames' packets are lost.
    let loss = Some(Loss::Pattern { drop: vec![5, 6, 7, 8, 9], repeat_every_pkts: None });
    let mut world = world(Direction { loss, ..delayed(10_000) });
    world.add(stopped(media(500_000), 2_200_000)).unwrap();
    world.run_until(START + 5 * S);
    let reports = outcome(&world).reports;
    // Half a second after the first packet arrived, 26 packets were expected.
    assert_eq!(reports[0].arrived_us, 1_520_000);
    assert_eq!((reports[0].highest, reports[0].fraction_lost), (25, (5 * 256 / 26) as u8));
    assert_eq!((reports[1].fraction_lost, reports.len()), (0, 2));
    assert_eq!(reports.iter().map(|r| r.rtt_us).collect::<Vec<_>>(), [Some(20_000); 2]);
}

#[test]
fn an_outage_stops_the_highest_number_and_then_the_reports() {
    let mut world = world(delayed(10_000));
    world.add(stopped(media(100_000), 3_000_000)).unwrap();
    let gone = Direction { loss: Some(Loss::Bernoulli { ratio: 1.0 }), ..delayed(10_000) };
    world.run_until(START + S);
    world.set_link("l>", gone.clone()).unwrap();
    world.run_until(START + 1500 * MS);
    world.set_link("l<", gone).unwrap();
    world.run_until(START + 5 * S);
    let reports = outcome(&world).reports;
    let highest: Vec<_> = reports.iter().map(|report| report.highest).collect();
    // Frames 0 to 25 left before the outage.
    assert_eq!(highest[highest.len() - 3..], [51; 3]);
    assert!(reports.last().unwrap().arrived_us <= 2_510_000);
}

#[test]
fn media_has_no_window_and_takes_its_rate_from_tcp() {
    let mut world = world(bottleneck());
    world.add(Plan { stop_us: Some(9_000_000), ..plan("cubic", bulk(None)) }).unwrap();
    world.add(stopped(media(500_000), 9_000_000)).unwrap();
    world.run_until(START + 12 * S);
    let outcomes: Vec<_> = world.outcomes().collect();
    let delays_us: Vec<_> =
        outcomes[1].packets.iter().filter_map(|p| Some(p.arrived_us? - p.sent_us)).collect();
    assert_eq!(outcomes[1].packets.len(), 8 * 50);
    // CUBIC fills the buffer of 40 packets: 48 ms.
    assert!(delays_us.iter().max() > Some(&50_000), "{:?}", delays_us.iter().max());
    assert!(outcomes[0].received_bytes > 9_000_000);
}

/// Bytes that arrived in order, bytes acknowledged, and retransmissions, after 20 s of a flow next to CUBIC.
fn next_to_cubic(how: Option<Misbehaviour>) -> [(u64, u64, u64); 2] {
    let mut spec = spec(bottleneck(), delayed(10_000));
    spec.nodes.push(ccp_emu::spec::Node {
        name: "c".to_owned(),
        addresses: vec!["10.0.0.3".parse().unwrap()],
        tun: None,
        misbehaves: how,
    });
    // b is also the router to c.
    spec.links.push(ccp_emu::spec::Link {
        name: "m>".to_owned(),
        from: 1,
        to: 2,
        direction: Direction::default(),
    });
    spec.links.push(ccp_emu::spec::Link {
        name: "m<".to_owned(),
        from: 2,
        to: 1,
        direction: Direction::default(),
    });
    spec.routes = vec![vec![-1, 0, 0], vec![1, -1, 2], vec![3, 3, -1]];
    let mut world = world_of(spec);
    world.add(Plan { receiver: "c".to_owned(), ..plan("cubic", bulk(None)) }).unwrap();
    world.add(plan("cubic", bulk(None))).unwrap();
    world.run_until(START + 20 * S);
    let outcomes: Vec<_> = world.outcomes().collect();
    [0, 1].map(|n| {
        let acked_bytes = world.sender(n, 0).unwrap().sock.bytes_acked;
        (outcomes[n].received_bytes, acked_bytes, outcomes[n].retrans_pkts)
    })
}

/// Windows that grew by packets would be ten times as large after a round trip.
#[test]
fn a_window_that_counts_packets_does_not_grow_faster_by_divided_acks() {
    let windows = [1, 10].map(|ack_division| {
        let mut spec = spec(delayed(20_000), delayed(20_000));
        spec.nodes[1].misbehaves = Some(Misbehaviour { ack_division, ..Misbehaviour::default() });
        let mut world = world_of(spec);
        world.add(plan("cubic", bulk(None))).unwrap();
        (1..8).map(move |round| {
            world.run_until(START + round * 40 * MS + MS);
            world.sender(0, 0).unwrap().sock.snd_cwnd
        })
    });
    let [honest, divided] = windows.map(Iterator::collect::<Vec<_>>);
    for (honest, divided) in honest.iter().zip(&divided) {
        assert!(divided.abs_diff(*honest) * 100 <= *honest, "{honest} {divided}");
    }
    assert!(honest[6] >= 4 * honest[3], "{honest:?}");
}

#[test]
fn a_sender_that_is_acknowledged_optimistically_takes_the_path_and_delivers_nothing() {
    let [own, others] = next_to_cubic(Some(Misbehaviour { optimistic: true, ..Misbehaviour::default() }));
    // What was lost is never repeated: data arrive in order only up to the first loss.
    let (received_bytes, acked_bytes, retrans_pkts) = own;
    assert!(acked_bytes > 20 * 1_250_000 && retrans_pkts == 0, "{own:?}");
    assert!(received_bytes < acked_bytes / 4, "{own:?}");
    assert!(others.0 < 20 * 1_250_000 / 4, "{others:?}");
}

#[test]
fn a_transfer_that_is_acknowledged_optimistically_ends_for_its_sender() {
    let mut spec = spec(bottleneck(), delayed(10_000));
    spec.nodes[1].misbehaves = Some(Misbehaviour { optimistic: true, ..Misbehaviour::default() });
    let mut world = world_of(spec);
    world.add(plan("cubic", bulk(Some(5_000_000)))).unwrap();
    world.run_until(START + 30 * S);
    let got = outcome(&world);
    assert!(got.complete && got.received_bytes < 5_000_000, "{got:?}");
}
