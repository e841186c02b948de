//! Where packets were lost, and why: what nodes count of a flow, held against each other.
//!
//! Of what a node lacks beyond what the node before it lacked, that one's queue dropped as many as it says, and the link
//! between the two lost the rest. All of it is a difference of counters that packets carry, so nothing is guessed, and what
//! comes late is taken off again by the counters themselves.

use ccp_ioam::State;

/// A counter that moved further at once has started anew, or is another one.
const MOST_STEP: i64 = 1 << 14;

/// Packets of a flow that are lost, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Dropped by the queue of a node.
    pub congestion: u64,
    /// Lost between two nodes of which both count.
    pub link: u64,
    /// Lost where nobody tells.
    pub unknown: u64,
}

impl Losses {
    /// The greater one of each.
    pub fn most(self, other: Self) -> Self {
        Losses {
            congestion: self.congestion.max(other.congestion),
            link: self.link.max(other.link),
            unknown: self.unknown.max(other.unknown),
        }
    }

    /// What came since there were no more than these.
    pub fn since(self, before: Self) -> Self {
        Losses {
            congestion: self.congestion - before.congestion,
            link: self.link - before.link,
            unknown: self.unknown - before.unknown,
        }
    }
}

/// What a node wrote that the ledger needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    /// Its number.
    pub node_id: Option<u64>,
    /// Hop limit with which the packet left.
    pub hop_limit: Option<u8>,
    /// Packets that had not come.
    pub missing: Option<u64>,
    /// Packets that its queue dropped.
    pub dropped: Option<u64>,
}

impl Told {
    /// Whether it is the same node, at the same place.
    fn is_at(&self, other: &Told) -> bool {
        let place = |told: &Told| (told.node_id, told.hop_limit, told.missing.is_some());
        place(self) == place(other)
    }
}

/// A counter of the wire, from when the path began.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    last: Option<u64>,
    sum: i64,
}

impl Counter {
    /// Goes on to what a packet carried; false if that is no such step, or the first that is told.
    fn step(&mut self, told: Option<u64>) -> bool {
        let Some(told) = told else { return true };
        let Some(last) = self.last.replace(told) else { return false };
        let modulus = State::FLOW_MODULUS as i64;
        let ahead = (told as i64 - last as i64).rem_euclid(modulus);
        let step = if ahead > modulus / 2 { ahead - modulus } else { ahead };
        self.sum += step;
        step.abs() <= MOST_STEP
    }
}

/// What was lost from one node to the next: in its queue, and behind it.
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
    told: Told,
    missing: Counter,
    dropped: Counter,
    lost: Lost,
    /// What summaries had of it.
    reported: Lost,
}

/// The losses of one flow.
#[derive(Debug, Default)]
pub struct Ledger {
    hops: Vec<Hop>,
    sink_hop_limit: Option<u8>,
    /// What the sink lacked when the path began.
    sink_base: i64,
    /// What the sink lacks now.
    sink_missing: i64,
    /// Lost on paths before this one.
    past: Lost,
}

impl Ledger {
    /// A packet came in order, with this of the nodes on its path; the sink lacks so many of the flow.
    pub fn packet(&mut self, told: &[Told], sink_hop_limit: Option<u8>, sink_missing: i64) {
        self.sink_missing = sink_missing;
        let same = self.hops.len() == told.len()
            && self.sink_hop_limit == sink_hop_limit
            && self.hops.iter().zip(told).all(|(hop, told)| hop.told.is_at(told));
        let steps = same
            && self.hops.iter_mut().zip(told).all(|(hop, told)| {
                hop.told = *told;
                hop.missing.step(told.missing) & hop.dropped.step(told.dropped)
            });
        if !steps {
            self.begin(told, sink_hop_limit);
        } else {
            self.judge();
        }
    }

    /// The sink lacks so many now; nothing else is known.
    pub fn missing(&mut self, sink_missing: i64) {
        self.sink_missing = sink_missing;
    }

    fn begin(&mut self, told: &[Told], sink_hop_limit: Option<u8>) {
        self.hops.drain(..).for_each(|hop| self.past.add(hop.lost));
        self.hops.extend(told.iter().map(|told| {
            let counter = |last| Counter { last, sum: 0 };
            Hop {
                told: *told,
                missing: counter(told.missing),
                dropped: counter(told.dropped),
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
        (from..self.hops.len()).find(|at| self.hops[*at].told.missing.is_some())
    }

    /// Of the nodes from one that counts up to the next, or the sink.
    fn judge_span(&mut self, at: usize, end: usize, lost: i64) {
        let is_adjacent = end == at + 1 && self.is_adjacent(at);
        // Where what waits may still be dropped, it is told when nothing waits: until then what it said last holds.
        if is_adjacent && self.hops[at].told.dropped.is_none() && self.hops[at].dropped.last.is_some() {
            return;
        }
        let mut left = lost;
        for hop in &mut self.hops[at..end] {
            hop.lost.congestion = hop.dropped.sum.clamp(0, left.max(0));
            left -= hop.lost.congestion;
        }
        if is_adjacent && self.hops[at].told.dropped.is_some() {
            self.hops[at].lost.link = left;
        }
    }

    /// Whether there is nobody between a node and the next, or the sink, that lowers the hop limit.
    fn is_adjacent(&self, at: usize) -> bool {
        // A node lowers it before it writes; a sink does not.
        let (next, most) = match self.hops.get(at + 1) {
            Some(next) => (next.told.hop_limit, 1),
            None => (self.sink_hop_limit, 0),
        };
        let fall = self.hops[at].told.hop_limit.zip(next).and_then(|(own, next)| own.checked_sub(next));
        fall.is_some_and(|fall| fall <= most)
    }

    /// Whether there is a node, or more than one, on the path that wrote nothing.
    pub fn has_silent_hop(&self) -> bool {
        (0..self.hops.len()).any(|at| !self.is_adjacent(at))
    }

    /// All that was lost since the flow began.
    pub fn losses(&self) -> Losses {
        let mut lost = self.past;
        self.hops.iter().for_each(|hop| lost.add(hop.lost));
        let total = self.sink_missing.max(0) as u64;
        let congestion = (lost.congestion.max(0) as u64).min(total);
        let link = (lost.link.max(0) as u64).min(total - congestion);
        Losses { congestion, link, unknown: total - congestion - link }
    }

    /// What the queue of a hop dropped, and what the link behind it lost, that no summary has told yet.
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
