//! The mean length of a queue over time, from what arriving packets found.
//!
//! Packets come in bursts, and more of them see a long queue, so a mean over packets does not describe the queue.
//! Between two packets the length is assumed to change linearly from what the first leaves to what the second finds. If
//! packets report how long they waited, more is known: packets before one have left when its transmission starts, and
//! the flow's own packets have known times.

use std::collections::VecDeque;

use super::mean::TimeMean;

/// Nodes report microseconds, so the order of events within one is unknown.
const TICK_NS: u64 = 1000;
/// Packets of a longer queue are not tracked individually.
const MAX_WAITING_PKTS: u32 = 10_000;

/// What a packet found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub at_ns: u64,
    /// Queue length without the packet.
    pub depth: u32,
    /// The packet's own size, in the same unit: 1 if that is packets.
    pub own: u32,
    /// Time until the start of its transmission.
    pub wait_ns: Option<u64>,
    /// Packets that arrived since the previous one.
    pub came_pkts: Option<f64>,
}

impl Found {
    /// Other packets that arrived since the previous one.
    fn others(&self) -> Option<usize> {
        self.came_pkts.map(|came| (came - 1.0).round() as usize)
    }
}

#[derive(Debug, Default)]
pub struct Queue {
    before: Option<Found>,
    waiting: Waiting,
    mean: TimeMean,
}

impl Queue {
    /// Handles a packet. `fresh_ns`: it represents only this much time before it.
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
            // No new packet leaves before the earlier ones; after that, arrivals and departures are equal.
            let ramp_ns = before.wait_ns.map_or(time_ns, |wait_ns| (wait_ns as f64).min(time_ns));
            let new_area = new_pkts as f64 * (time_ns - ramp_ns / 2.0);
            self.mean.add(old_area + new_area, time_ns, found.depth.into());
        }
    }

    /// The mean since the last call; `None` without packets.
    pub fn take(&mut self) -> Option<f64> {
        std::mem::take(&mut self.mean).get()
    }
}

/// Start times of waiting packets: known for the flow's own, and assumed evenly spread for others in between.
#[derive(Debug, Default)]
struct Waiting {
    starts_ns: VecDeque<u64>,
}

impl Waiting {
    /// Integral of the number of packets until now; removes those that left.
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

    /// Adds a packet of the flow; returns how many of the packets that it finds are new.
    fn find(&mut self, found: &Found, wait_ns: u64) -> usize {
        let (now_ns, start_ns, depth_pkts) = (found.at_ns, found.at_ns + wait_ns, found.depth as usize);
        while self.starts_ns.len() > depth_pkts {
            self.starts_ns.pop_front();
        }
        let missing = depth_pkts - self.starts_ns.len();
        let new = found.others().map_or(missing, |others| missing.min(others));
        // Packets that are present but did not arrive in between were removed too early.
        let front_ns = self.starts_ns.front().map_or(start_ns, |front_ns| *front_ns).max(now_ns);
        spread(now_ns, front_ns, missing - new).rev().for_each(|at_ns| self.starts_ns.push_front(at_ns));
        let back_ns = self.starts_ns.back().map_or(now_ns, |back_ns| *back_ns).max(now_ns);
        self.starts_ns.extend(spread(back_ns, start_ns.max(back_ns), new));
        self.starts_ns.push_back(start_ns.max(back_ns));
        new
    }
}

/// Evenly spread times between two.
fn spread(from_ns: u64, to_ns: u64, count: usize) -> impl DoubleEndedIterator<Item = u64> {
    let step_ns = (to_ns - from_ns) / (count as u64 + 1);
    (1..=count as u64).map(move |nth| from_ns + nth * step_ns)
}
