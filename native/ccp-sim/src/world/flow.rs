//! A flow: what it is to do, and what became of it.

use serde::Serialize;

use super::Endings;
use crate::app::{App, ObjectResult};
use crate::plan::Plan;

/// How far a flow is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum State {
    Waiting,
    Running,
    /// It came to its end, or was stopped.
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
    /// Its connections, in the order in which they were opened.
    pub connections: Vec<usize>,
    pub started_ns: u64,
    pub ended_ns: Option<u64>,
    pub complete: bool,
}

/// What the applications of a flow saw.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    pub name: String,
    /// Application bytes that arrived in order; of downloads, those of whole objects.
    pub received_bytes: u64,
    /// When it started; `None`: it has not.
    pub start_us: Option<u64>,
    /// When it ended; `None`: it has not.
    pub end_us: Option<u64>,
    /// Whether it came to its own end; flows that have none but to be stopped do so then.
    pub complete: bool,
    /// Segments sent again.
    pub retrans_pkts: u64,
    /// Downloads, in the order of their ends.
    pub objects: Vec<ObjectResult>,
}

impl Flow {
    /// When it starts or is stopped, or its application wants to do something.
    pub fn due_ns(&self) -> Option<u64> {
        match self.state {
            State::Waiting => Some(self.started_ns),
            State::Running => self.stop_ns().into_iter().chain(self.app.due_ns()).min(),
            State::Over => None,
        }
    }

    /// When it is stopped.
    pub fn stop_ns(&self) -> Option<u64> {
        self.plan.stop_us.map(|us| us.saturating_mul(1000))
    }

    /// Whether being stopped is its own end.
    pub fn ends_by_time(&self) -> bool {
        match &self.app {
            App::Bulk(bulk) => bulk.is_endless(),
            App::OnOff(_) => true,
            App::Http(_) => false,
        }
    }

    pub fn outcome(&self, endings: &Endings) -> Outcome {
        let objects = match &self.app {
            App::Http(http) => http.objects.clone(),
            App::Bulk(_) | App::OnOff(_) => Vec::new(),
        };
        let received_bytes = match &self.app {
            App::Http(http) => http.objects.iter().map(|object| object.size_bytes).sum(),
            App::Bulk(_) | App::OnOff(_) => endings.received_bytes,
        };
        Outcome {
            name: self.plan.name.clone(),
            received_bytes,
            start_us: (self.state != State::Waiting).then_some(self.started_ns / 1000),
            end_us: self.ended_ns.map(|ns| ns / 1000),
            complete: self.complete,
            retrans_pkts: endings.retrans_pkts,
            objects,
        }
    }
}
