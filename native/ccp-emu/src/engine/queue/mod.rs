//! The queue before a transmitter: one FIFO, a buffer, and a discipline that drops or marks.

mod codel;
mod red;

use std::collections::VecDeque;

use codel::CoDel;
use red::Red;

use super::Counters;
use crate::packet::{Ecn, Judged, Packet};
use crate::rng::Stream;
use crate::spec::{Buffer, Queue as Spec};

/// A discipline's decision about a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Action {
    Pass,
    /// Mark it, or drop it if it cannot be marked.
    Signal,
    Drop,
}

#[derive(Clone, Debug)]
struct Waiting<P> {
    came_ns: u64,
    packet: P,
}

#[derive(Clone, Debug)]
enum Discipline {
    DropTail { ce_threshold_ns: Option<u64>, ce_threshold_bytes: Option<u64> },
    Red(Red),
    CoDel(CoDel),
}

#[derive(Clone, Debug)]
pub struct Queue<P> {
    waiting: VecDeque<Waiting<P>>,
    bytes: u64,
    buffer: Option<Buffer>,
    spec: Spec,
    discipline: Discipline,
    random: Stream,
    sojourn_max_ns: u64,
}

impl<P: Packet> Queue<P> {
    pub fn new(spec: Spec, buffer: Option<Buffer>, mtu_bytes: u32, random: Stream) -> Self {
        let discipline = Discipline::new(spec, mtu_bytes);
        Queue { waiting: VecDeque::new(), bytes: 0, buffer, spec, discipline, random, sojourn_max_ns: 0 }
    }

    /// Changes buffer and discipline; waiting packets stay. An unchanged discipline keeps its state.
    pub fn set(&mut self, spec: Spec, buffer: Option<Buffer>, mtu_bytes: u32) {
        self.buffer = buffer;
        if self.spec != spec {
            self.spec = spec;
            self.discipline = Discipline::new(spec, mtu_bytes);
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Room for packets of this size; `None` without a limit.
    pub fn free_pkts(&self, mtu_bytes: u32) -> Option<u64> {
        self.buffer.map(|buffer| match buffer {
            Buffer::Packets(maximum) => maximum.saturating_sub(self.waiting.len() as u64),
            Buffer::Bytes(maximum) => maximum.saturating_sub(self.bytes) / u64::from(mtu_bytes.max(1)),
        })
    }

    pub fn head_bytes(&self) -> Option<u32> {
        self.waiting.front().map(|w| w.packet.len_bytes())
    }

    /// Maximum queueing delay of packets that left since the last call.
    pub fn take_sojourn_max_ns(&mut self) -> u64 {
        std::mem::take(&mut self.sojourn_max_ns)
    }

    /// The transmitter becomes idle.
    pub fn idle(&mut self, now_ns: u64) {
        if let Discipline::Red(red) = &mut self.discipline {
            red.idle(now_ns);
        }
    }

    /// Queues or drops a packet; returns whether it was queued. `at_once`: the transmitter is free, so it
    /// needs no buffer.
    pub fn push(
        &mut self,
        now_ns: u64,
        mut packet: P,
        at_once: bool,
        rate_bytes_per_s: f64,
        counters: &mut Counters,
    ) -> bool {
        let action = match &mut self.discipline {
            Discipline::DropTail { ce_threshold_bytes: Some(threshold_bytes), .. }
                if self.bytes > *threshold_bytes && packet.ecn() != Ecn::NotEct =>
            {
                Action::Signal
            }
            Discipline::Red(red) => red.arrival(now_ns, self.bytes, rate_bytes_per_s, &mut self.random),
            Discipline::DropTail { .. } | Discipline::CoDel(_) => Action::Pass,
        };
        let ecn = match &self.discipline {
            Discipline::Red(red) => red.ecn(),
            Discipline::DropTail { .. } | Discipline::CoDel(_) => true,
        };
        if action == Action::Drop || action == Action::Signal && !(ecn && packet.ecn() != Ecn::NotEct) {
            counters.dropped_aqm_pkts += 1;
            return false;
        }
        let len_bytes = u64::from(packet.len_bytes());
        if !at_once && !self.fits(len_bytes) {
            if let Discipline::Red(red) = &mut self.discipline {
                red.overflow();
            }
            counters.dropped_queue_pkts += 1;
            return false;
        }
        if action == Action::Signal {
            mark(&mut packet, counters);
        }
        self.bytes += len_bytes;
        self.waiting.push_back(Waiting { came_ns: now_ns, packet });
        true
    }

    /// Puts an ACK into the place of the waiting ACKs of its connection that are superfluous then, which
    /// `dropped` gets: of the oldest after the last one that is needed. So an ACK never waits longer because
    /// others follow (RFC 3449, section 5.2.1). Returns the packet if it has to be queued.
    pub fn replace_acks(&mut self, mut packet: P, mut dropped: impl FnMut(P)) -> Option<P> {
        if packet.judge(&packet) == Judged::Unrelated {
            return Some(packet); // not an ACK: no need to search
        }
        let mut place = None;
        for index in (0..self.waiting.len()).rev() {
            match packet.judge(&self.waiting[index].packet) {
                Judged::Unrelated => (),
                Judged::Needed => break,
                Judged::Superfluous => {
                    let later = place.replace(index).and_then(|later| self.waiting.remove(later));
                    if let Some(later) = later {
                        self.bytes -= u64::from(later.packet.len_bytes());
                        dropped(later.packet);
                    }
                }
            }
        }
        let Some(one) = place.and_then(|place| self.waiting.get_mut(place)) else { return Some(packet) };
        self.bytes += u64::from(packet.len_bytes());
        std::mem::swap(&mut one.packet, &mut packet);
        self.bytes -= u64::from(packet.len_bytes());
        dropped(packet);
        None
    }

    fn fits(&self, len_bytes: u64) -> bool {
        match self.buffer {
            None => true,
            Some(Buffer::Packets(maximum)) => (self.waiting.len() as u64) < maximum,
            Some(Buffer::Bytes(maximum)) => self.bytes + len_bytes <= maximum,
        }
    }

    /// The next packet to send; `dropped` gets packets that CoDel drops.
    pub fn pop(&mut self, now_ns: u64, counters: &mut Counters, mut dropped: impl FnMut(P)) -> Option<P> {
        while let Some(Waiting { came_ns, mut packet }) = self.waiting.pop_front() {
            self.bytes -= u64::from(packet.len_bytes());
            let sojourn_ns = now_ns.saturating_sub(came_ns);
            self.sojourn_max_ns = self.sojourn_max_ns.max(sojourn_ns);
            let markable = packet.ecn() != Ecn::NotEct;
            let action = match &mut self.discipline {
                Discipline::CoDel(codel) => codel.departure(now_ns, sojourn_ns, self.bytes, markable),
                Discipline::DropTail { ce_threshold_ns: Some(max_ns), .. }
                    if sojourn_ns > *max_ns && markable =>
                {
                    Action::Signal
                }
                Discipline::DropTail { .. } | Discipline::Red(_) => Action::Pass,
            };
            match action {
                Action::Pass => return Some(packet),
                Action::Signal => {
                    mark(&mut packet, counters);
                    return Some(packet);
                }
                Action::Drop => {
                    counters.dropped_aqm_pkts += 1;
                    dropped(packet);
                }
            }
        }
        if let Discipline::CoDel(codel) = &mut self.discipline {
            codel.empty();
        }
        None
    }
}

impl Discipline {
    fn new(spec: Spec, mtu_bytes: u32) -> Self {
        match spec {
            Spec::DropTail { ce_threshold_us, ce_threshold_bytes } => Discipline::DropTail {
                ce_threshold_ns: ce_threshold_us.map(|us| us.saturating_mul(1000)),
                ce_threshold_bytes,
            },
            Spec::Red { min_bytes, max_bytes, max_ratio, weight, ecn } => {
                Discipline::Red(Red::new(min_bytes as f64, max_bytes as f64, max_ratio, weight, ecn))
            }
            Spec::CoDel { target_us, interval_us, ecn } => {
                Discipline::CoDel(CoDel::new(target_us, interval_us, u64::from(mtu_bytes), ecn))
            }
        }
    }
}

fn mark(packet: &mut impl Packet, counters: &mut Counters) {
    if packet.ecn() != Ecn::Ce {
        packet.mark_ce();
        counters.marked_pkts += 1;
    }
}

#[cfg(test)]
mod tests;
