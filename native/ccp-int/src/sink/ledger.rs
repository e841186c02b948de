//! Locates losses by comparing the nodes' counts of a flow.
//!
//! Of the packets that a node misses beyond those that the previous node misses, that one's queue dropped as many as it
//! reports, and the link between them lost the rest. These are differences of counters in packets, without guesses, and
//! late arrivals are corrected by the counters themselves.

use ccp_ioam::State;

/// A counter that moved further in one step has restarted, or is another one.
const MAX_STEP: i64 = 1 << 14;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Dropped by a node's queue.
    pub congestion: u64,
    /// Lost between two nodes that count.
    pub link: u64,
    /// Lost where no node reports.
    pub unknown: u64,
}

impl Losses {
    /// The maximum of each.
    pub fn maximum(self, other: Self) -> Self {
        Losses {
            congestion: self.congestion.max(other.congestion),
            link: self.link.max(other.link),
            unknown: self.unknown.max(other.unknown),
        }
    }

    /// Increase since `before`.
    pub fn since(self, before: Self) -> Self {
        Losses {
            congestion: self.congestion - before.congestion,
            link: self.link - before.link,
            unknown: self.unknown - before.unknown,
        }
    }
}

/// A node's data for the ledger.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reported {
    pub node_id: Option<u64>,
    pub hop_limit: Option<u8>,
    pub missing: Option<u64>,
    pub dropped: Option<u64>,
}

impl Reported {
    fn is_at(&self, other: &Reported) -> bool {
        let place = |stated: &Reported| (stated.node_id, stated.hop_limit, stated.missing.is_some());
        place(self) == place(other)
    }
}

/// A counter on the wire, relative to the start of the path.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    last: Option<u64>,
    sum: i64,
}

impl Counter {
    /// Advances to a packet's value; false if that is not a valid step, or the first value.
    fn step(&mut self, stated: Option<u64>) -> bool {
        let Some(stated) = stated else { return true };
        let Some(last) = self.last.replace(stated) else { return false };
        let modulus = State::FLOW_MODULUS as i64;
        let ahead = (stated as i64 - last as i64).rem_euclid(modulus);
        let step = if ahead > modulus / 2 { ahead - modulus } else { ahead };
        self.sum += step;
        step.abs() <= MAX_STEP
    }
}

/// Losses from a node to the next: in its queue, and on the link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Lost {
    congestion: i64,
    link: i64,
}

impl Lost {
    fn add(&mut self, other: Lost) {
        self.congestion += other.congestion;
        self.link += other.link;
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Hop {
    stated: Reported,
    missing: Counter,
    dropped: Counter,
    lost: Lost,
    /// Part already reported in summaries.
    reported: Lost,
}

#[derive(Debug, Default)]
pub struct Ledger {
    hops: Vec<Hop>,
    sink_hop_limit: Option<u8>,
    /// Packets that the sink missed at the start of the path.
    sink_base: i64,
    sink_missing: i64,
    /// Losses on earlier paths.
    past: Lost,
}

impl Ledger {
    /// Handles a packet in order, with its nodes' data; the sink misses `sink_missing` packets of the flow.
    pub fn packet(&mut self, stated: &[Reported], sink_hop_limit: Option<u8>, sink_missing: i64) {
        self.sink_missing = sink_missing;
        let same = self.hops.len() == stated.len()
            && self.sink_hop_limit == sink_hop_limit
            && self.hops.iter().zip(stated).all(|(hop, stated)| hop.stated.is_at(stated));
        let steps = same
            && self.hops.iter_mut().zip(stated).all(|(hop, stated)| {
                hop.stated = *stated;
                hop.missing.step(stated.missing) & hop.dropped.step(stated.dropped)
            });
        if !steps {
            self.begin(stated, sink_hop_limit);
        } else {
            self.judge();
        }
    }

    /// Updates the sink's missing packets only.
    pub fn missing(&mut self, sink_missing: i64) {
        self.sink_missing = sink_missing;
    }

    fn begin(&mut self, stated: &[Reported], sink_hop_limit: Option<u8>) {
        self.hops.drain(..).for_each(|hop| self.past.add(hop.lost));
        self.hops.extend(stated.iter().map(|stated| {
            let counter = |last| Counter { last, sum: 0 };
            Hop {
                stated: *stated,
                missing: counter(stated.missing),
                dropped: counter(stated.dropped),
                ..Hop::default()
            }
        }));
        (self.sink_hop_limit, self.sink_base) = (sink_hop_limit, self.sink_missing);
    }

    fn judge(&mut self) {
        let mut from = self.next_counting(0);
        while let Some(at) = from {
            let next = self.next_counting(at + 1);
            let after = next.map_or(self.sink_missing - self.sink_base, |next| self.hops[next].missing.sum);
            let lost = after - self.hops[at].missing.sum;
            let end = next.unwrap_or(self.hops.len());
            self.judge_span(at, end, lost);
            from = next;
        }
    }

    fn next_counting(&self, from: usize) -> Option<usize> {
        (from..self.hops.len()).find(|at| self.hops[*at].stated.missing.is_some())
    }

    /// Attributes the losses from a counting node to the next one, or to the sink.
    fn judge_span(&mut self, at: usize, end: usize, lost: i64) {
        let is_adjacent = end == at + 1 && self.is_adjacent(at);
        // If waiting packets can still be dropped, a node reports drops when none wait; until then its last
        // value holds.
        if is_adjacent && self.hops[at].stated.dropped.is_none() && self.hops[at].dropped.last.is_some() {
            return;
        }
        let mut left = lost;
        for hop in &mut self.hops[at..end] {
            hop.lost.congestion = hop.dropped.sum.clamp(0, left.max(0));
            left -= hop.lost.congestion;
        }
        if is_adjacent && self.hops[at].stated.dropped.is_some() {
            self.hops[at].lost.link = left;
        }
    }

    /// Whether no other node between a node and the next, or the sink, lowers the hop limit.
    fn is_adjacent(&self, at: usize) -> bool {
        // A node lowers it before it writes; a sink does not.
        let (next, maximum) = match self.hops.get(at + 1) {
            Some(next) => (next.stated.hop_limit, 1),
            None => (self.sink_hop_limit, 0),
        };
        let fall = self.hops[at].stated.hop_limit.zip(next).and_then(|(own, next)| own.checked_sub(next));
        fall.is_some_and(|fall| fall <= maximum)
    }

    /// Whether nodes on the path wrote nothing.
    pub fn has_silent_hop(&self) -> bool {
        (0..self.hops.len()).any(|at| !self.is_adjacent(at))
    }

    pub fn losses(&self) -> Losses {
        let mut lost = self.past;
        self.hops.iter().for_each(|hop| lost.add(hop.lost));
        let total = self.sink_missing.max(0) as u64;
        let congestion = (lost.congestion.max(0) as u64).min(total);
        let link = (lost.link.max(0) as u64).min(total - congestion);
        Losses { congestion, link, unknown: total - congestion - link }
    }

    /// Unreported drops of a hop's queue, and losses of its link.
    pub fn take_hop(&mut self, at: usize) -> (u64, u64) {
        let Some(hop) = self.hops.get_mut(at) else { return (0, 0) };
        let new = |lost: i64, reported: &mut i64| {
            let new = (lost - *reported).max(0);
            *reported += new;
            new as u64
        };
        let Hop { lost, reported, .. } = hop;
        (new(lost.congestion, &mut reported.congestion), new(lost.link, &mut reported.link))
    }
}
