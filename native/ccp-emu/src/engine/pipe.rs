//! One direction of a link. Order: loss; token bucket; queue; transmission; corruption, duplication, reordering;
//! propagation.

use ccp_int::{FlowCounts, FlowKey};
use ccp_ioam::Numbers;

use super::Counters;
use super::bucket::{Bucket, Verdict};
use super::loss::Loss;
use super::propagation::Propagation;
use super::queue::Queue;
use super::transmitter::Transmitter;
use crate::int::{Counted, Found, Seen};
use crate::packet::Packet;
use crate::rng::Stream;
use crate::spec::Direction;

#[derive(Clone, Debug)]
struct Sending<P> {
    start_ns: u64,
    end_ns: u64,
    packet: P,
}

#[derive(Clone, Debug)]
pub struct Pipe<P> {
    direction: Direction,
    mtu_bytes: u32,
    loss: Loss,
    bucket: Option<Bucket>,
    queue: Queue<P>,
    transmitter: Transmitter,
    sending: Option<Sending<P>>,
    /// Taken from the queue, waiting for the shaper's tokens.
    held: Option<P>,
    /// Time at which the shaper has them.
    tokens_at_ns: Option<u64>,
    propagation: Propagation<P>,
    duplicate: Stream,
    corrupt: Stream,
    reorder: Stream,
    /// Telemetry removed before transmission for a sink, if there is one.
    seen: Option<Vec<Seen>>,
    /// Counts per flow, if a telemetry node sends here.
    counts: Option<FlowCounts>,
    pub counters: Counters,
}

impl<P: Packet> Pipe<P> {
    pub fn new(direction: Direction, name: &str, seed: u64, mtu_bytes: u32, now_ns: u64) -> Self {
        let stream = |process| Stream::new(seed, name, process);
        Pipe {
            mtu_bytes,
            loss: Loss::new(direction.loss.clone(), stream("loss")),
            bucket: direction.token_bucket.map(|spec| Bucket::new(spec, now_ns)),
            queue: Queue::new(direction.queue, direction.buffer, mtu_bytes, stream("queue")),
            transmitter: transmitter(&direction, now_ns),
            sending: None,
            held: None,
            tokens_at_ns: None,
            propagation: Propagation::new(stream("jitter")),
            duplicate: stream("duplicate"),
            corrupt: stream("corrupt"),
            reorder: stream("reorder"),
            seen: None,
            counts: None,
            counters: Counters::default(),
            direction,
        }
    }

    /// Changes the parameters. Packets stay; unchanged parts keep their state.
    pub fn set(&mut self, now_ns: u64, direction: Direction) {
        self.loss.set(direction.loss.clone());
        self.queue.set(direction.queue, direction.buffer, self.mtu_bytes);
        if direction.token_bucket != self.direction.token_bucket {
            match (&mut self.bucket, direction.token_bucket) {
                (Some(bucket), Some(spec)) => bucket.set(spec, now_ns),
                (bucket, spec) => *bucket = spec.map(|spec| Bucket::new(spec, now_ns)),
            }
        }
        if direction.rate_bytes_per_s != self.direction.rate_bytes_per_s
            || direction.trace_ms != self.direction.trace_ms
        {
            self.transmitter = transmitter(&direction, now_ns);
            if let Some(sending) = &mut self.sending {
                // The rest of the packet is sent at the new rate.
                let left_ns = sending.end_ns.saturating_sub(now_ns) as f64;
                let share = left_ns / (sending.end_ns - sending.start_ns).max(1) as f64;
                let left_bytes = (share * f64::from(sending.packet.len_bytes())).ceil() as u32;
                sending.start_ns = now_ns;
                sending.end_ns = self.transmitter.send(now_ns, left_bytes, false);
            }
        }
        self.direction = direction;
        self.tokens_at_ns = None;
        self.start(now_ns, false);
    }

    /// Drops a packet that is too large for the tunnel.
    pub fn reject(&mut self, packet: &P) {
        self.counters.arrived_pkts += 1;
        self.counters.arrived_bytes += u64::from(packet.len_bytes());
        self.counters.dropped_mtu_pkts += 1;
    }

    pub fn arrive(&mut self, now_ns: u64, packet: P) {
        let len_bytes = packet.len_bytes();
        self.counters.arrived_pkts += 1;
        self.counters.arrived_bytes += u64::from(len_bytes);
        if self.loss.loses() {
            self.counters.dropped_loss_pkts += 1;
            return;
        }
        let flow = self.flow_counted(&packet);
        if let Some(bucket) = &mut self.bucket
            && !bucket.is_shaper()
            && bucket.take(now_ns, len_bytes) != Verdict::Pass
        {
            self.counters.dropped_policer_pkts += 1;
            note_dropped(&mut self.counts, now_ns, flow, false);
            return;
        }
        let Some(packet) = self.after_ack_filter(now_ns, packet) else { return };
        let at_once = self.sending.is_none() && self.held.is_none() && self.queue.is_empty();
        let rate_bytes_per_s = self.mean_bytes_per_s();
        let counts = &mut self.counts;
        let queued =
            self.queue.push(now_ns, packet, at_once, rate_bytes_per_s, &mut self.counters, |dropped| {
                let flow = counts.is_some().then(|| dropped.flow()).flatten();
                note_dropped(counts, now_ns, flow, true);
            });
        if !queued {
            note_dropped(&mut self.counts, now_ns, flow, false);
        }
        self.start(now_ns, false);
    }

    /// Drops the waiting ACKs that a packet makes superfluous; returns it if it has to be queued.
    fn after_ack_filter(&mut self, now_ns: u64, packet: P) -> Option<P> {
        if !self.direction.ack_filter {
            return Some(packet);
        }
        let (counts, counters) = (&mut self.counts, &mut self.counters);
        self.queue.replace_acks(packet, |superfluous| {
            counters.dropped_ack_pkts += 1;
            let flow = counts.is_some().then(|| superfluous.flow()).flatten();
            note_dropped(counts, now_ns, flow, true);
        })
    }

    pub fn due_ns(&self) -> Option<u64> {
        let sent_ns = self.sending.as_ref().map(|s| s.end_ns);
        [sent_ns, self.tokens_at_ns, self.propagation.due_ns()].into_iter().flatten().min()
    }

    /// Lower bound of the next packet's arrival at the end, with the present parameters.
    pub fn earliest_end_ns(&self) -> Option<u64> {
        let sent_ns = self.sending.as_ref().map(|s| s.end_ns).into_iter().chain(self.tokens_at_ns).min();
        let sent_ns = sent_ns.map(|ns| ns.saturating_add(self.direction.delay_us.saturating_mul(1000)));
        sent_ns.into_iter().chain(self.propagation.due_ns()).min()
    }

    /// Processes one due event; returns a packet that has reached the end.
    pub fn step(&mut self, now_ns: u64) -> Option<P> {
        if self.propagation.due_ns().is_some_and(|due_ns| due_ns <= now_ns) {
            let (_, packet) = self.propagation.pop()?;
            self.counters.delivered_pkts += 1;
            self.counters.delivered_bytes += u64::from(packet.len_bytes());
            return Some(packet);
        }
        if self.sending.as_ref().is_some_and(|s| s.end_ns <= now_ns) {
            if let Some(sending) = self.sending.take() {
                self.depart(sending.end_ns, sending.packet);
            }
            self.start(now_ns, true);
        } else if self.tokens_at_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            self.tokens_at_ns = None;
            self.start(now_ns, false);
        }
        None
    }

    /// Starts transmissions until one takes time. `busy`: one has just ended.
    fn start(&mut self, now_ns: u64, mut busy: bool) {
        while self.sending.is_none() && self.tokens_at_ns.is_none() {
            let Some(mut packet) = self.next(now_ns) else {
                if busy && self.tokens_at_ns.is_none() {
                    self.queue.idle(now_ns);
                }
                return;
            };
            let dropped_late_pkts = self
                .flow_counted(&packet)
                .zip(self.counts.as_ref())
                .map_or(0, |(flow, counts)| counts.dropped_late_pkts(&flow));
            packet.leaves(now_ns, dropped_late_pkts);
            if let Some(seen) = &mut self.seen {
                seen.extend(Seen::off(now_ns, &mut packet));
            }
            let end_ns = self.transmitter.send(now_ns, packet.len_bytes(), busy);
            if end_ns <= now_ns {
                self.depart(now_ns, packet);
            } else {
                self.sending = Some(Sending { start_ns: now_ns, end_ns, packet });
            }
            busy = true;
        }
    }

    /// The next packet to transmit, if the shaper has tokens for it.
    fn next(&mut self, now_ns: u64) -> Option<P> {
        loop {
            // Uses the head of the queue before it is removed, so that it waits where CoDel sees it. Only if
            // CoDel then returns a larger one instead, that one is held.
            let head_bytes = self.held.as_ref().map(P::len_bytes).or_else(|| self.queue.head_bytes());
            let Some(bucket) = self.bucket.as_mut().filter(|b| b.is_shaper()) else {
                return self.held.take().or_else(|| self.pop(now_ns));
            };
            let Some(head_bytes) = head_bytes else {
                self.pop(now_ns);
                return None;
            };
            match bucket.peek(now_ns, head_bytes) {
                Verdict::Wait(at_ns) => {
                    self.tokens_at_ns = Some(at_ns);
                    return None;
                }
                Verdict::Pass | Verdict::Never => (),
            }
            let packet = self.held.take().or_else(|| self.pop(now_ns))?;
            match self.bucket.as_mut()?.take(now_ns, packet.len_bytes()) {
                Verdict::Pass => return Some(packet),
                Verdict::Never => {
                    self.counters.dropped_policer_pkts += 1;
                    let flow = self.flow_counted(&packet);
                    note_dropped(&mut self.counts, now_ns, flow, true);
                }
                Verdict::Wait(at_ns) => {
                    self.held = Some(packet);
                    self.tokens_at_ns = Some(at_ns);
                    return None;
                }
            }
        }
    }

    fn pop(&mut self, now_ns: u64) -> Option<P> {
        let counts = &mut self.counts;
        self.queue.pop(now_ns, &mut self.counters, |dropped| {
            let flow = counts.is_some().then(|| dropped.flow()).flatten();
            note_dropped(counts, now_ns, flow, true);
        })
    }

    fn flow_counted(&self, packet: &P) -> Option<FlowKey> {
        self.counts.is_some().then(|| packet.flow()).flatten()
    }

    /// Ends a packet's transmission.
    fn depart(&mut self, now_ns: u64, mut packet: P) {
        let Direction { corrupt_ratio, duplicate_ratio, .. } = self.direction;
        if self.corrupt.happens(corrupt_ratio) {
            packet.corrupt(self.corrupt.up_to(u64::MAX));
            self.counters.corrupted_pkts += 1;
        }
        let copy = self.duplicate.happens(duplicate_ratio).then(|| packet.clone());
        self.propagate(now_ns, packet);
        if let Some(copy) = copy {
            self.counters.duplicated_pkts += 1;
            self.propagate(now_ns, copy);
        }
    }

    fn propagate(&mut self, now_ns: u64, packet: P) {
        let Direction { delay_us, jitter_us, reorder, .. } = self.direction;
        let late_us = reorder.filter(|r| self.reorder.happens(r.ratio)).map(|r| r.late_us);
        self.counters.late_pkts += u64::from(late_us.is_some());
        self.propagation.push(now_ns, delay_us, jitter_us, late_us, packet);
    }

    fn mean_bytes_per_s(&self) -> f64 {
        let shaped =
            self.bucket.as_ref().filter(|b| b.is_shaper()).map_or(f64::INFINITY, Bucket::rate_bytes_per_s);
        self.transmitter.mean_bytes_per_s().min(shaped)
    }

    /// Removes telemetry from packets before transmission, from now on.
    pub fn set_sink(&mut self) {
        self.seen = Some(Vec::new());
    }

    /// Returns the removed telemetry since the last call.
    pub fn take_seen(&mut self) -> Option<std::vec::Drain<'_, Seen>> {
        self.seen.as_mut().map(|seen| seen.drain(..))
    }

    /// Counts flows from now on, for the node that sends here.
    pub fn set_counting(&mut self) {
        self.counts = Some(FlowCounts::default());
    }

    /// The state that a packet finds that arrives next, with its flow and numbers if any.
    pub fn find(&mut self, now_ns: u64, flow: Option<&FlowKey>, numbers: Option<Numbers>) -> Found {
        let flow_count = self.counts.as_mut().zip(flow).and_then(|(counts, flow)| {
            if numbers.is_none() {
                counts.plain(now_ns, flow, 1);
            }
            let count = counts.came(now_ns, flow, numbers?);
            Some(Counted { count, late_pkts: counts.dropped_late_pkts(flow) })
        });
        Found {
            flow_count,
            queue_pkts: self.queue_pkts(),
            free_pkts: self.queue.free_pkts(self.mtu_bytes),
            lost_pkts: self.counters.dropped_loss_pkts,
            link_rate_bytes_per_s: self.mean_bytes_per_s(),
        }
    }

    pub fn queue_pkts(&self) -> u64 {
        self.queue.len() as u64 + u64::from(self.held.is_some())
    }

    pub fn queue_bytes(&self) -> u64 {
        self.queue.bytes() + self.held.as_ref().map_or(0, |p| u64::from(p.len_bytes()))
    }

    pub fn flying_pkts(&self) -> u64 {
        self.propagation.len() as u64 + self.sending_pkts()
    }

    /// Packets in transmission: 0 or 1.
    pub fn sending_pkts(&self) -> u64 {
        u64::from(self.sending.is_some())
    }

    /// Maximum queueing delay of packets that left since the last call.
    pub fn take_sojourn_max_ns(&mut self) -> u64 {
        self.queue.take_sojourn_max_ns()
    }
}

/// Counts a dropped packet if its flow is counted; `waited`: it was dropped at the head of the queue.
fn note_dropped(counts: &mut Option<FlowCounts>, now_ns: u64, flow: Option<FlowKey>, waited: bool) {
    if let (Some(counts), Some(flow)) = (counts, flow) {
        counts.dropped(now_ns, &flow, waited);
    }
}

fn transmitter(direction: &Direction, now_ns: u64) -> Transmitter {
    Transmitter::new(direction.rate_bytes_per_s, direction.trace_ms.as_deref(), now_ns)
}

#[cfg(test)]
#[path = "pipe_tests.rs"]
mod tests;
