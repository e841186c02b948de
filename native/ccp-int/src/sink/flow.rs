//! A sink's state of one flow.

use ccp_ioam::Numbers;

use super::echo::Echo;
use super::hop::HopState;
use super::ledger::{Ledger, Losses, Reported};
use super::mean::Mean;
use super::summary::{Hop, LossCause, Summary};
use super::{Came, Carried};
use crate::FlowKey;
use crate::gaps::Gaps;
use crate::nodes::{NodeTable, node_id};

/// Means extend over pauses shorter than this many intervals.
const PAUSE_INTERVALS: u64 = 10;

#[derive(Debug, Default)]
pub struct FlowState {
    /// Packets arrived since the last summary.
    active: bool,
    last_ns: Option<u64>,
    /// Start of the next summary's counts.
    since_ns: u64,
    /// If the last packet came after a pause: the time before it that it represents.
    fresh_ns: Option<u64>,
    received_pkts: u64,
    /// Packets without telemetry, counted elsewhere.
    plain_pkts: Option<u64>,
    latency_us: Mean,
    latency_max_us: Option<u64>,
    last_latency_us: Option<u64>,
    jitter_us: Mean,
    cwnd_bytes: Option<u32>,
    gaps: Option<Gaps>,
    hops: Vec<HopState>,
    reported: Vec<Reported>,
    ledger: Ledger,
    /// Losses in earlier summaries.
    summarized: Losses,
    summarized_pkts: u64,
    pub echo: Echo,
}

impl FlowState {
    /// Counts packets; returns whether they are the first since the last summary.
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

    pub fn is_active(&self) -> bool {
        self.active
    }

    /// Counts packets without telemetry.
    pub fn plain(&mut self, pkts: u64) {
        if let Some(gaps) = &mut self.gaps {
            gaps.plain(pkts);
        }
    }

    /// Sets the total of packets without telemetry; returns how many are new.
    pub fn plain_so_far(&mut self, plain_pkts: u64) -> u64 {
        let reported = self.plain_pkts.replace(plain_pkts);
        // A total that decreased has restarted.
        let new = reported.map_or(0, |reported| plain_pkts.checked_sub(reported).unwrap_or(plain_pkts));
        self.received_pkts += new;
        self.plain(new);
        new
    }

    /// Handles a packet's telemetry.
    pub fn packet(&mut self, wall_ns: u64, came: &Came<'_>, carried: &Carried, nodes: &NodeTable) {
        let numbers = Numbers::of(carried.edge, carried.tcp, came.tcp_sequence, came.pkts);
        self.latency(carried.latency_us(wall_ns));
        self.cwnd_bytes = carried.tcp.and_then(|tcp| tcp.cwnd_bytes).or(self.cwnd_bytes);
        // Nodes' data counts only in order: what a late packet found is known from those that overtook it.
        if let (Some(gaps), Some(numbers)) = (&mut self.gaps, numbers)
            && !gaps.is_next(numbers)
        {
            self.received_pkts = self.received_pkts.saturating_sub(gaps.came(numbers));
            return self.ledger.missing(gaps.missing());
        }
        self.look_at(wall_ns, came, carried, nodes);
        let Some(numbers) = numbers else { return self.plain(came.pkts.into()) };
        let gaps = match &mut self.gaps {
            Some(gaps) => {
                gaps.came(numbers);
                gaps
            }
            none => none.insert(Gaps::new(numbers)),
        };
        // If a super-packet was split, all segments carry what the first one found.
        if carried.edge.and_then(|edge| edge.sequence) == Some(numbers.first) {
            self.ledger.packet(&self.reported, came.hop_limit, gaps.missing());
        } else {
            self.ledger.missing(gaps.missing());
        }
    }

    pub fn echo(&mut self, came: &Came<'_>, carried: &Carried) {
        let numbers = Numbers::of(carried.edge, carried.tcp, came.tcp_sequence, came.pkts);
        if let Some((numbers, gaps)) = numbers.zip(self.gaps.as_ref()) {
            self.echo.packet(carried, numbers, gaps.missing(), came.hop_limit);
        }
    }

    pub fn losses(&self) -> Losses {
        self.ledger.losses()
    }

    fn latency(&mut self, latency_us: Option<u64>) {
        let Some(latency_us) = latency_us else { return };
        self.latency_us.add(Some(latency_us as f64));
        self.latency_max_us = self.latency_max_us.max(Some(latency_us));
        self.jitter_us.add(self.last_latency_us.map(|last_us| last_us.abs_diff(latency_us) as f64));
        self.last_latency_us = Some(latency_us);
    }

    fn look_at(&mut self, wall_ns: u64, came: &Came<'_>, carried: &Carried, nodes: &NodeTable) {
        self.reported.clear();
        self.hops.truncate(carried.nodes.len());
        for (at, node) in carried.nodes.iter().enumerate() {
            let id = node_id(node);
            match self.hops.get(at).map(HopState::node_id) {
                None => self.hops.push(HopState::new(id)),
                Some(known) if known != id => self.hops[at] = HopState::new(id),
                Some(_) => {}
            }
            self.reported.push(self.hops[at].packet(node, nodes, came, wall_ns, self.fresh_ns));
        }
    }

    fn take_hops(&mut self) -> Vec<Hop> {
        let ledger = &mut self.ledger;
        let hops = self.hops.iter_mut().enumerate().filter_map(|(at, hop)| {
            let (lost_congestion_pkts, lost_link_pkts) = ledger.take_hop(at);
            Some(Hop { lost_congestion_pkts, lost_link_pkts, ..hop.take()? })
        });
        hops.collect()
    }

    pub fn take(&mut self, flow: &FlowKey) -> Summary {
        self.active = false;
        let received_pkts = std::mem::take(&mut self.received_pkts);
        let last_ns = self.last_ns.unwrap_or(self.since_ns);
        let interval_ns = last_ns.saturating_sub(self.since_ns);
        self.since_ns = last_ns;
        let whole = |mean: Mean| mean.get().map(|value| value.round() as u64);
        let lost_pkts = self.gaps.as_ref().map(|gaps| {
            let new_pkts = (gaps.missing().max(0) as u64).saturating_sub(self.summarized_pkts);
            self.summarized_pkts += new_pkts;
            new_pkts
        });
        let by_cause = self.gaps.is_some().then(|| {
            let maximum = self.losses().maximum(self.summarized);
            maximum.since(std::mem::replace(&mut self.summarized, maximum))
        });
        let sent_pkts = |lost: u64| lost.saturating_add(received_pkts);
        Summary {
            flow: flow.into(),
            interval_us: (interval_ns / 1000).max(1),
            end_mono_us: last_ns / 1000,
            received_pkts,
            lost_pkts,
            lost_congestion_pkts: by_cause.map(|lost| lost.congestion),
            lost_link_pkts: by_cause.map(|lost| lost.link),
            lost_unknown_pkts: by_cause.map(|lost| lost.unknown),
            latency_us: whole(std::mem::take(&mut self.latency_us)),
            latency_max_us: self.latency_max_us.take(),
            jitter_us: whole(std::mem::take(&mut self.jitter_us)),
            loss_ratio: lost_pkts
                .filter(|lost| sent_pkts(*lost) > 0)
                .map(|lost| lost as f64 / sent_pkts(lost) as f64),
            loss_cause: by_cause.and_then(cause),
            cwnd_bytes: self.cwnd_bytes.take(),
            has_silent_hop: self.ledger.has_silent_hop(),
            hops: self.take_hops(),
        }
    }
}

/// If the cause of some losses is unknown, only a full queue can be reported.
fn cause(lost: Losses) -> Option<LossCause> {
    match (lost.link > 0, lost.congestion > 0) {
        (true, true) => Some(LossCause::Mixed),
        (false, true) => Some(LossCause::Overflow),
        _ if lost.unknown > 0 => None,
        (true, false) => Some(LossCause::Wireless),
        (false, false) => Some(LossCause::None),
    }
}
