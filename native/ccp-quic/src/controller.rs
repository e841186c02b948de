//! What quinn calls: a law of its own, or a fold program and its agent.
//!
//! quinn tells of an ACK packet by packet, then that it ended, and then what it says is lost or marked. The program runs
//! when an ACK ends, and once more for a loss or a mark, so that it knows of both at once. A loss that a timer finds
//! comes without an ACK.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::Controller;

use crate::flow::Flow;
use crate::fold::{Fold, Happened};
use crate::{CcpConfig, law};

/// A congestion controller whose law is an agent's, while there is one, and quinn's CUBIC else.
pub struct Ccp {
    config: Arc<CcpConfig>,
    flow: Arc<Flow>,
    /// A copy that quinn makes for somebody to look at is no flow.
    is_told: bool,
    steering: Steering,
    initial_window_bytes: u64,
    mss_bytes: u16,
    srtt: Duration,
    /// Of the ACK that quinn is telling of.
    acked_bytes: u64,
    acked_pkts: u64,
    newest_sent: Option<Instant>,
    /// As the last ACK said.
    is_app_limited: bool,
    window_bytes: u64,
}

enum Steering {
    Law(Box<dyn Controller>),
    Fold(Box<Fold>),
}

impl Ccp {
    /// Returns the controller of a connection that `law` has for now.
    pub(crate) fn new(config: Arc<CcpConfig>, law: Box<dyn Controller>, mss_bytes: u16) -> Self {
        let flow = Arc::new(config.link.flow(config.ends, &config.algorithm));
        let window_bytes = law.window();
        flow.note(window_bytes, mss_bytes, false);
        Ccp {
            config,
            flow,
            is_told: false,
            steering: Steering::Law(law),
            initial_window_bytes: window_bytes,
            mss_bytes,
            srtt: Duration::ZERO,
            acked_bytes: 0,
            acked_pkts: 0,
            newest_sent: None,
            is_app_limited: true,
            window_bytes,
        }
    }

    /// Tells the agent of the flow.
    fn tell(&mut self) {
        self.is_told = true;
        self.config.link.add(&self.flow);
    }

    /// Goes over to the law if the agent is gone, and does what the agent says if it is there.
    fn hear(&mut self, now: Instant) {
        let there = self.config.link.agent();
        if let Steering::Fold(fold) = &self.steering
            && there != Some(fold.agent)
        {
            let never_lost = !fold.has_lost;
            let law = law::heir(now, self.mss_bytes, self.window_bytes, self.srtt, never_lost);
            self.steering = Steering::Law(law);
        }
        let Some(letter) = self.flow.take().filter(|letter| there == Some(letter.agent)) else { return };
        match &mut self.steering {
            Steering::Fold(fold) => fold.obey(now, letter),
            Steering::Law(law) => {
                if let Some(program) = letter.program {
                    let fold = Fold::new(now, law.window(), letter.agent, program, &letter.values);
                    self.steering = Steering::Fold(Box::new(fold));
                }
            }
        }
    }

    /// Runs the program, if one has the connection.
    fn fold(&mut self, now: Instant, mut happened: Happened) {
        happened.is_app_limited = self.is_app_limited;
        if let Steering::Fold(fold) = &mut self.steering {
            fold.run(now, &happened, self.mss_bytes, self.flow.number, &self.config.link);
        }
    }

    fn settle(&mut self) {
        self.window_bytes = match &self.steering {
            Steering::Law(law) => law.window(),
            Steering::Fold(fold) => fold.window_bytes(self.srtt, self.mss_bytes),
        };
        let is_steered = matches!(self.steering, Steering::Fold(_));
        self.flow.note(self.window_bytes, self.mss_bytes, is_steered);
    }
}

impl Controller for Ccp {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        if !self.is_told {
            self.tell();
        }
        match &mut self.steering {
            Steering::Law(law) => law.on_sent(now, bytes, last_packet_number),
            Steering::Fold(fold) => fold.sent(now, bytes),
        }
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.srtt = rtt.get();
        if let Steering::Law(law) = &mut self.steering {
            law.on_ack(now, sent, bytes, app_limited, rtt);
            return;
        }
        self.acked_bytes += bytes;
        self.acked_pkts += 1;
        self.newest_sent = self.newest_sent.max(Some(sent));
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        if let Steering::Law(law) = &mut self.steering {
            law.on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
        }
        self.is_app_limited = app_limited;
        self.hear(now);
        let (acked_bytes, acked_pkts) = (self.acked_bytes, self.acked_pkts);
        (self.acked_bytes, self.acked_pkts) = (0, 0);
        if let (Steering::Fold(fold), Some(newest_sent)) = (&mut self.steering, self.newest_sent.take()) {
            let rtt = fold.acked(now, newest_sent, acked_bytes, in_flight);
            self.fold(now, Happened { acked_bytes, acked_pkts, rtt, ..Happened::default() });
        }
        self.settle();
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.hear(now);
        match &mut self.steering {
            Steering::Law(law) => law.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes),
            Steering::Fold(fold) => {
                fold.lost(lost_bytes);
                let (was_timeout, is_marked) = (is_persistent_congestion, lost_bytes == 0);
                self.fold(now, Happened { lost_bytes, is_marked, was_timeout, ..Happened::default() });
            }
        }
        self.settle();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mss_bytes = new_mtu;
        if let Steering::Law(law) = &mut self.steering {
            law.on_mtu_update(new_mtu);
        }
        self.settle();
    }

    fn window(&self) -> u64 {
        self.window_bytes
    }

    /// quinn wants a second one when the peer's port changes, or for somebody to look at. If it comes to send, it is a
    /// flow of its own, which the law has until the agent gives it a program.
    fn clone_box(&self) -> Box<dyn Controller> {
        let law = match &self.steering {
            Steering::Law(law) => law.clone_box(),
            Steering::Fold(fold) => {
                law::heir(Instant::now(), self.mss_bytes, self.window_bytes, self.srtt, !fold.has_lost)
            }
        };
        Box::new(Ccp::new(Arc::clone(&self.config), law, self.mss_bytes))
    }

    fn initial_window(&self) -> u64 {
        self.initial_window_bytes
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Drop for Ccp {
    fn drop(&mut self) {
        if self.is_told {
            self.config.link.remove(&self.flow);
        }
    }
}
