//! Each primitive by hand, as `load_primitives()` of `fold.bpf.c` computes it.

use super::*;

const ALL: u64 = u64::MAX;

/// Two socks, one ACK apart.
fn before() -> Sock {
    let mut sock = Sock::new(1000, 20);
    sock.mstamp_us = 5_000_000;
    sock.bytes_acked = 100_000;
    sock.snd_una = 100_000;
    sock.snd_nxt = 120_000;
    sock.write_seq = 180_000;
    sock.packets_out = 20;
    sock.sacked_out = 3;
    sock.delivered = 103;
    sock.delivered_ce = 7;
    sock.lost = 2;
    sock
}

fn after() -> Sock {
    let mut sock = before();
    sock.mstamp_us += 250;
    sock.bytes_acked += 2000;
    sock.snd_una += 2000;
    sock.sacked_out = 5;
    sock.delivered += 4;
    sock.delivered_ce += 1;
    sock.lost += 3;
    sock.lost_out = 3;
    sock.retrans_out = 1;
    sock.total_retrans = 9;
    sock.srtt_us = 42_000;
    sock.min_rtt_us = 40_000;
    sock.ecn_ok = true;
    sock
}

fn sample() -> RateSample {
    RateSample {
        prior_delivered: 97,
        prior_in_flight: 17,
        delivered: 10,
        interval_us: 5000,
        snd_interval_us: 4000,
        rcv_interval_us: 5000,
        rtt_us: 41_000,
        is_app_limited: true,
        ..RateSample::default()
    }
}

fn event(sample: Option<&RateSample>) -> Event<'_> {
    Event { sample, ece: true, state: CaState::Recovery, used: ALL, rate_allowed_bytes_per_s: 77 }
}

fn load(sock: &Sock, event: &Event<'_>) -> Prims {
    let mut prims = [0; _];
    Counted::start(&before()).load(&mut prims, sock, event);
    prims
}

#[test]
fn an_ack_is_measured_against_the_last_fold() {
    let prims = load(&after(), &event(Some(&sample())));
    let expected = [
        (CCP_ACK_NOW, 5_000_250),
        (CCP_ACK_BYTES_ACKED, 2000),
        (CCP_ACK_PACKETS_ACKED, 2), // of 4 delivered 2 out of order
        (CCP_ACK_PACKETS_MISORDERED, 2),
        (CCP_ACK_BYTES_MISORDERED, 2000),
        (CCP_ACK_LOST_PKTS_SAMPLE, 3),
        (CCP_ACK_ECN_BYTES, 2000),
        (CCP_ACK_ECN_PACKETS, 1),
        (CCP_FLOW_PACKETS_IN_FLIGHT, 13), // 20 - (5 + 3) + 1
        (CCP_FLOW_BYTES_IN_FLIGHT, 13_000),
        (CCP_FLOW_BYTES_PENDING, 78_000),
        (CCP_FLOW_RTT_SAMPLE_US, 41_000),
        (CCP_FLOW_SRTT_US, 42_000),
        (CCP_FLOW_MIN_RTT_US, 40_000),
        (CCP_FLOW_WAS_TIMEOUT, 0),
        (CCP_FLOW_MSS, 1000),
        (CCP_FLOW_CA_STATE, 3),
        (CCP_FLOW_SND_SSTHRESH, u64::MAX),
        (CCP_FLOW_RATE_OUTGOING, 2_500_000),
        (CCP_FLOW_RATE_INCOMING, 2_000_000),
        (CCP_FLOW_DELIVERED, 108), // with the SYN
        (CCP_FLOW_LOST, 5),
        (CCP_FLOW_RETRANS, 9),
        (CCP_FLOW_DELIVERED_BYTES, 102_000),
        (CCP_FLOW_SENT_BYTES, 120_000),
        (CCP_FLOW_PRIOR_DELIVERED, 98),
        (CCP_FLOW_PRIOR_IN_FLIGHT, 17),
        (CCP_FLOW_ECN_OK, 1),
        (CCP_FLOW_APP_LIMITED, 1),
        (CCP_FLOW_RATE_ALLOWED, 77),
        (CCP_FLOW_LOCAL_CONGESTION, 0),
        (CCP_FLOW_CWND_LIMITED, 0),
    ];
    assert_eq!(expected.len(), CCP_INT_AGE_US as usize);
    for (index, value) in expected {
        assert_eq!(prims[index as usize], value, "{index}");
    }
}

#[test]
fn a_second_fold_sees_nothing_of_the_first() {
    let mut counted = Counted::start(&before());
    let mut prims = [0; _];
    counted.load(&mut prims, &after(), &event(Some(&sample())));
    counted.load(&mut prims, &after(), &event(Some(&sample())));
    for index in [
        CCP_ACK_BYTES_ACKED,
        CCP_ACK_PACKETS_ACKED,
        CCP_ACK_PACKETS_MISORDERED,
        CCP_ACK_LOST_PKTS_SAMPLE,
        CCP_ACK_ECN_PACKETS,
    ] {
        assert_eq!(prims[index as usize], 0, "{index}");
    }
}

#[test]
fn holes_that_close_are_acknowledged_in_order() {
    // 5 came out of order; an ACK for 8 covers 3 new ones.
    let mut sock = after();
    sock.sacked_out = 0;
    sock.delivered = before().delivered + 3;
    let prims = load(&sock, &event(Some(&sample())));
    assert_eq!(prims[CCP_ACK_PACKETS_ACKED as usize], 3);
    assert_eq!(prims[CCP_ACK_PACKETS_MISORDERED as usize], 0);
}

#[test]
fn a_timeout_has_no_sample_and_keeps_the_rates() {
    let mut counted = Counted::start(&before());
    let mut prims = [0; _];
    counted.load(&mut prims, &after(), &event(Some(&sample())));
    counted.load(&mut prims, &after(), &Event { ece: false, ..event(None) });
    for (index, value) in [
        (CCP_FLOW_WAS_TIMEOUT, 1),
        (CCP_FLOW_RTT_SAMPLE_US, 0xffff_ffff),
        (CCP_FLOW_APP_LIMITED, 0),
        (CCP_FLOW_PRIOR_DELIVERED, 0),
        (CCP_FLOW_PRIOR_IN_FLIGHT, 0),
        (CCP_ACK_ECN_BYTES, 0),
        (CCP_FLOW_RATE_OUTGOING, 2_500_000),
        (CCP_FLOW_RATE_INCOMING, 2_000_000),
    ] {
        assert_eq!(prims[index as usize], value, "{index}");
    }
}

#[test]
fn an_invalid_sample_keeps_the_rates() {
    let mut counted = Counted::start(&before());
    let mut prims = [5; _];
    for (delivered, interval_us) in [(-1, 5000), (0, 5000), (10, -1)] {
        let invalid = RateSample { delivered, interval_us, ..sample() };
        counted.load(&mut prims, &after(), &event(Some(&invalid)));
        assert_eq!(prims[CCP_FLOW_RATE_OUTGOING as usize], 5);
    }
}

#[test]
fn an_ack_that_delivers_nothing_has_no_packet_that_was_sent_before() {
    let nothing = RateSample { prior_delivered: 0, delivered: -1, interval_us: -1, ..sample() };
    assert_eq!(load(&after(), &event(Some(&nothing)))[CCP_FLOW_PRIOR_DELIVERED as usize], 0);
    let first = RateSample { prior_delivered: 0, ..sample() };
    assert_eq!(load(&after(), &event(Some(&first)))[CCP_FLOW_PRIOR_DELIVERED as usize], 1);
}

#[test]
fn marks_are_kept_for_a_program_that_reads_them() {
    let mut counted = Counted::start(&before());
    let mut prims = [0; _];
    counted.load(&mut prims, &after(), &Event { used: 0, ..event(Some(&sample())) });
    assert_eq!((prims[CCP_ACK_ECN_BYTES as usize], prims[CCP_FLOW_RATE_OUTGOING as usize]), (0, 0));
    counted.load(&mut prims, &after(), &event(Some(&sample())));
    assert_eq!(prims[CCP_ACK_ECN_PACKETS as usize], 1);
}

#[test]
fn an_rtt_of_none_and_a_threshold_are_as_libccp_reads_them() {
    let mut sock = after();
    sock.snd_ssthresh = 12;
    sock.is_cwnd_limited = true;
    for rtt_us in [-1, 0] {
        let prims = load(&sock, &event(Some(&RateSample { rtt_us, ..sample() })));
        assert_eq!(prims[CCP_FLOW_RTT_SAMPLE_US as usize], 0xffff_ffff);
        assert_eq!(prims[CCP_FLOW_SND_SSTHRESH as usize], 12_000);
        assert_eq!(prims[CCP_FLOW_CWND_LIMITED as usize], 1);
    }
}
