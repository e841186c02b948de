//! Congestion controls by name.

use ccp_tcp::{Bbr, CaState, Congestion, Cubic, RateSample, Reno, Sock, Steered};

use crate::agent::AgentFlow;
use crate::features::Offered;

pub enum Control {
    /// RFC 5681.
    Reno(Reno),
    Cubic(Cubic),
    /// BBR, version 1. Boxed: it is larger than the others.
    Bbr(Box<Bbr>),
    /// Window and rate are set from outside.
    Steered(Steered),
    /// Offered by a feature.
    Offered(Box<dyn Offered>),
    Agent(Box<AgentFlow>),
}

impl Control {
    /// A congestion control without an agent; none if the name is unknown.
    pub fn plain(name: &str) -> Option<Self> {
        Some(match name {
            "reno" => Self::Reno(Reno::default()),
            "cubic" => Self::Cubic(Cubic::default()),
            "bbr" => Self::Bbr(Box::default()),
            "steered" => Self::Steered(Steered),
            _ => return None,
        })
    }

    pub(crate) fn close(&mut self, sock: &Sock) {
        match self {
            Self::Offered(control) => control.close(sock),
            Self::Agent(flow) => flow.close(sock),
            _ => {}
        }
    }

    pub fn agent(&self) -> Option<&AgentFlow> {
        if let Self::Agent(flow) = self { Some(flow) } else { None }
    }

    pub fn agent_mut(&mut self) -> Option<&mut AgentFlow> {
        if let Self::Agent(flow) = self { Some(flow) } else { None }
    }
}

/// Calls the same method of any of them.
macro_rules! each {
    ($control:expr, $inner:ident => $call:expr) => {
        match $control {
            Control::Reno($inner) => $call,
            Control::Cubic($inner) => $call,
            Control::Bbr($inner) => $call,
            Control::Steered($inner) => $call,
            Control::Offered($inner) => $call,
            Control::Agent($inner) => $call,
        }
    };
}

impl Congestion for Control {
    fn init(&mut self, sock: &mut Sock) {
        each!(self, c => c.init(sock));
    }

    fn ssthresh(&mut self, sock: &mut Sock) -> u32 {
        each!(self, c => c.ssthresh(sock))
    }

    fn cong_avoid(&mut self, sock: &mut Sock, acked: u32) {
        each!(self, c => c.cong_avoid(sock, acked));
    }

    fn has_cong_control(&self) -> bool {
        each!(self, c => c.has_cong_control())
    }

    fn cong_control(&mut self, sock: &mut Sock, sample: &RateSample, ece: bool) {
        each!(self, c => c.cong_control(sock, sample, ece));
    }

    fn pkts_acked(&mut self, sock: &mut Sock, acked: u32, rtt_us: i64) {
        each!(self, c => c.pkts_acked(sock, acked, rtt_us));
    }

    fn in_ack_event(&mut self, sock: &mut Sock) {
        each!(self, c => c.in_ack_event(sock));
    }

    fn set_state(&mut self, sock: &mut Sock, new: CaState) {
        each!(self, c => c.set_state(sock, new));
    }

    fn tx_start(&mut self, sock: &mut Sock) {
        each!(self, c => c.tx_start(sock));
    }

    fn undo_cwnd(&mut self, sock: &mut Sock) -> u32 {
        each!(self, c => c.undo_cwnd(sock))
    }

    fn needs_ecn(&self) -> bool {
        each!(self, c => c.needs_ecn())
    }

    fn pacing_ratios_percent(&self) -> (u32, u32) {
        each!(self, c => c.pacing_ratios_percent())
    }

    fn buffered_windows(&self) -> u32 {
        each!(self, c => c.buffered_windows())
    }

    fn min_tso_segs(&self, sock: &Sock) -> u32 {
        each!(self, c => c.min_tso_segs(sock))
    }
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
