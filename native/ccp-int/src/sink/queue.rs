//! The mean length of a queue by time, from what packets found that came to it.
//!
//! Packets come in bursts, and more of them see a queue when it is long, so that a mean over packets says nothing of the
//! queue. Between two packets the queue goes evenly from what the first one leaves behind to what the second one finds.
//! Where packets say for how long they waited, more is known: those in front of a packet have gone when its transmission
//! starts, and the flow's own packets have times of their own.

use std::collections::VecDeque;

use super::mean::TimeMean;

/// Nodes tell times in microseconds, and so the order of two events within one is not known.
const TICK_NS: u64 = 1000;
/// Packets of a longer queue are not looked at one by one.
const MAX_WAITING_PKTS: u32 = 10_000;

/// What a packet found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// When it came.
    pub at_ns: u64,
    /// What waited, without the packet.
    pub depth: u32,
    /// What the packet adds, in the same unit: 1 if that is packets.
    pub own: u32,
    /// Until the start of its transmission.
    pub wait_ns: Option<u64>,
    /// Packets that came since the one before.
    pub came_pkts: Option<f64>,
}

impl Found {
    /// Packets that came between the one before and this one.
    fn others(&self) -> Option<usize> {
        self.came_pkts.map(|came| (came - 1.0).round() as usize)
    }
}

/// A queue over time.
#[derive(Debug, Default)]
pub struct Queue {
    before: Option<Found>,
    waiting: Waiting,
    mean: TimeMean,
}

impl Queue {
    /// A packet came. `fresh_ns`: it stands for so much of the time before it, and nothing is known of more.
    pub fn found(&mut self, found: Found, fresh_ns: Option<u64>) {
        let before = self.before.replace(found).filter(|before| before.at_ns <= found.at_ns);
        if before.is_none() || fresh_ns.is_some() {
            self.waiting = Waiting::default();
            let depth = f64::from(found.depth);
            self.mean.ramp(depth, depth, 0.0, fresh_ns.unwrap_or(0) as f64);
        }
        let before = before.filter(|_| fresh_ns.is_none());
        let time_ns = before.map_or(0, |before| found.at_ns - before.at_ns) as f64;
        let Some(wait_ns) = found.wait_ns.filter(|_| found.own == 1 && found.depth <= MAX_WAITING_PKTS)
        else {
            self.waiting = Waiting::default();
            if let Some(before) = before {
                let left = f64::from(before.depth) + f64::from(before.own);
                self.mean.ramp(left, found.depth.into(), time_ns, time_ns);
            }
            return;
        };
        let old_area = before.map_or(0.0, |before| self.waiting.pass(before.at_ns, found.at_ns));
        let new_pkts = self.waiting.find(&found, wait_ns);
        if let Some(before) = before {
            // None of the new ones leaves before those that were there; after that, as many come as go.
            let ramp_ns = before.wait_ns.map_or(time_ns, |wait_ns| (wait_ns as f64).min(time_ns));
            let new_area = new_pkts as f64 * (time_ns - ramp_ns / 2.0);
            self.mean.add(old_area + new_area, time_ns, found.depth.into());
        }
    }

    /// The mean since this was last asked; `None` if no packet came.
    pub fn take(&mut self) -> Option<f64> {
        std::mem::take(&mut self.mean).get()
    }
}

/// Packets that wait in a queue, by when their transmission starts: known of the flow's own, and of others that came
/// between two of them taken as evenly spread.
#[derive(Debug, Default)]
struct Waiting {
    /// In order.
    starts_ns: VecDeque<u64>,
}

impl Waiting {
    /// Number of packets times time until now, and forgets who left.
    fn pass(&mut self, from_ns: u64, now_ns: u64) -> f64 {
        let mut area_ns = self.starts_ns.len() as u128 * u128::from(now_ns - from_ns);
        for start_ns in self.starts_ns.iter().take_while(|start_ns| **start_ns < now_ns) {
            area_ns -= u128::from(now_ns - (*start_ns).max(from_ns));
        }
        while self.starts_ns.front().is_some_and(|start_ns| start_ns + TICK_NS < now_ns) {
            self.starts_ns.pop_front();
        }
        area_ns as f64
    }

    /// A packet of the flow comes; how many of those that it finds are new.
    fn find(&mut self, found: &Found, wait_ns: u64) -> usize {
        let (now_ns, start_ns, depth_pkts) = (found.at_ns, found.at_ns + wait_ns, found.depth as usize);
        while self.starts_ns.len() > depth_pkts {
            self.starts_ns.pop_front();
        }
        let missing = depth_pkts - self.starts_ns.len();
        let new = found.others().map_or(missing, |others| missing.min(others));
        // What is there, and did not come between, was taken for gone too early.
        let front_ns = self.starts_ns.front().map_or(start_ns, |front_ns| *front_ns).max(now_ns);
        spread(now_ns, front_ns, missing - new).rev().for_each(|at_ns| self.starts_ns.push_front(at_ns));
        let back_ns = self.starts_ns.back().map_or(now_ns, |back_ns| *back_ns).max(now_ns);
        self.starts_ns.extend(spread(back_ns, start_ns.max(back_ns), new));
        self.starts_ns.push_back(start_ns.max(back_ns));
        new
    }
}

/// So many times between two, evenly.
fn spread(from_ns: u64, to_ns: u64, count: usize) -> impl DoubleEndedIterator<Item = u64> {
    let step_ns = (to_ns - from_ns) / (count as u64 + 1);
    (1..=count as u64).map(move |nth| from_ns + nth * step_ns)
}
