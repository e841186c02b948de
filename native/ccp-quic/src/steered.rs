//! One connection that an agent may control: the common part of the controllers for quinn and aioquic.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::flow::Flow;
use crate::fold::{Fold, Happened};
use crate::link::Link;

/// A connection with its fold program, if an agent has set one. Used by one thread.
pub struct Steered {
    link: Arc<Link>,
    flow: Arc<Flow>,
    is_announced: bool,
    fold: Option<Box<Fold>>,
    pub mss_bytes: u16,
    /// According to the last ACK.
    pub is_app_limited: bool,
    pub has_lost: bool,
    /// For the present ACK.
    acked_bytes: u64,
    acked_pkts: u64,
    newest_sent: Option<Instant>,
}

impl Steered {
    /// Begins without a program, with a window of `window_bytes`.
    pub fn new(
        link: Arc<Link>,
        ends: Option<(SocketAddr, SocketAddr)>,
        algorithm: &str,
        window_bytes: u64,
        mss_bytes: u16,
    ) -> Self {
        let flow = Arc::new(link.flow(ends, algorithm));
        flow.note(window_bytes, mss_bytes, false);
        Steered {
            link,
            flow,
            is_announced: false,
            fold: None,
            mss_bytes,
            is_app_limited: true,
            has_lost: false,
            acked_bytes: 0,
            acked_pkts: 0,
            newest_sent: None,
        }
    }

    pub fn number(&self) -> u32 {
        self.flow.number
    }

    /// Whether an agent's program controls the connection.
    pub fn is_steered(&self) -> bool {
        self.fold.is_some()
    }

    pub fn announce(&mut self) {
        if !self.is_announced {
            self.is_announced = true;
            self.link.add(&self.flow);
        }
    }

    /// Drops the program if its agent is gone, otherwise applies the agent's updates. `window_bytes` is the
    /// present window.
    pub fn receive(&mut self, now: Instant, window_bytes: u64) {
        let there = self.link.agent();
        if self.fold.as_ref().is_some_and(|fold| there != Some(fold.agent)) {
            self.fold = None;
        }
        let Some(update) = self.flow.take().filter(|update| there == Some(update.agent)) else { return };
        if let Some(fold) = &mut self.fold {
            fold.obey(now, update);
        } else if let Some(program) = update.program {
            (self.acked_bytes, self.acked_pkts, self.newest_sent) = (0, 0, None);
            self.fold = Some(Box::new(Fold::new(now, window_bytes, update.agent, program, &update.values)));
        }
    }

    pub fn sent(&mut self, now: Instant, bytes: u64) {
        if let Some(fold) = &mut self.fold {
            fold.sent(now, bytes);
        }
    }

    pub fn acked(&mut self, sent: Instant, bytes: u64) {
        self.acked_bytes += bytes;
        self.acked_pkts += 1;
        self.newest_sent = self.newest_sent.max(Some(sent));
    }

    /// Runs the program for an ACK; `in_flight_bytes` remain.
    pub fn ack_ended(&mut self, now: Instant, in_flight_bytes: u64) {
        let (acked_bytes, acked_pkts) = (self.acked_bytes, self.acked_pkts);
        (self.acked_bytes, self.acked_pkts) = (0, 0);
        if let (Some(fold), Some(newest_sent)) = (&mut self.fold, self.newest_sent.take()) {
            let rtt = fold.acked(now, newest_sent, acked_bytes, in_flight_bytes);
            self.run(now, Happened { acked_bytes, acked_pkts, rtt, ..Happened::default() });
        }
    }

    /// Runs the program for losses, marks or a timeout.
    pub fn lost(&mut self, now: Instant, happened: Happened) {
        self.has_lost = true;
        if let Some(fold) = &mut self.fold {
            fold.lost(happened.lost_bytes);
            self.run(now, happened);
        }
    }

    fn run(&mut self, now: Instant, mut happened: Happened) {
        happened.is_app_limited = self.is_app_limited;
        if let Some(fold) = &mut self.fold {
            fold.run(now, &happened, self.mss_bytes, self.flow.number, &self.link);
        }
    }

    /// Returns the window of the program and its agent [bytes], `None` without a program.
    pub fn window_bytes(&self, srtt: Duration) -> Option<u64> {
        self.fold.as_ref().map(|fold| fold.window_bytes(srtt, self.mss_bytes))
    }

    /// Records the window for a new agent.
    pub fn note(&self, window_bytes: u64) {
        self.flow.note(window_bytes, self.mss_bytes, self.is_steered());
    }
}

impl Drop for Steered {
    fn drop(&mut self) {
        if self.is_announced {
            self.link.remove(self.flow.number);
        }
    }
}
