//! A sender that obeys the limiter, over a path with a token bucket.

use super::types::{
    RTCP_STAGE_CAPPED, RTCP_STAGE_CREDIT, RTCP_STAGE_LIFTED, RTCP_STAGE_OPEN, RTCP_STAGE_PROBING,
    RTCP_STAGE_RAISED, rtcp_mark, rtcp_stage,
};
use super::*;
use crate::limiter::Limiter;
use crate::work::{State, work};
use proptest::prelude::*;
use std::collections::VecDeque;

const MSS: u16 = 1448;
const MSS_BYTES: f64 = 1448.0;
const RTT_US: u64 = 40_000;
/// Bytes per microsecond in a Mbit/s.
const MBIT: f64 = 0.125;

/// Sends packets at its rate; packets rejected by the bucket are marked lost an RTT later.
struct Sender {
    limiter: Limiter,
    now: Progress,
    /// Rate without a cap [bytes/us].
    own_rate: f64,
    bucket_bytes: f64,
    limit: f64,
    level_bytes: f64,
    lost_of_100: u64,
    on_the_way: VecDeque<(u64, bool)>,
    send_at_us: f64,
    sent: u64,
    stages: Vec<(u64, rtcp_stage)>,
}

impl Sender {
    fn new(limit: f64, bucket_bytes: f64, lost_of_100: u64) -> Self {
        Self::with(Options::usual(), limit, bucket_bytes, lost_of_100)
    }

    fn with(options: Options, limit: f64, bucket_bytes: f64, lost_of_100: u64) -> Self {
        let limiter = Limiter::new(Detector::new(options, MSS));
        let now = Progress { min_rtt_us: RTT_US as u32, srtt_us: RTT_US as u32, ..Progress::default() };
        let mut sender = Self {
            limiter,
            now,
            own_rate: 40.0 * MBIT,
            bucket_bytes,
            limit,
            level_bytes: bucket_bytes,
            lost_of_100,
            on_the_way: VecDeque::new(),
            send_at_us: 0.0,
            sent: 0,
            stages: Vec::new(),
        };
        sender.start();
        sender
    }

    fn start(&mut self) {
        self.limiter.start(&self.now);
        self.send_at_us = self.now.time_us as f64;
    }

    fn rate(&self) -> f64 {
        let cap = self.limiter.rate_bytes_per_s(&self.now).map(|rate| 0.99e-6 * rate as f64);
        cap.unwrap_or(self.own_rate).min(self.own_rate)
    }

    fn send(&mut self) {
        self.sent += 1;
        // Evenly spread random loss.
        let unlucky = self.sent * self.lost_of_100 / 100 > (self.sent - 1) * self.lost_of_100 / 100;
        let passes = !unlucky && self.level_bytes >= MSS_BYTES;
        if passes {
            self.level_bytes -= MSS_BYTES;
        }
        let step_us = MSS_BYTES / self.rate();
        self.level_bytes = self.bucket_bytes.min(self.level_bytes + step_us * self.limit);
        self.on_the_way.push_back((self.send_at_us as u64 + RTT_US, passes));
        self.send_at_us += step_us;
    }

    fn receive(&mut self) {
        let Some((at_us, passed)) = self.on_the_way.pop_front() else { return };
        self.now.time_us = at_us;
        self.now.delivered_pkts += u64::from(passed);
        self.now.lost_pkts += u64::from(!passed);
        self.now.in_flight_bytes = self.on_the_way.len() as u64 * u64::from(MSS);
        self.limiter.ack(&self.now);
        if self.stages.last().is_none_or(|last| last.1 != self.limiter.stage()) {
            self.stages.push((at_us, self.limiter.stage()));
        }
    }

    /// Sends until an ACK arrives, and handles it.
    fn receive_next(&mut self) {
        while self.on_the_way.front().is_none_or(|(at_us, _)| (*at_us as f64) >= self.send_at_us) {
            self.send();
        }
        self.receive();
    }

    fn run_until(&mut self, end_us: u64) {
        while self.now.time_us < end_us {
            self.receive_next();
        }
    }

    /// Waits until all is acknowledged, and then for `idle_us`.
    fn idle(&mut self, idle_us: u64) {
        while !self.on_the_way.is_empty() {
            self.receive();
        }
        self.now.time_us += idle_us;
        self.level_bytes = self.bucket_bytes.min(self.level_bytes + idle_us as f64 * self.limit);
    }

    fn was_in(&self, stage: rtcp_stage) -> usize {
        self.stages.iter().filter(|one| one.1 == stage).count()
    }
}

fn seconds(s: u64) -> u64 {
    1_000_000 * s
}

#[test]
fn what_a_limit_lets_through_is_sent_and_little_more() {
    for (limit, lost_of_100) in [(2.0, 0), (1.04, 0), (5.0, 0), (2.0, 2)] {
        let mut sender = Sender::new(limit * MBIT, 500e3, lost_of_100);
        sender.run_until(seconds(5));
        assert_eq!(sender.limiter.detector().state().limited, 1);
        let before = sender.now;
        sender.run_until(seconds(45));
        let delivered = sender.now.delivered_pkts - before.delivered_pkts;
        let lost = sender.now.lost_pkts - before.lost_pkts;
        let share = delivered as f64 * MSS_BYTES / (limit * MBIT * 40e6);
        assert!(share > 0.96, "{limit} Mbit/s: {share} of it");
        assert!(lost * 100 < delivered * (2 + 2 * lost_of_100), "{limit} Mbit/s: {lost} lost of {delivered}");
        assert_eq!(sender.limiter.detector().state().limited, 1);
    }
}

/// Duration of the cap before a probe, and of the probe [rounds]; and packets delivered meanwhile.
fn first_probe(limit: f64, every_pkts: u64) -> (f64, f64, u64) {
    let options = Options { probe_every_pkts: every_pkts, ..Options::usual() };
    let mut sender = Sender::with(options, limit * MBIT, 500e3, 0);
    let (mut capped, mut probing, mut delivered) = (None, None, 0);
    while probing.is_none() || sender.limiter.stage() == RTCP_STAGE_PROBING {
        let before = sender.limiter.stage();
        sender.receive_next();
        let now = sender.now;
        match (before, sender.limiter.stage()) {
            (RTCP_STAGE_OPEN, RTCP_STAGE_CAPPED) => capped = Some(now),
            (RTCP_STAGE_CAPPED, RTCP_STAGE_PROBING) => {
                delivered = capped.map_or(0, |then: Progress| now.delivered_pkts - then.delivered_pkts);
                probing = Some(now);
            }
            _ => {}
        }
    }
    let rounds = |since: Option<Progress>, until: u64| {
        since.map_or(0.0, |then| (until - then.time_us) as f64 / RTT_US as f64)
    };
    (rounds(capped, probing.map_or(0, |then| then.time_us)), rounds(probing, sender.now.time_us), delivered)
}

#[test]
fn it_probes_after_20_rounds_and_stops_at_losses() {
    let (capped, probing, _) = first_probe(8.0, 200);
    assert!((19.9..21.0).contains(&capped), "{capped} rounds");
    assert!((1.0..4.0).contains(&probing), "{probing} rounds");
}

#[test]
fn it_probes_after_200_packets_where_20_rounds_are_fewer() {
    let (capped, _, delivered) = first_probe(1.04, 200);
    assert!(capped > 40.0, "{capped} rounds");
    assert!((198..210).contains(&delivered), "{delivered} packets");
}

#[test]
fn the_papers_probes_wait_for_20_rounds_alone() {
    let (capped, _, delivered) = first_probe(1.04, 0);
    assert!((19.9..21.0).contains(&capped), "{capped} rounds");
    assert!(delivered < 80, "{delivered} packets");
}

#[test]
fn a_limit_that_is_gone_caps_for_2_s_at_most() {
    for lost_of_100 in [0, 2] {
        for wait_ms in [0, 300, 600, 900] {
            let mut sender = Sender::new(2.0 * MBIT, 500e3, lost_of_100);
            let gone_us = seconds(20) + 1_000 * wait_ms;
            sender.run_until(gone_us);
            assert_eq!(sender.limiter.detector().state().limited, 1);
            sender.limit = 40.0 * MBIT;
            sender.run_until(gone_us + seconds(2));
            let stages = &sender.stages;
            assert_eq!(sender.limiter.rate_bytes_per_s(&sender.now), None, "{wait_ms} ms: {stages:?}");
            assert!(sender.was_in(RTCP_STAGE_LIFTED) > 0);
            sender.run_until(gone_us + seconds(3));
            assert_eq!(sender.limiter.stage(), RTCP_STAGE_OPEN, "{wait_ms} ms: {:?}", sender.stages);
        }
    }
}

/// Lifts or changes a limit, for a sender that sends hardly more by itself; returns the sender 20 s later.
fn slow_after(limit: f64, own_rate: f64) -> Sender {
    let mut sender = Sender::new(2.0 * MBIT, 500e3, 2);
    sender.run_until(seconds(20));
    assert_eq!(sender.limiter.detector().state().limited, 1);
    sender.limit = limit * MBIT;
    sender.own_rate = own_rate * MBIT;
    sender.run_until(seconds(40));
    sender
}

#[test]
fn a_limit_that_is_gone_is_found_gone_where_losses_by_chance_keep_the_flow_slow() {
    // Like BBRv3's: below both the rate before the limit and twice the limit.
    let sender = slow_after(40.0, 3.0);
    assert_eq!(sender.limiter.detector().state().limited, 0, "{:?}", sender.stages);
    assert_eq!(sender.limiter.rate_bytes_per_s(&sender.now), None);
}

#[test]
fn a_limit_that_is_only_higher_is_not_found_gone_where_packets_get_lost_by_chance() {
    for own_rate in [3.0, 40.0] {
        let sender = slow_after(2.4, own_rate);
        assert_eq!(sender.limiter.detector().state().limited, 1, "{:?}", sender.stages);
    }
}

#[test]
fn a_flow_that_pauses_while_it_probes_finds_the_end_of_a_limit_all_the_same() {
    let mut sender = Sender::new(2.0 * MBIT, 500e3, 0);
    sender.run_until(seconds(20));
    sender.limit = 40.0 * MBIT;
    while sender.limiter.stage() != RTCP_STAGE_RAISED {
        sender.receive_next();
    }
    let capped = sender.was_in(RTCP_STAGE_CAPPED);
    sender.own_rate = 0.8 * MBIT; // as BBR does for PROBE_RTT
    let then_us = sender.now.time_us;
    sender.run_until(then_us + 200_000);
    sender.own_rate = 40.0 * MBIT;
    sender.run_until(then_us + seconds(3));
    assert_eq!(sender.limiter.stage(), RTCP_STAGE_OPEN, "{:?}", sender.stages);
    assert_eq!(sender.was_in(RTCP_STAGE_CAPPED), capped, "it restarted immediately: {:?}", sender.stages);
}

#[test]
fn losses_by_chance_that_have_ended_are_forgotten() {
    let mut sender = Sender::new(2.0 * MBIT, 500e3, 2);
    sender.run_until(seconds(20));
    sender.lost_of_100 = 0;
    sender.run_until(seconds(30));
    let raised = sender.was_in(RTCP_STAGE_RAISED);
    sender.run_until(seconds(60));
    assert_eq!(sender.was_in(RTCP_STAGE_RAISED), raised, "{:?}", sender.stages);
}

#[test]
fn losses_of_a_probe_are_not_taken_for_losses_by_chance() {
    for (lost_of_100, lossy) in [(0, false), (2, true)] {
        let mut sender = Sender::new(2.0 * MBIT, 500e3, lost_of_100);
        sender.run_until(seconds(30));
        assert_eq!(sender.was_in(RTCP_STAGE_RAISED) > 3, lossy, "{:?}", sender.stages);
    }
}

#[test]
fn a_limit_that_becomes_higher_is_followed() {
    let mut sender = Sender::new(2.0 * MBIT, 500e3, 0);
    sender.run_until(seconds(10));
    sender.limit = 2.6 * MBIT;
    let before = sender.now;
    sender.run_until(seconds(40));
    let delivered = (sender.now.delivered_pkts - before.delivered_pkts) as f64 * MSS_BYTES / 30e6;
    assert!(sender.was_in(RTCP_STAGE_RAISED) > 0);
    assert!(delivered > 2.1 * MBIT, "{} Mbit/s", delivered / MBIT);
}

#[test]
fn only_an_estimate_that_losses_have_tested_caps_before_a_verdict() {
    let mut limiter = Limiter::new(Detector::new(Options::usual(), MSS));
    let mut now = Progress { min_rtt_us: 10_000, srtt_us: 10_000, ..Progress::default() };
    let mut ack = |after_us: u64, delivered: u64, lost: u64| {
        now.time_us += after_us;
        now.delivered_pkts += delivered;
        now.lost_pkts += lost;
        limiter.ack(&now);
        let tested = limiter.detector().state().transfer.tested != 0;
        (tested, limiter.rate_bytes_per_s(&now))
    };
    for _ in 0..100 {
        ack(1_000, 5, 0);
    }
    ack(1_000, 5, 300);
    // A timeout of 25 RTTs: the mean since the losses is a few packets in that time.
    ack(250_000, 1, 0);
    for _ in 0..10 {
        assert_eq!(ack(1_000, 1, 0), (false, None));
    }
    // Then the bucket is empty again: 100 packets per second, and as many lost.
    let (tested, rate) = (0..8).map(|_| ack(10_000, 1, 1)).last().expect("ACKs");
    let line = limiter.detector().state().candidates.line.rate_bytes_per_s;
    assert_eq!((tested, rate), (true, Some(u64::from(2 * line))));
    assert!(line > 40_000, "{line}");
}

#[test]
fn an_estimate_of_several_transfers_caps_none_before_its_verdict() {
    let mut limiter = Limiter::new(Detector::new(Options::usual(), MSS));
    let mut now = Progress { min_rtt_us: 10_000, srtt_us: 10_000, ..Progress::default() };
    let mut ack = |limiter: &mut Limiter, after_us: u64, delivered: u64, lost: u64| {
        now.time_us += after_us;
        now.delivered_pkts += delivered;
        now.lost_pkts += lost;
        limiter.ack(&now);
        now
    };
    for _ in 0..100 {
        ack(&mut limiter, 1_000, 5, 0);
    }
    ack(&mut limiter, 1_000, 5, 300);
    let last = (0..12).map(|_| ack(&mut limiter, 10_000, 1, 1)).last().expect("ACKs");
    assert!(limiter.rate_bytes_per_s(&last).is_some());
    limiter.start(&last);
    let next = ack(&mut limiter, 10_000, 1, 1);
    let found = limiter.detector().state();
    assert_eq!((found.limited, found.transfer.tested, found.transfer.carried), (0, 1, 1));
    assert_eq!(limiter.rate_bytes_per_s(&next), None);
}

#[test]
fn tokens_of_an_idle_time_are_used_up_without_a_cap() {
    let mut sender = Sender::new(2.0 * MBIT, 500e3, 0);
    sender.run_until(seconds(5));
    sender.idle(seconds(1));
    sender.start();
    assert_eq!(sender.limiter.rate_bytes_per_s(&sender.now), None);
    let before = sender.now;
    sender.run_until(before.time_us + 200_000);
    assert_eq!(sender.limiter.stage(), RTCP_STAGE_CAPPED);
    assert!(sender.was_in(RTCP_STAGE_CREDIT) > 0);
    let bytes = (sender.now.delivered_pkts - before.delivered_pkts) * u64::from(MSS);
    assert!((200_000..350_000).contains(&bytes), "{bytes} bytes"); // a second of 2 Mbit/s, plus the refill meanwhile
    let lost = sender.now.lost_pkts - before.lost_pkts;
    assert!(lost < 20, "{lost} packets");
}

#[test]
fn tokens_that_are_not_there_are_forgotten_at_heavy_loss() {
    let mut sender = Sender::new(2.0 * MBIT, 500e3, 0);
    sender.run_until(seconds(5));
    sender.idle(seconds(2));
    sender.level_bytes = 100e3; // used by another flow
    sender.start();
    let before = sender.now;
    sender.run_until(before.time_us + 12 * RTT_US);
    assert_eq!(sender.limiter.stage(), RTCP_STAGE_CAPPED);
    assert!(sender.limiter.detector().tokens_bytes(sender.now.time_us) < 20_000);
}

#[test]
fn tokens_of_an_idle_time_count_although_the_transfer_before_lost_much() {
    let mut sender = Sender::new(1.0 * MBIT, 135e3, 0);
    sender.run_until(seconds(5));
    sender.idle(800_000);
    sender.level_bytes = 50e3; // the others were used by another flow
    sender.start();
    sender.run_until(sender.now.time_us + 9 * RTT_US);
    assert_eq!(sender.limiter.stage(), RTCP_STAGE_CAPPED);
    // The bucket is not full again: the estimate continues with the next transfer.
    sender.idle(200_000);
    sender.start();
    let transfer = sender.limiter.detector().state().transfer;
    assert_eq!((transfer.triggered, transfer.carried), (1, 1));
    assert_eq!(sender.limiter.rate_bytes_per_s(&sender.now), None);
    sender.own_rate = 2.0 * MBIT;
    sender.receive_next();
    assert_eq!(sender.limiter.stage(), RTCP_STAGE_CREDIT);
    // If the tokens do not exist, losses show it.
    sender.idle(100_000);
    sender.level_bytes = 0.0;
    sender.start();
    let then = sender.now;
    sender.run_until(then.time_us + 10 * RTT_US);
    assert_eq!(sender.limiter.stage(), RTCP_STAGE_CAPPED);
    assert!(sender.limiter.detector().tokens_bytes(sender.now.time_us) < 3_000);
    assert!(sender.now.lost_pkts - then.lost_pkts < 10);
}

proptest! {
    #[test]
    fn the_cap_is_between_the_limit_and_its_highest_raise(
        acks in prop::collection::vec(
            (0u64..20_000, 0u64..3, 0u64..2, 0u32..30_000, 0u64..100_000, prop::bool::weighted(0.02)),
            1..400,
        ),
    ) {
        let mut limiter = Limiter::new(work(Options::usual(), State::Limited, 1_000));
        let rtcp_mark { time_us, delivered_pkts, lost_pkts } = limiter.detector().state().last;
        let (time_us, delivered_pkts, lost_pkts) = (time_us.into(), delivered_pkts.into(), lost_pkts.into());
        let min_rtt_us = 10_000;
        let mut now = Progress { time_us, delivered_pkts, lost_pkts, min_rtt_us, ..Progress::default() };
        for (wait_us, delivered, lost, srtt_us, in_flight_bytes, starts) in acks {
            now.time_us += wait_us;
            now.delivered_pkts += delivered;
            now.lost_pkts += lost;
            now.srtt_us = srtt_us;
            now.in_flight_bytes = in_flight_bytes;
            if starts {
                limiter.start(&now);
            }
            limiter.ack(&now);
            let found = limiter.detector().state();
            prop_assert_eq!(limiter.stage() == RTCP_STAGE_OPEN, found.limited == 0);
            prop_assert!(limiter.stage() <= RTCP_STAGE_LIFTED);
            if let Some(rate) = limiter.rate_bytes_per_s(&now) {
                prop_assert!(found.limited != 0);
                let limit = u64::from(found.rate_bytes_per_s);
                let rates = limit..=limit * 42 / 10;
                prop_assert!(rates.contains(&rate));
            }
        }
    }
}
