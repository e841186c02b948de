//! The queue before a transmitter: a buffer, and a discipline that drops or marks.

mod codel;
mod dual_pi2;
mod fifo;
mod fq_codel;
mod line;
mod pi;
mod pie;
mod red;

use codel::CoDel;
use dual_pi2::DualPi2;
use fifo::{Discipline, Fifo};
use fq_codel::FqCoDel;
use line::Waiting;
use pie::Pie;
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

/// What happens to packets, for those who count it.
struct Notes<'a, P> {
    counters: &'a mut Counters,
    sojourn_max_ns: &'a mut u64,
    dropped: &'a mut dyn FnMut(P),
}

impl<P: Packet> Notes<'_, P> {
    fn waited(&mut self, sojourn_ns: u64) {
        *self.sojourn_max_ns = sojourn_ns.max(*self.sojourn_max_ns);
    }

    fn mark(&mut self, packet: &mut P) {
        mark(packet, self.counters);
    }

    /// A waiting packet is dropped by the discipline.
    fn drop(&mut self, packet: P) {
        self.counters.dropped_aqm_pkts += 1;
        (self.dropped)(packet);
    }
}

#[derive(Clone, Debug)]
enum Kind<P> {
    Fifo(Fifo<P>),
    FqCoDel(FqCoDel<P>),
    DualPi2(DualPi2<P>),
}

#[derive(Clone, Debug)]
pub struct Queue<P> {
    kind: Kind<P>,
    buffer: Option<Buffer>,
    spec: Spec,
    random: Stream,
    sojourn_max_ns: u64,
}

impl<P: Packet> Queue<P> {
    pub fn new(spec: Spec, buffer: Option<Buffer>, mtu_bytes: u32, mut random: Stream) -> Self {
        let kind = Kind::new(spec, mtu_bytes, &mut random);
        Queue { kind, buffer, spec, random, sojourn_max_ns: 0 }
    }

    /// Changes buffer and discipline; waiting packets stay. An unchanged discipline keeps its state.
    pub fn set(&mut self, spec: Spec, buffer: Option<Buffer>, mtu_bytes: u32) {
        self.buffer = buffer;
        if self.spec != spec {
            self.spec = spec;
            let waiting = self.kind.take();
            self.kind = Kind::new(spec, mtu_bytes, &mut self.random);
            waiting.into_iter().for_each(|one| self.kind.push(one));
        }
    }

    pub fn bytes(&self) -> u64 {
        match &self.kind {
            Kind::Fifo(fifo) => fifo.line.bytes(),
            Kind::FqCoDel(fair) => fair.bytes(),
            Kind::DualPi2(dual) => dual.bytes(),
        }
    }

    pub fn len(&self) -> usize {
        match &self.kind {
            Kind::Fifo(fifo) => fifo.line.len(),
            Kind::FqCoDel(fair) => fair.len(),
            Kind::DualPi2(dual) => dual.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Room for packets of this size; `None` without a limit.
    pub fn free_pkts(&self, mtu_bytes: u32) -> Option<u64> {
        self.buffer.map(|buffer| match buffer {
            Buffer::Packets(maximum) => maximum.saturating_sub(self.len() as u64),
            Buffer::Bytes(maximum) => maximum.saturating_sub(self.bytes()) / u64::from(mtu_bytes.max(1)),
        })
    }

    /// Size of the packet whose turn it is.
    pub fn head_bytes(&self) -> Option<u32> {
        match &self.kind {
            Kind::Fifo(fifo) => fifo.line.head_bytes(),
            Kind::FqCoDel(fair) => fair.head_bytes(),
            Kind::DualPi2(dual) => dual.head_bytes(),
        }
    }

    /// Maximum queueing delay of packets that left since the last call.
    pub fn take_sojourn_max_ns(&mut self) -> u64 {
        std::mem::take(&mut self.sojourn_max_ns)
    }

    /// The transmitter becomes idle.
    pub fn idle(&mut self, now_ns: u64) {
        if let Kind::Fifo(fifo) = &mut self.kind {
            fifo.idle(now_ns);
        }
    }

    /// Queues or drops a packet; returns whether it was queued. `at_once`: the transmitter is free, so it
    /// needs no buffer. `dropped` gets waiting packets that are dropped for its sake.
    pub fn push(
        &mut self,
        now_ns: u64,
        mut packet: P,
        at_once: bool,
        rate_bytes_per_s: f64,
        counters: &mut Counters,
        mut dropped: impl FnMut(P),
    ) -> bool {
        let mut action = Action::Pass;
        match &mut self.kind {
            Kind::Fifo(fifo) => {
                action = fifo.arrival(now_ns, &packet, rate_bytes_per_s, &mut self.random);
            }
            Kind::DualPi2(dual) => dual.advance(now_ns),
            Kind::FqCoDel(_) => (),
        }
        if action == Action::Drop {
            counters.dropped_aqm_pkts += 1;
            return false;
        }
        // A fair queue makes room for each packet.
        let makes_room = matches!(self.kind, Kind::FqCoDel(_));
        if !at_once && !makes_room && !self.fits(u64::from(packet.len_bytes())) {
            if let Kind::Fifo(fifo) = &mut self.kind {
                fifo.overflow();
            }
            counters.dropped_queue_pkts += 1;
            return false;
        }
        if action == Action::Signal {
            mark(&mut packet, counters);
        }
        self.kind.push(Waiting { came_ns: now_ns, packet });
        while !at_once && makes_room && !self.fits(0) {
            let Kind::FqCoDel(fair) = &mut self.kind else { break };
            fair.drop_of_longest(now_ns, |packet| {
                counters.dropped_queue_pkts += 1;
                dropped(packet);
            });
        }
        true
    }

    /// Puts an ACK into the place of the waiting ACKs of its connection that are superfluous then, which
    /// `dropped` gets: of the oldest after the last one that is needed. So an ACK never waits longer because
    /// others follow (RFC 3449, section 5.2.1). Returns the packet if it has to be queued.
    pub fn replace_acks(&mut self, packet: P, dropped: impl FnMut(P)) -> Option<P> {
        if packet.judge(&packet) == Judged::Unrelated {
            return Some(packet); // not an ACK: no need to search
        }
        match &mut self.kind {
            Kind::Fifo(fifo) => fifo.line.replace_acks(packet, dropped),
            Kind::FqCoDel(fair) => fair.replace_acks(packet, dropped),
            Kind::DualPi2(dual) => dual.replace_acks(packet, dropped),
        }
    }

    /// Whether a packet of this size fits; for 0, whether the waiting ones do.
    fn fits(&self, len_bytes: u64) -> bool {
        match self.buffer {
            None => true,
            Some(Buffer::Packets(maximum)) => self.len() as u64 + u64::from(len_bytes > 0) <= maximum,
            Some(Buffer::Bytes(maximum)) => self.bytes() + len_bytes <= maximum,
        }
    }

    /// The next packet to send; `dropped` gets waiting packets that the discipline drops.
    pub fn pop(&mut self, now_ns: u64, counters: &mut Counters, mut dropped: impl FnMut(P)) -> Option<P> {
        let sojourn_max_ns = &mut self.sojourn_max_ns;
        let mut notes = Notes { counters, sojourn_max_ns, dropped: &mut dropped };
        match &mut self.kind {
            Kind::Fifo(fifo) => fifo.pop(now_ns, &mut notes),
            Kind::FqCoDel(fair) => fair.pop(now_ns, &mut notes),
            Kind::DualPi2(dual) => dual.pop(now_ns, &mut notes),
        }
    }
}

impl<P: Packet> Kind<P> {
    fn new(spec: Spec, mtu_bytes: u32, random: &mut Stream) -> Self {
        let mtu_bytes = u64::from(mtu_bytes);
        Kind::Fifo(Fifo::new(match spec {
            Spec::DropTail { ce_threshold_us, ce_threshold_bytes } => Discipline::DropTail {
                ce_threshold_ns: ce_threshold_us.map(|us| us.saturating_mul(1000)),
                ce_threshold_bytes,
            },
            Spec::Red { min_bytes, max_bytes, max_ratio, weight, ecn } => {
                Discipline::Red(Red::new(min_bytes as f64, max_bytes as f64, max_ratio, weight, ecn))
            }
            Spec::CoDel { target_us, interval_us, ecn } => {
                Discipline::CoDel(CoDel::new(target_us, interval_us, mtu_bytes, ecn))
            }
            Spec::Pie(pie) => Discipline::Pie(Pie::new(pie, mtu_bytes)),
            Spec::FqCoDel(fair) => {
                return Kind::FqCoDel(FqCoDel::new(fair, mtu_bytes, random.up_to(u64::MAX)));
            }
            Spec::DualPi2(dual) => return Kind::DualPi2(DualPi2::new(dual)),
        }))
    }

    /// Appends a packet, without a decision.
    fn push(&mut self, one: Waiting<P>) {
        match self {
            Kind::Fifo(fifo) => fifo.line.push(one),
            Kind::FqCoDel(fair) => fair.push(one),
            Kind::DualPi2(dual) => dual.push(one),
        }
    }

    /// Takes all packets, in the order of their arrival.
    fn take(&mut self) -> Vec<Waiting<P>> {
        let mut all: Vec<_> = match self {
            Kind::Fifo(fifo) => fifo.line.take().into(),
            Kind::FqCoDel(fair) => fair.take(),
            Kind::DualPi2(dual) => dual.take(),
        };
        all.sort_by_key(|one| one.came_ns);
        all
    }
}

fn mark(packet: &mut impl Packet, counters: &mut Counters) {
    if packet.ecn() != Ecn::Ce {
        packet.mark_ce();
        counters.marked_pkts += 1;
    }
}

#[cfg(test)]
mod closed_loop;
#[cfg(test)]
mod shared_tests;
#[cfg(test)]
mod tests;
