//! One node over an interval: means over time, from what packets found on arrival.

use ccp_ioam::{Node, State};

use super::Came;
use super::ledger::Reported;
use super::mean::{Mean, TimeMean};
use super::queue::{Found, Queue};
use super::summary::Hop;
use crate::meter::RATE_TIME_NS;
use crate::nodes::{self, NodeTable, Unit};

/// A packet's data that the next one needs.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at_ns: u64,
    /// Queue length plus free room; if unknown, the free room after the packet.
    capacity: Option<f64>,
    state: State,
}

#[derive(Debug)]
pub struct HopState {
    node_id: Option<u64>,
    unit: Option<Unit>,
    seen: Option<Seen>,
    queue: Queue,
    means: Means,
}

#[derive(Debug, Default)]
struct Means {
    pkts: u64,
    time_ns: u64,
    capacity: TimeMean,
    flows: TimeMean,
    arrived_pkts: Option<f64>,
    delay_ns: Mean,
    lost_pkts: Option<u64>,
    rssi_dbm: Mean,
    snr_db: Mean,
    mcs: Option<u8>,
    data_rate_bytes_per_s: Mean,
}

impl HopState {
    pub fn new(node_id: Option<u64>) -> Self {
        HopState { node_id, unit: None, seen: None, queue: Queue::default(), means: Means::default() }
    }

    pub fn node_id(&self) -> Option<u64> {
        self.node_id
    }

    /// Handles the node's data in a packet; returns the part about the flow's losses. `fresh_ns`: the flow paused, and
    /// this packet represents only this much time before it. `wall_ns`: arrival at the sink, if the node wrote no time.
    pub fn packet(
        &mut self,
        node: &Node,
        nodes: &NodeTable,
        came: &Came<'_>,
        wall_ns: u64,
        fresh_ns: Option<u64>,
    ) -> Reported {
        self.unit = nodes.unit(node);
        let at_ns = nodes::timestamp_us(node).map_or(wall_ns, |us| us * 1000);
        let mut state = nodes::state(node).copied().unwrap_or_default();
        state.queue_free_pkts = state.queue_free_pkts.or(nodes.untold_room(self.node_id));
        let last = self.seen.filter(|seen| seen.at_ns <= at_ns);
        let before = last.filter(|_| fresh_ns.is_none());
        let passed_ns = fresh_ns.or(before.map(|before| at_ns - before.at_ns)).unwrap_or(0);
        let time_ns = passed_ns as f64;
        self.means.time_ns += passed_ns;
        let came_pkts = before.and_then(|before| arrivals(&before.state, &state, time_ns));
        self.means.arrived(came_pkts.or(state.arrival_pkts_per_s.map(|rate| arrivals_before(rate, time_ns))));
        if let Some((depth, unit)) = node.queue_depth.zip(self.unit) {
            let own = if unit == Unit::Packets { came.pkts } else { came.len_bytes };
            let found = Found { at_ns, depth, own, wait_ns: node.transit_delay_ns, came_pkts };
            self.queue.found(found, fresh_ns);
        }
        let depth_pkts = node.queue_depth.filter(|_| self.unit == Some(Unit::Packets));
        let free_pkts = state.queue_free_pkts.filter(|_| !state.is_unlimited()).map(f64::from);
        let capacity = free_pkts.map(|free| free + depth_pkts.map_or(0.0, f64::from));
        let flows = state.flow_count.map(f64::from);
        let capacity_before = before.and_then(|before| before.capacity);
        self.means.capacity.between(capacity_before, capacity, time_ns);
        self.means.flows.between(
            before.and_then(|before| before.state.flow_count).map(f64::from),
            flows,
            time_ns,
        );
        let lost_pkts = last.and_then(|last| newly_lost(&last.state, &state));
        self.means.add(node, &state, lost_pkts);
        let left = if depth_pkts.is_some() {
            capacity
        } else {
            free_pkts.map(|free| (free - f64::from(came.pkts)).max(0.0))
        };
        self.seen = Some(Seen { at_ns, capacity: left, state });
        // A queue known never to fill drops nothing.
        let never_drops = nodes.untold_room(self.node_id).map(|_| 0);
        Reported {
            node_id: self.node_id,
            hop_limit: nodes::hop_limit(node),
            missing: state.flow_missing_pkts,
            dropped: state.flow_dropped_pkts.or(never_drops),
        }
    }

    /// Ends the interval and returns its means; `None` without data.
    pub fn take(&mut self) -> Option<Hop> {
        let means = std::mem::take(&mut self.means);
        if means.pkts == 0 {
            return None;
        }
        let whole = |value: Option<f64>| value.map(|value| value.round().max(0.0) as u64);
        let depth = self.queue.take();
        let depth_pkts = depth.filter(|_| self.unit == Some(Unit::Packets));
        let free_pkts = means.capacity.get().map(|capacity| capacity - depth_pkts.unwrap_or(0.0));
        let last_rate = self.seen.and_then(|seen| seen.state.arrival_pkts_per_s).map(f64::from);
        let timed = means.time_ns > 0;
        let mean_rate = means.arrived_pkts.map(|pkts| pkts * 1e9 / means.time_ns as f64);
        let rate = if timed { mean_rate } else { last_rate };
        Some(Hop {
            node_id: self.node_id,
            interval_us: means.time_ns / 1000,
            queue_depth_bytes: whole(depth.filter(|_| self.unit == Some(Unit::Bytes))),
            queue_depth_pkts: depth_pkts.map(|pkts| thousandths(pkts.max(0.0))),
            queue_free_pkts: free_pkts.map(|pkts| thousandths(pkts.max(0.0))),
            queue_is_unlimited: free_pkts.is_none()
                && self.seen.is_some_and(|seen| seen.state.is_unlimited()),
            arrival_pkts_per_s: whole(rate),
            flow_count: whole(means.flows.get()),
            transit_delay_us: whole(means.delay_ns.get().map(|ns| ns / 1000.0)),
            lost_pkts: means.lost_pkts,
            lost_congestion_pkts: 0,
            lost_link_pkts: 0,
            rssi_dbm: means.rssi_dbm.get().map(thousandths),
            snr_db: means.snr_db.get().map(thousandths),
            mcs: means.mcs,
            data_rate_bytes_per_s: whole(means.data_rate_bytes_per_s.get()),
        })
    }
}

impl Means {
    fn arrived(&mut self, pkts: Option<f64>) {
        self.arrived_pkts = pkts.map(|pkts| pkts + self.arrived_pkts.unwrap_or(0.0)).or(self.arrived_pkts);
    }

    fn add(&mut self, node: &Node, state: &State, lost_pkts: Option<u64>) {
        self.pkts += 1;
        self.delay_ns.add(node.transit_delay_ns.map(|ns| ns as f64));
        // The first count says nothing about earlier losses, but that the node counts.
        let lost_pkts = lost_pkts.or(state.lost_pkts.map(|_| 0));
        self.lost_pkts = lost_pkts.map(|lost| lost + self.lost_pkts.unwrap_or(0)).or(self.lost_pkts);
        self.rssi_dbm.add(state.rssi_dbm);
        self.snr_db.add(state.snr_db);
        self.mcs = state.mcs.or(self.mcs);
        self.data_rate_bytes_per_s.add(state.data_rate_bytes_per_s.map(f64::from));
    }
}

/// A packet's own contribution to the rate of [`crate::Meter`].
fn own_rate() -> f64 {
    1e9 / RATE_TIME_NS as f64
}

/// Packets that arrived between two packets, including the second, from the rates that both found. Between arrivals the
/// rate falls as exp(-t/T), and the second packet counts itself. The rest arrived in between, assumed evenly spread.
fn arrivals(before: &State, after: &State, time_ns: f64) -> Option<f64> {
    let ages = time_ns / RATE_TIME_NS as f64;
    let (before, after) = (before.arrival_pkts_per_s?, after.arrival_pkts_per_s?);
    let excess = f64::from(after) - own_rate() - f64::from(before) * (-ages).exp();
    // Their rate times the time; for short times just the rise of the rate.
    let ages_per_weight = if ages > 1e-9 { -ages / (-ages).exp_m1() } else { 1.0 };
    Some(1.0 + excess / own_rate() * ages_per_weight)
}

/// Packets that arrived in a time ending with a packet, itself included, if its rate holds for all of it.
fn arrivals_before(rate_pkts_per_s: u32, time_ns: f64) -> f64 {
    1.0 + (f64::from(rate_pkts_per_s) - own_rate()) * time_ns / 1e9
}

/// Losses between two counts; 0 if the count decreased.
fn newly_lost(before: &State, after: &State) -> Option<u64> {
    let modulus = State::LOST_MODULUS;
    let lost = (after.lost_pkts? + modulus - before.lost_pkts?) % modulus;
    (lost < modulus / 2).then_some(lost)
}

fn thousandths(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
