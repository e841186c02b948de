//! Packets in the order of their arrival.

use std::collections::VecDeque;

use crate::packet::{Judged, Packet};

#[derive(Clone, Debug)]
pub(super) struct Waiting<P> {
    pub came_ns: u64,
    pub packet: P,
}

#[derive(Clone, Debug)]
pub(super) struct Line<P> {
    waiting: VecDeque<Waiting<P>>,
    bytes: u64,
}

impl<P> Default for Line<P> {
    fn default() -> Self {
        Line { waiting: VecDeque::new(), bytes: 0 }
    }
}

impl<P: Packet> Line<P> {
    pub fn push(&mut self, one: Waiting<P>) {
        self.bytes += u64::from(one.packet.len_bytes());
        self.waiting.push_back(one);
    }

    /// The first packet, with its time in the line.
    pub fn pop(&mut self, now_ns: u64) -> Option<(u64, P)> {
        let Waiting { came_ns, packet } = self.waiting.pop_front()?;
        self.bytes -= u64::from(packet.len_bytes());
        Some((now_ns.saturating_sub(came_ns), packet))
    }

    /// As `Queue::replace_acks`.
    pub fn replace_acks(&mut self, mut packet: P, mut dropped: impl FnMut(P)) -> Option<P> {
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

    pub fn take(&mut self) -> VecDeque<Waiting<P>> {
        self.bytes = 0;
        std::mem::take(&mut self.waiting)
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

    pub fn head_bytes(&self) -> Option<u32> {
        self.waiting.front().map(|one| one.packet.len_bytes())
    }

    /// Time for which the first packet has waited; 0 if there is none.
    pub fn head_age_ns(&self, now_ns: u64) -> u64 {
        self.waiting.front().map_or(0, |one| now_ns.saturating_sub(one.came_ns))
    }
}
