//! Numbers by hand: draft-cardwell-iccrg-bbr-congestion-control-00, with Linux' integers.

use proptest::prelude::*;

use super::super::test_sock::busy;
use super::*;

/// A path of one segment per ms and 40 ms, with a queue, with ACKs of two segments.
struct Path {
    bbr: Bbr,
    sock: Sock,
    /// Without the queue.
    rtt_us: u32,
    /// Part of a segment allowed by pacing.
    credit_bytes: u64,
    /// `delivered` and time of each ACK: carried by segments sent then.
    sent: std::collections::VecDeque<(u64, u32)>,
    modes: Vec<Mode>,
}

const ACK_US: u64 = 2000;

impl Path {
    fn new() -> Self {
        let mut sock = busy(10);
        sock.srtt_us = 40_000;
        sock.min_rtt_us = 40_000;
        let mut bbr = Bbr::default();
        bbr.init(&mut sock);
        Self { bbr, sock, rtt_us: 40_000, credit_bytes: 0, sent: [].into(), modes: vec![] }
    }

    fn send(&mut self) {
        let sock = &mut self.sock;
        self.credit_bytes += sock.pacing_rate_bytes_per_s * ACK_US / 1_000_000;
        let paced = (self.credit_bytes / u64::from(sock.mss_bytes)) as u32;
        sock.packets_out += paced.min(sock.snd_cwnd.saturating_sub(sock.packets_out));
        self.credit_bytes %= u64::from(sock.mss_bytes);
    }

    fn ack(&mut self, losses: u32) {
        let prior_in_flight = self.sock.packets_out;
        let sock = &mut self.sock;
        sock.mstamp_us += ACK_US;
        let rtt_us = self.rtt_us.max(prior_in_flight * 1000);
        let pkts = if prior_in_flight < self.rtt_us / 1000 { 1 } else { 2 };
        sock.delivered += pkts;
        sock.packets_out -= pkts.min(prior_in_flight);
        sock.lost += losses;
        sock.delivered_mstamp_us = sock.mstamp_us;
        let sent_us = sock.mstamp_us - u64::from(rtt_us);
        while self.sent.len() > 1 && self.sent[1].0 <= sent_us {
            self.sent.pop_front();
        }
        let (prior_us, prior_delivered) = *self.sent.front().unwrap_or(&(sent_us, 0));
        self.sent.push_back((sock.mstamp_us, sock.delivered));
        let sample = RateSample {
            prior_delivered,
            delivered: i64::from(sock.delivered - prior_delivered),
            interval_us: (sock.mstamp_us - prior_us) as i64,
            rtt_us: i64::from(rtt_us),
            acked_sacked: pkts,
            losses,
            prior_in_flight,
            ..RateSample::default()
        };
        self.bbr.cong_control(sock, &sample, false);
        if self.modes.last() != Some(&self.bbr.mode) {
            self.modes.push(self.bbr.mode);
        }
        self.send();
    }

    fn run(&mut self, until_us: u64) {
        while self.sock.mstamp_us < until_us {
            self.ack(0);
        }
    }
}

#[test]
fn gains_are_those_of_the_draft() {
    // 2/ln 2 = 2.885, and its inverse 0.347.
    assert_eq!(HIGH_GAIN, 739);
    assert_eq!(DRAIN_GAIN, 88);
}

#[test]
fn a_rate_is_the_bandwidth_in_bytes_less_a_hundredth() {
    // A segment a ms: 1448 kB/s; * 1.25 * 0.99 = 1,791,900
    let sock = busy(10);
    let bw = (BW_UNIT / 1000) as u32;
    let rate = pace_bytes_per_s(&sock, bw, UNIT * 5 / 4);
    assert!((1_791_700..=1_791_900).contains(&rate), "{rate}");
}

#[test]
fn it_begins_with_the_window_an_rtt() {
    // 10 segments in 40 ms: 362 kB/s; * 739/256 * 0.99 = 1,034,540
    let path = Path::new();
    let rate = path.sock.pacing_rate_bytes_per_s;
    assert!((1_034_300..=1_034_600).contains(&rate), "{rate}");
    assert!(path.sock.is_paced);
}

#[test]
fn it_fills_the_pipe_drains_it_and_cycles() {
    let mut path = Path::new();
    path.run(3_000_000);
    assert_eq!(path.modes, [Mode::Startup, Mode::Drain, Mode::ProbeBw]);
    // A segment per ms.
    let bw = u64::from(path.bbr.max_bw());
    assert!(bw.abs_diff(BW_UNIT / 1000) <= BW_UNIT / 20_000, "{bw}");
    // 2 * 40 segments; 2 acknowledged at once; three bursts of 2 segments; 2 more while probing.
    assert!([88, 90].contains(&path.sock.snd_cwnd), "{}", path.sock.snd_cwnd);
}

#[test]
fn a_cycle_paces_at_each_gain_for_a_round() {
    let mut path = Path::new();
    path.run(3_000_000);
    let mut gains = vec![];
    let mut since_us = vec![];
    let end_us = path.sock.mstamp_us + 20 * 40_000;
    while path.sock.mstamp_us < end_us {
        path.ack(0);
        if gains.last() != Some(&path.bbr.pacing_gain) {
            gains.push(path.bbr.pacing_gain);
            since_us.push(path.sock.mstamp_us);
        }
    }
    let probe = gains.iter().position(|g| *g == UNIT * 5 / 4).unwrap();
    assert_eq!(gains[probe..probe + 3], [320, 192, 256]);
}

#[test]
fn after_ten_seconds_without_a_lower_rtt_it_drains_to_four_segments() {
    let mut path = Path::new();
    path.run(3_000_000);
    path.rtt_us = 41_000;
    // It began at 1 s with the RTT of the handshake; only a lower one restarts the time.
    while path.bbr.mode != Mode::ProbeRtt {
        path.ack(0);
        assert!(path.sock.mstamp_us < 11_100_000);
    }
    assert!(path.sock.mstamp_us > 11_000_000);
    assert_eq!(path.sock.snd_cwnd, 4);
    assert!(path.bbr.min_rtt_us >= 41_000);
    while path.sock.packets_out > 4 {
        path.ack(0);
    }
    let start_us = path.sock.mstamp_us;
    while path.bbr.mode == Mode::ProbeRtt {
        path.ack(0);
    }
    let lasted_us = path.sock.mstamp_us - start_us;
    assert!((200_000..=260_000).contains(&lasted_us), "{lasted_us}");
    assert!(path.sock.snd_cwnd >= 80);
}

#[test]
fn the_first_round_of_recovery_sends_what_is_delivered() {
    let mut path = Path::new();
    path.run(3_000_000);
    let before = path.sock.snd_cwnd;
    let threshold = path.sock.snd_ssthresh;
    assert_eq!(path.bbr.ssthresh(&mut path.sock), threshold);
    path.sock.ca_state = CaState::Recovery;
    let in_flight = path.sock.packets_in_flight();
    path.ack(1);
    assert_eq!(path.sock.snd_cwnd, in_flight);
    path.sock.ca_state = CaState::Open;
    path.ack(0);
    assert!(path.sock.snd_cwnd >= before.min(86), "{} {before}", path.sock.snd_cwnd);
}

#[test]
fn a_policers_rate_is_paced_at() {
    // A tenth more than half of 50/256 lost in each of two intervals, at the same rate.
    let mut path = Path::new();
    path.run(3_000_000);
    for i in 0..400 {
        path.ack(u32::from(i % 2 == 0));
    }
    assert!(path.bbr.long_term.in_use);
    let bw = u64::from(path.bbr.bw());
    assert!(bw.abs_diff(BW_UNIT / 1000) <= BW_UNIT / 20_000, "{bw}");
    assert_eq!(path.bbr.pacing_gain, UNIT);
    // After 48 rounds of about 40 ms it probes again.
    let end_us = path.sock.mstamp_us + 60 * 42_000;
    path.run(end_us);
    assert!(!path.bbr.long_term.in_use);
}

#[test]
fn light_losses_are_no_policers() {
    let mut path = Path::new();
    path.run(3_000_000);
    for i in 0..1000 {
        path.ack(u32::from(i % 10 == 0));
    }
    assert!(!path.bbr.long_term.in_use);
}

#[test]
fn what_comes_back_at_once_widens_the_window() {
    let mut aggregation = Aggregation::default();
    let mut sock = busy(100);
    let bw = (BW_UNIT / 1000) as u32;
    aggregation.restart(sock.mstamp_us);
    let sample = RateSample { delivered: 20, interval_us: 40_000, acked_sacked: 20, ..RateSample::default() };
    // 20 segments 10 ms after the epoch began: it began with fewer than expected, so it restarts with them.
    sock.mstamp_us += 10_000;
    sock.delivered_mstamp_us = sock.mstamp_us;
    aggregation.update(&sock, &sample, bw, false);
    assert_eq!(aggregation.extra_cwnd(bw), 20);
    // 20 more 5 ms later: 40 - 5 = 35.
    sock.mstamp_us += 5000;
    sock.delivered_mstamp_us = sock.mstamp_us;
    aggregation.update(&sock, &sample, bw, false);
    assert_eq!(aggregation.extra_cwnd(bw), 36, "a bandwidth is rounded down");
    // At most 100 ms of the bandwidth.
    assert_eq!(aggregation.extra_cwnd(bw / 10), 9);
}

#[test]
fn slow_connections_send_single_segments() {
    let (bbr, mut sock) = (Bbr::default(), busy(10));
    sock.pacing_rate_bytes_per_s = 149_999;
    assert_eq!(bbr.min_tso_segs(&sock), 1);
    sock.pacing_rate_bytes_per_s = 150_000;
    assert_eq!(bbr.min_tso_segs(&sock), 2);
}

proptest! {
    #[test]
    fn no_window_is_empty_and_no_rate_zero(
        acks in prop::collection::vec((1..100_000u64, 1..30u32, 0..4u32, any::<bool>(), 0..5u8), 1..300)
    ) {
        let mut path = Path::new();
        for (interval_us, pkts, losses, app_limited, kind) in acks {
            let sock = &mut path.sock;
            sock.mstamp_us += interval_us;
            sock.delivered += pkts;
            sock.lost += losses;
            sock.delivered_mstamp_us = sock.mstamp_us;
            sock.ca_state = [CaState::Open, CaState::Disorder, CaState::Recovery, CaState::Loss, CaState::Open][usize::from(kind)];
            let sample = RateSample {
                prior_delivered: sock.delivered - pkts,
                delivered: i64::from(pkts),
                interval_us: interval_us as i64,
                rtt_us: interval_us as i64,
                acked_sacked: pkts,
                losses,
                is_app_limited: app_limited,
                prior_in_flight: sock.packets_out,
                ..RateSample::default()
            };
            path.bbr.cong_control(sock, &sample, false);
            sock.packets_out = sock.snd_cwnd;
            prop_assert!(sock.snd_cwnd >= 1);
            prop_assert!(sock.pacing_rate_bytes_per_s > 0);
        }
    }
}
