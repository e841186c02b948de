//! FQ-CoDel: flows take turns, each with a CoDel of its own.
//!
//! Source: RFC 8290, section 4. CoDel spares the last packet of a flow's queue, as in a queue of its own.

use std::collections::VecDeque;

use super::codel::CoDel;
use super::line::{Line, Waiting};
use super::{Action, Notes};
use crate::packet::{Ecn, Packet};
use crate::spec::FqCoDel as Spec;

/// Maximum number of packets dropped together when the buffer is full (section 4.1).
const DROPPED_TOGETHER_MAX: usize = 64;

#[derive(Clone, Debug)]
struct Flow<P> {
    line: Line<P>,
    codel: CoDel,
    credit_bytes: i64,
    /// Whether it is in one of the lists.
    is_listed: bool,
}

#[derive(Clone, Debug)]
pub struct FqCoDel<P> {
    flows: Vec<Flow<P>>,
    /// Flows whose packets go first, and the others with packets.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    quantum_bytes: i64,
    /// Makes collisions of flows depend on the seed.
    salt: u64,
    pkts: usize,
    bytes: u64,
}

impl<P: Packet> FqCoDel<P> {
    pub fn new(spec: Spec, mtu_bytes: u64, salt: u64) -> Self {
        let codel = CoDel::new(spec.target_us, spec.interval_us, mtu_bytes, spec.ecn);
        let flow = || Flow { line: Line::default(), codel: codel.clone(), credit_bytes: 0, is_listed: false };
        FqCoDel {
            flows: (0..spec.flows).map(|_| flow()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            quantum_bytes: i64::from(spec.quantum_bytes),
            salt,
            pkts: 0,
            bytes: 0,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.pkts
    }

    pub fn head_bytes(&self) -> Option<u32> {
        let in_turn = |has_credit: bool| {
            let mut all = self.new.iter().chain(&self.old).map(|index| &self.flows[*index]);
            all.find(|flow| !flow.line.is_empty() && (flow.credit_bytes > 0) == has_credit)
        };
        in_turn(true).or_else(|| in_turn(false))?.line.head_bytes()
    }

    fn index(&self, packet: &P) -> usize {
        (mixed(packet.flow_id() ^ self.salt) % self.flows.len() as u64) as usize
    }

    /// As `Queue::replace_acks`.
    pub fn replace_acks(&mut self, packet: P, dropped: impl FnMut(P)) -> Option<P> {
        let index = self.index(&packet);
        let line = &mut self.flows[index].line;
        let before = (line.len(), line.bytes());
        let packet = line.replace_acks(packet, dropped);
        self.pkts -= before.0 - line.len();
        self.bytes = self.bytes - before.1 + line.bytes();
        packet
    }

    pub fn push(&mut self, one: Waiting<P>) {
        let index = self.index(&one.packet);
        self.pkts += 1;
        self.bytes += u64::from(one.packet.len_bytes());
        let flow = &mut self.flows[index];
        flow.line.push(one);
        if !flow.is_listed {
            flow.is_listed = true;
            flow.credit_bytes = self.quantum_bytes;
            self.new.push_back(index);
        }
    }

    /// Drops half of the packets of the flow with the most bytes, at most 64, from the head of its queue.
    pub fn drop_of_longest(&mut self, now_ns: u64, mut dropped: impl FnMut(P)) {
        let listed = self.new.iter().chain(&self.old).copied();
        // The first one of several, whatever `max_by_key` prefers.
        let Some(index) = listed.rev().max_by_key(|index| self.flows[*index].line.bytes()) else { return };
        let line = &mut self.flows[index].line;
        let before_bytes = line.bytes();
        let count = line.len().div_ceil(2).min(DROPPED_TOGETHER_MAX);
        for _ in 0..count {
            if let Some((_, packet)) = line.pop(now_ns) {
                dropped(packet);
            }
        }
        self.bytes -= before_bytes - line.bytes();
        self.pkts -= count;
    }

    pub fn pop(&mut self, now_ns: u64, notes: &mut Notes<'_, P>) -> Option<P> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let index = *list.front()?;
            let flow = &mut self.flows[index];
            if flow.credit_bytes <= 0 {
                flow.credit_bytes += self.quantum_bytes;
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            let before = (flow.line.len(), flow.line.bytes());
            let packet = flow.pop(now_ns, notes);
            self.pkts -= before.0 - flow.line.len();
            self.bytes -= before.1 - flow.line.bytes();
            if let Some(packet) = packet {
                flow.credit_bytes -= i64::from(packet.len_bytes());
                return Some(packet);
            }
            list.pop_front();
            // A flow that was new waits one turn of the others, so that it cannot be new again before.
            if is_new {
                self.old.push_back(index);
            } else {
                flow.is_listed = false;
            }
        }
    }

    pub fn take(&mut self) -> Vec<Waiting<P>> {
        (self.pkts, self.bytes) = (0, 0);
        self.new.drain(..).chain(self.old.drain(..)).flat_map(|index| self.flows[index].line.take()).collect()
    }
}

impl<P: Packet> Flow<P> {
    fn pop(&mut self, now_ns: u64, notes: &mut Notes<'_, P>) -> Option<P> {
        while let Some((sojourn_ns, mut packet)) = self.line.pop(now_ns) {
            notes.waited(sojourn_ns);
            let markable = packet.ecn() != Ecn::NotEct;
            match self.codel.departure(now_ns, sojourn_ns, self.line.bytes(), markable) {
                Action::Pass => return Some(packet),
                Action::Signal => {
                    notes.mark(&mut packet);
                    return Some(packet);
                }
                Action::Drop => notes.drop(packet),
            }
        }
        self.codel.empty();
        None
    }
}

/// Mixes the bits of a number: the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, figure 16).
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
#[path = "fq_codel_tests.rs"]
mod tests;
