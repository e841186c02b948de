//! quinn's controllers on paths whose results are known, and planted defects.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ccp_quic_sim::{Loss, Path, Report, Simulation, Traffic, quinn};
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, CubicConfig, NewRenoConfig};

const RTT: Duration = ms(40);
/// Payload of a packet after MTU discovery (1,452 bytes of UDP payload), and its size with IP and UDP headers.
const PAYLOAD_BYTES: f64 = 1420.0;
const PACKET_BYTES: f64 = 1480.0;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn run(path: Path, factory: impl ControllerFactory + Send + Sync + 'static, duration: Duration) -> Report {
    Simulation::new(path).flow(quinn::flow(factory)).run(duration).unwrap()
}

#[test]
fn cubic_fills_a_path_and_its_buffer() {
    let report = run(Path::new(20.0, RTT), CubicConfig::default(), s(30));
    let flow = &report.flows[0];
    assert!(report.goodput_share() > 0.9, "{}", report.goodput_share());
    assert!(report.goodput_share() <= PAYLOAD_BYTES / PACKET_BYTES);
    // The buffer is one bandwidth-delay product, so a full one doubles the RTT; a packet is 0.6 ms.
    assert!(flow.rtt(0.0) >= RTT);
    assert!(flow.rtt(100.0) <= 2 * RTT + ms(2), "{:?}", flow.rtt(100.0));
    assert!(flow.rtt(100.0) >= 2 * RTT - ms(2), "{:?}", flow.rtt(100.0));
    assert!(report.queue_max <= RTT + ms(1));
}

#[test]
fn packets_are_conserved() {
    let report = run(Path::new(20.0, RTT).loss(0.01), CubicConfig::default(), s(10));
    let link = report.bottleneck;
    let gone = link.delivered_pkts + link.dropped_pkts();
    // The rest is on its way at the end: at most a bandwidth-delay product and a buffer of small packets.
    assert!(link.arrived_pkts >= gone && link.arrived_pkts - gone < 200, "{link:?}");
    let lost = link.dropped_loss_pkts as f64 / link.arrived_pkts as f64;
    assert!((0.005..0.02).contains(&lost), "{lost}");
}

#[test]
fn a_simulation_is_the_same_every_time() {
    let result = || {
        let report = run(Path::new(20.0, RTT).loss(0.01), CubicConfig::default(), s(10));
        (report.flows[0].received.clone(), report.flows[0].windows.clone())
    };
    assert_eq!(result(), result());
    let other = run(Path::new(20.0, RTT).loss(0.01).seed(2), CubicConfig::default(), s(10));
    assert_ne!(result().0, other.flows[0].received);
}

#[test]
fn reno_is_as_fast_as_mathis_predicts() {
    // M. Mathis et al., "The macroscopic behavior of the TCP congestion avoidance algorithm", 1997: one packet per window
    // and round trip, so C = sqrt(3/2). The path is never full.
    for ratio in [0.001, 0.004] {
        let report = run(Path::new(500.0, RTT).loss(ratio), NewRenoConfig::default(), s(120));
        let expected = PAYLOAD_BYTES / RTT.as_secs_f64() * (1.5 / ratio).sqrt();
        let found = report.flows[0].goodput_between(s(20), s(120)) / expected;
        assert!((0.8..1.2).contains(&found), "{found} at {ratio}");
    }
}

#[test]
fn two_flows_of_one_kind_share_a_path() {
    let cubic = || quinn::flow(CubicConfig::default());
    let path = Path::new(20.0, RTT);
    let report = Simulation::new(path).flow(cubic()).flow(cubic().start(ms(300))).run(s(120)).unwrap();
    let share = report.goodput_share();
    assert!(share > 0.9 && share <= PAYLOAD_BYTES / PACKET_BYTES, "{share}");
    assert!(report.jain_index() > 0.9, "{}", report.jain_index());
}

#[test]
fn cubic_reduces_its_window_to_seven_tenths() {
    // RFC 9438, sections 4.6 and 4.7. A competitor makes windows shrink, so that fast convergence is used.
    let cubic = || quinn::flow(CubicConfig::default());
    let path = Path::new(50.0, RTT);
    let report = Simulation::new(path).flow(cubic()).flow(cubic().start(s(5))).run(s(60)).unwrap();
    let ratios: Vec<_> = report.flows[0].reductions.iter().map(ccp_quic_sim::Reduction::ratio).collect();
    assert!(ratios.len() > 5, "{ratios:?}");
    assert!(ratios.iter().all(|ratio| (0.69..0.72).contains(ratio)), "{ratios:?}");
}

#[test]
fn marks_reduce_the_window_without_loss() {
    let path = Path::new(20.0, RTT).buffer_bdps(4.0).marks_above(ms(20));
    let report = run(path, CubicConfig::default(), s(30));
    let flow = &report.flows[0];
    assert!(flow.reductions.len() > 5);
    assert_eq!((flow.lost_bytes, report.bottleneck.dropped_pkts()), (0, 0));
    assert!(report.bottleneck.marked_pkts > 0);
    assert!(flow.rtt(99.0) < ms(70), "{:?}", flow.rtt(99.0));
}

#[test]
fn a_transfer_takes_its_bytes_by_the_rate_and_the_slow_start() {
    let bytes = 5_000_000;
    let flow = quinn::flow(CubicConfig::default()).traffic(Traffic::Transfer { bytes });
    let report = Simulation::new(Path::new(20.0, RTT)).flow(flow).run(s(30)).unwrap();
    let flow = &report.flows[0];
    assert!(flow.is_complete);
    let minimum = bytes as f64 / 2.5e6 * PACKET_BYTES / PAYLOAD_BYTES;
    let found = flow.end.as_secs_f64();
    assert!((minimum..minimum + 0.6).contains(&found), "{found}, at least {minimum}");
    assert_eq!(flow.received.last().map(|(_, bytes)| *bytes), Some(bytes));
}

#[test]
fn messages_arrive_without_a_queue_and_the_window_does_not_grow() {
    let traffic = Traffic::Messages { bytes: 5_000, every: ms(33) };
    let flow = quinn::flow(CubicConfig::default()).traffic(traffic);
    let report = Simulation::new(Path::new(20.0, RTT)).flow(flow).run(s(20)).unwrap();
    let flow = &report.flows[0];
    // Those of the last 33 ms are on their way.
    assert_eq!((flow.messages, flow.message_delays.len()), (607, 606));
    // Half an RTT, and 2 ms of transmission.
    assert!(flow.message_delay(95.0) < ms(24), "{:?}", flow.message_delay(95.0));
    assert_eq!(flow.lost_bytes, 0);
    // An application-limited flow of 1.2 Mbit/s needs 6 kB a round trip; quinn's initial window is 12,000 bytes.
    assert!(flow.window_max_bytes() < 30_000, "{}", flow.window_max_bytes());
    assert!(flow.longest_stall < ms(150), "{:?}", flow.longest_stall);
}

#[test]
fn a_lower_rate_is_found() {
    let slow = Path::new(5.0, RTT);
    let report = Simulation::new(Path::new(20.0, RTT))
        .change(s(10), slow)
        .flow(quinn::flow(CubicConfig::default()))
        .run(s(30))
        .unwrap();
    let rates =
        [(s(2), s(10)), (s(15), s(30))].map(|(from, to)| report.flows[0].goodput_between(from, to) / 125e3);
    assert!((17.0..19.3).contains(&rates[0]) && (4.0..4.9).contains(&rates[1]), "{rates:?}");
}

#[test]
fn quinn_paces() {
    // quinn's pacer: at most 10 packets or 2 ms of the window, whichever is more.
    let report = run(Path::new(20.0, RTT), CubicConfig::default(), s(10));
    let maximum = report.flows[0].burst_max_bytes;
    assert!((12_000..=12 * 1452).contains(&maximum), "{maximum}");
}

#[test]
fn an_outage_is_a_stall() {
    // All packets of one second are lost: 20 Mbit/s are about 1,700 packets in that time, but CUBIC stops earlier.
    let outage = Path::new(20.0, RTT).data(|data| data.loss = Some(Loss::Bernoulli { ratio: 1.0 }));
    let path = || Path::new(20.0, RTT);
    let report = Simulation::new(path())
        .change(s(5), outage)
        .change(s(6), path())
        .flow(quinn::flow(CubicConfig::default()))
        .run(s(20))
        .unwrap();
    let stall = report.flows[0].longest_stall;
    assert!((ms(950)..s(3)).contains(&stall), "{stall:?}");
    assert!(report.flows[0].goodput_between(s(10), s(20)) > 0.8 * 2.5e6);
}

#[test]
fn errors_name_their_cause() {
    let flow = quinn::flow(CubicConfig::default());
    let error = Simulation::new(Path::new(-1.0, RTT)).flow(flow).run(s(1)).unwrap_err();
    assert_eq!(error.slug, "emulator.bad_spec");
}

// --- planted defects ---

/// A window that never changes.
#[derive(Clone)]
struct Fixed(u64);

impl ControllerFactory for Fixed {
    fn build(self: Arc<Self>, _now: Instant, _current_mtu: u16) -> Box<dyn Controller> {
        self.clone_box()
    }
}

impl Controller for Fixed {
    fn on_congestion_event(&mut self, _now: Instant, _sent: Instant, _is_persistent: bool, _lost_bytes: u64) {
    }

    fn on_mtu_update(&mut self, _new_mtu: u16) {}

    fn window(&self) -> u64 {
        self.0
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.0
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// CUBIC that is never informed that the application limits it.
struct Unlimited(Box<dyn Controller>);

struct UnlimitedConfig;

impl ControllerFactory for UnlimitedConfig {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Unlimited(Arc::new(CubicConfig::default()).build(now, current_mtu)))
    }
}

impl Controller for Unlimited {
    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, _app_limited: bool, rtt: &RttEstimator) {
        self.0.on_ack(now, sent, bytes, false, rtt);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        self.0.on_congestion_event(now, sent, is_persistent, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.0.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.0.window()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Unlimited(self.0.clone_box()))
    }

    fn initial_window(&self) -> u64 {
        self.0.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.0.into_any()
    }
}

#[test]
fn no_reaction_to_loss_shows_as_loss() {
    let report = run(Path::new(20.0, RTT), Fixed(400_000), s(20));
    let flow = &report.flows[0];
    assert!(flow.lost_share() > 0.1, "{}", flow.lost_share());
    assert!(flow.congestion_events > 100 && flow.reductions.is_empty());
}

#[test]
fn a_window_that_is_too_small_shows_as_goodput() {
    let report = run(Path::new(20.0, RTT), Fixed(20_000), s(20));
    // At most 20,000 bytes a round trip of 100,000.
    assert!((0.15..0.2).contains(&report.goodput_share()), "{}", report.goodput_share());
}

#[test]
fn growth_while_application_limited_shows_as_window() {
    let traffic = Traffic::Messages { bytes: 5_000, every: ms(33) };
    let flow = quinn::flow(UnlimitedConfig).traffic(traffic);
    let report = Simulation::new(Path::new(20.0, RTT)).flow(flow).run(s(20)).unwrap();
    assert!(report.flows[0].window_max_bytes() > 1_000_000, "{}", report.flows[0].window_max_bytes());
}
