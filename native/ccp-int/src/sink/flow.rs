//! What a sink knows of one flow.

use ccp_ioam::Numbers;

use super::cause::{Evidence, judge};
use super::echo::Echo;
use super::hop::HopState;
use super::losses::{Losses, Sequence};
use super::mean::Mean;
use super::summary::{LossCause, Summary};
use super::{Came, Carried};
use crate::FlowKey;
use crate::nodes::{NodeTable, node_id};

/// Means go over pauses that are shorter than so many intervals.
const PAUSE_INTERVALS: u64 = 10;

/// Statistics of a flow, and what they need of its last packets.
#[derive(Debug, Default)]
pub struct FlowState {
    /// Packets came since the last summary.
    active: bool,
    last_ns: Option<u64>,
    /// From when on the next summary counts.
    since_ns: u64,
    /// If the last packet came after a pause: for how much of the time before it it stands.
    fresh_ns: Option<u64>,
    received_pkts: u64,
    /// Counted elsewhere, without telemetry.
    plain_pkts: Option<u64>,
    latency_us: Mean,
    latency_max_us: Option<u64>,
    last_latency_us: Option<u64>,
    jitter_us: Mean,
    cwnd_bytes: Option<u32>,
    sequence: Option<Sequence>,
    hops: Vec<HopState>,
    evidence: Vec<Evidence>,
    /// What its sender is to be told.
    pub echo: Echo,
}

impl FlowState {
    /// So many packets came; whether they are the first since the last summary.
    pub fn came(&mut self, mono_ns: u64, pkts: u64, interval_ns: u64) -> bool {
        let last_ns = self.last_ns.filter(|last_ns| mono_ns < last_ns + PAUSE_INTERVALS * interval_ns);
        self.fresh_ns = last_ns.is_none().then_some(interval_ns);
        let is_first = !std::mem::replace(&mut self.active, true);
        if is_first && last_ns.is_none() {
            self.since_ns = mono_ns.saturating_sub(interval_ns);
        }
        self.last_ns = Some(mono_ns);
        self.received_pkts += pkts;
        is_first
    }

    /// Whether packets came since the last summary.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// They had no telemetry.
    pub fn plain(&mut self, pkts: u64) {
        if let Some(sequence) = &mut self.sequence {
            sequence.plain(pkts);
        }
    }

    /// So many have come without telemetry so far; how many of them are new.
    pub fn plain_so_far(&mut self, plain_pkts: u64) -> u64 {
        let told = self.plain_pkts.replace(plain_pkts);
        // A count that went back began anew.
        let new = told.map_or(0, |told| plain_pkts.checked_sub(told).unwrap_or(plain_pkts));
        self.received_pkts += new;
        self.plain(new);
        new
    }

    /// What came had this telemetry; what was lost in front of it.
    pub fn packet(&mut self, wall_ns: u64, came: &Came<'_>, carried: &Carried, nodes: &NodeTable) -> Losses {
        let numbers = Numbers::of(carried.edge, carried.tcp, came.tcp_sequence, came.pkts);
        self.latency(carried.latency_us(wall_ns));
        self.cwnd_bytes = carried.tcp.and_then(|tcp| tcp.cwnd_bytes).or(self.cwnd_bytes);
        // Nodes are asked about packets in their order only: what a late one found is known by those that overtook it.
        if let (Some(sequence), Some(numbers)) = (&mut self.sequence, numbers)
            && !sequence.is_next(numbers)
        {
            self.received_pkts = self.received_pkts.saturating_sub(sequence.old(numbers));
            return Losses::default();
        }
        self.look_at(wall_ns, came, carried, nodes);
        match (&mut self.sequence, numbers) {
            (Some(sequence), Some(numbers)) => {
                return sequence.next(numbers, |missing| judge(missing, &self.evidence));
            }
            (Some(sequence), None) => sequence.plain(came.pkts.into()),
            (sequence, numbers) => *sequence = numbers.map(Sequence::new),
        }
        Losses::default()
    }

    fn latency(&mut self, latency_us: Option<u64>) {
        let Some(latency_us) = latency_us else { return };
        self.latency_us.add(Some(latency_us as f64));
        self.latency_max_us = self.latency_max_us.max(Some(latency_us));
        self.jitter_us.add(self.last_latency_us.map(|last_us| last_us.abs_diff(latency_us) as f64));
        self.last_latency_us = Some(latency_us);
    }

    fn look_at(&mut self, wall_ns: u64, came: &Came<'_>, carried: &Carried, nodes: &NodeTable) {
        self.evidence.clear();
        self.hops.truncate(carried.nodes.len());
        for (at, node) in carried.nodes.iter().enumerate() {
            let id = node_id(node);
            match self.hops.get(at).map(HopState::node_id) {
                None => self.hops.push(HopState::new(id)),
                Some(known) if known != id => self.hops[at] = HopState::new(id),
                Some(_) => {}
            }
            self.evidence.push(self.hops[at].packet(node, nodes, came, wall_ns, self.fresh_ns));
        }
    }

    /// The summary, after which all is counted anew.
    pub fn take(&mut self, flow: &FlowKey) -> Summary {
        self.active = false;
        let received_pkts = std::mem::take(&mut self.received_pkts);
        let last_ns = self.last_ns.unwrap_or(self.since_ns);
        let interval_ns = last_ns.saturating_sub(self.since_ns);
        self.since_ns = last_ns;
        let whole = |mean: Mean| mean.get().map(|value| value.round() as u64);
        let lost = self.sequence.as_mut().map(Sequence::take);
        let lost_pkts = lost.as_ref().map(Losses::total);
        let by_cause = lost.filter(|lost| lost.unknown == 0);
        let sent_pkts = |lost: u64| lost.saturating_add(received_pkts);
        Summary {
            flow: flow.into(),
            interval_us: (interval_ns / 1000).max(1),
            end_mono_us: last_ns / 1000,
            received_pkts,
            lost_pkts,
            lost_wireless_pkts: by_cause.map(|lost| lost.wireless),
            lost_overflow_pkts: by_cause.map(|lost| lost.overflow),
            latency_us: whole(std::mem::take(&mut self.latency_us)),
            latency_max_us: self.latency_max_us.take(),
            jitter_us: whole(std::mem::take(&mut self.jitter_us)),
            loss_ratio: lost_pkts
                .filter(|lost| sent_pkts(*lost) > 0)
                .map(|lost| lost as f64 / sent_pkts(lost) as f64),
            loss_cause: by_cause.map(cause),
            cwnd_bytes: self.cwnd_bytes.take(),
            hops: self.hops.iter_mut().filter_map(HopState::take).collect(),
        }
    }
}

fn cause(lost: Losses) -> LossCause {
    match (lost.wireless > 0, lost.overflow > 0) {
        (false, false) => LossCause::None,
        (true, false) => LossCause::Wireless,
        (false, true) => LossCause::Overflow,
        (true, true) => LossCause::Mixed,
    }
}
