//! The controller called by quinn: an own congestion control, or a fold program with its agent.
//!
//! quinn reports an ACK packet by packet, then its end, and then what was lost or marked. The program runs at the end
//! of an ACK, and again for a loss or a mark, so that it sees both at the same time. A loss detected by a timer comes
//! without an ACK.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory};

use crate::fold::Happened;
use crate::steered::Steered;
use crate::{Link, fallback};

#[derive(Clone)]
pub struct CcpConfig {
    link: Arc<Link>,
    algorithm: String,
    ends: Option<(SocketAddr, SocketAddr)>,
}

impl CcpConfig {
    /// Returns the configuration for connections with the agent's default algorithm.
    pub fn new(link: Arc<Link>) -> Self {
        CcpConfig { link, algorithm: String::new(), ends: None }
    }

    /// Requests an algorithm by name, of at most 63 bytes.
    #[must_use]
    pub fn algorithm(mut self, name: &str) -> Self {
        self.algorithm = name.to_string();
        self
    }

    /// Sets the addresses of the connection, which quinn does not pass to a controller, for the agent's rules
    /// and lists. For a configuration of a single connection.
    #[must_use]
    pub fn ends(mut self, local: SocketAddr, peer: SocketAddr) -> Self {
        self.ends = Some((local, peer));
        self
    }
}

impl ControllerFactory for CcpConfig {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Ccp::new(self, fallback::first(now, current_mtu), current_mtu))
    }
}

/// A congestion controller controlled by an agent, if there is one, and otherwise by quinn's CUBIC.
struct Ccp {
    config: Arc<CcpConfig>,
    /// quinn's, while no program controls the connection.
    fallback: Option<Box<dyn Controller>>,
    steered: Steered,
    initial_window_bytes: u64,
    srtt: Duration,
    window_bytes: u64,
}

impl Ccp {
    /// Returns the controller of a connection that uses `law` for now.
    fn new(config: Arc<CcpConfig>, fallback: Box<dyn Controller>, mss_bytes: u16) -> Self {
        let window_bytes = fallback.window();
        let link = Arc::clone(&config.link);
        let steered = Steered::new(link, config.ends, &config.algorithm, window_bytes, mss_bytes);
        Ccp {
            config,
            fallback: Some(fallback),
            steered,
            initial_window_bytes: window_bytes,
            srtt: Duration::ZERO,
            window_bytes,
        }
    }

    fn heir(&self, now: Instant) -> Box<dyn Controller> {
        fallback::heir(now, self.steered.mss_bytes, self.window_bytes, self.srtt, !self.steered.has_lost)
    }

    fn receive(&mut self, now: Instant) {
        self.steered.receive(now, self.window_bytes);
        if self.steered.is_steered() {
            self.fallback = None;
        } else if self.fallback.is_none() {
            self.fallback = Some(self.heir(now));
        }
    }

    fn settle(&mut self) {
        self.window_bytes = match &self.fallback {
            Some(fallback) => fallback.window(),
            // One byte more, as quinn sends while less than its window is in flight: two packets, which the
            // receiver acknowledges immediately, would otherwise be one.
            None => self.steered.window_bytes(self.srtt).map_or(self.window_bytes, |window| window + 1),
        };
        self.steered.note(self.window_bytes);
    }
}

impl Controller for Ccp {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.steered.announce();
        self.steered.sent(now, bytes);
        if let Some(fallback) = &mut self.fallback {
            fallback.on_sent(now, bytes, last_packet_number);
        }
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.srtt = rtt.get();
        self.steered.acked(sent, bytes);
        if let Some(fallback) = &mut self.fallback {
            fallback.on_ack(now, sent, bytes, app_limited, rtt);
        }
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        if let Some(fallback) = &mut self.fallback {
            fallback.on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
        }
        self.steered.is_app_limited = app_limited;
        self.receive(now);
        self.steered.ack_ended(now, in_flight);
        self.settle();
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.receive(now);
        if let Some(fallback) = &mut self.fallback {
            fallback.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
        }
        let happened = Happened {
            lost_bytes,
            lost_pkts: lost_bytes.div_ceil(self.steered.mss_bytes.into()),
            is_marked: lost_bytes == 0,
            was_timeout: is_persistent_congestion,
            ..Happened::default()
        };
        self.steered.lost(now, happened);
        self.settle();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.steered.mss_bytes = new_mtu;
        if let Some(fallback) = &mut self.fallback {
            fallback.on_mtu_update(new_mtu);
        }
        self.settle();
    }

    fn window(&self) -> u64 {
        self.window_bytes
    }

    /// quinn clones it when the peer's port changes, or for display. If the clone is used for sending, it is
    /// a separate flow, without a program until the agent sets one.
    fn clone_box(&self) -> Box<dyn Controller> {
        let fallback =
            self.fallback.as_ref().map_or_else(|| self.heir(Instant::now()), |fallback| fallback.clone_box());
        Box::new(Ccp::new(Arc::clone(&self.config), fallback, self.steered.mss_bytes))
    }

    fn initial_window(&self) -> u64 {
        self.initial_window_bytes
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
