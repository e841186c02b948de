//! A flow: its plan and its outcome.

use serde::Serialize;

use super::Endings;
use crate::app::{App, DRAIN_NS, MediaPacket, MediaReport, ObjectResult};
use crate::plan::Plan;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum State {
    Waiting,
    Running,
    /// Completed or stopped.
    Over,
}

#[derive(Debug)]
pub(super) struct Flow {
    pub plan: Plan,
    pub app: App,
    pub state: State,
    pub v6: bool,
    pub sender: usize,
    pub receiver: usize,
    /// Ports of its first connection.
    pub sport: u16,
    pub dport: u16,
    /// Its connections, in order of opening.
    pub connections: Vec<usize>,
    pub started_ns: u64,
    pub ended_ns: Option<u64>,
    pub complete: bool,
}

/// Outcome of a flow for its applications.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    pub name: String,
    /// Application bytes received in order; of downloads, those of complete objects.
    pub received_bytes: u64,
    /// Start; `None`: not started.
    pub start_us: Option<u64>,
    /// End; `None`: not ended.
    pub end_us: Option<u64>,
    /// Whether it completed; flows without an end of their own complete when stopped.
    pub complete: bool,
    pub retrans_pkts: u64,
    /// Downloads, in order of completion.
    pub objects: Vec<ObjectResult>,
    /// Packets of media, in the order of sending.
    pub packets: Vec<MediaPacket>,
    /// Reports on them.
    pub reports: Vec<MediaReport>,
}

impl Flow {
    /// When it starts, is stopped, or its application acts.
    pub fn due_ns(&self) -> Option<u64> {
        match self.state {
            State::Waiting => Some(self.started_ns),
            State::Running => self.stop_ns().into_iter().chain(self.app.due_ns()).min(),
            State::Over => None,
        }
    }

    pub fn stop_ns(&self) -> Option<u64> {
        let drain_ns = if matches!(self.app, App::Rtp(_)) { DRAIN_NS } else { 0 };
        self.plan.stop_us.map(|us| us.saturating_mul(1000).saturating_add(drain_ns))
    }

    /// Whether being stopped counts as completion.
    pub fn ends_by_time(&self) -> bool {
        match &self.app {
            App::Bulk(bulk) => bulk.is_endless(),
            App::OnOff(_) | App::Rtp(_) => true,
            App::Http(_) => false,
        }
    }

    pub fn outcome(&self, endings: &Endings) -> Outcome {
        let objects = match &self.app {
            App::Http(http) => http.objects.clone(),
            App::Bulk(_) | App::OnOff(_) | App::Rtp(_) => Vec::new(),
        };
        let received_bytes = match &self.app {
            App::Http(http) => http.objects.iter().map(|object| object.size_bytes).sum(),
            App::Rtp(rtp) => rtp.received_bytes(),
            App::Bulk(_) | App::OnOff(_) => endings.received_bytes,
        };
        let (packets, reports) = match &self.app {
            App::Rtp(rtp) => (rtp.packets.clone(), rtp.reports.clone()),
            _ => (Vec::new(), Vec::new()),
        };
        Outcome {
            name: self.plan.name.clone(),
            received_bytes,
            start_us: (self.state != State::Waiting).then_some(self.started_ns / 1000),
            end_us: self.ended_ns.map(|ns| ns / 1000),
            complete: self.complete,
            retrans_pkts: endings.retrans_pkts,
            objects,
            packets,
            reports,
        }
    }
}
