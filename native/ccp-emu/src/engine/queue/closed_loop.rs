//! Models of senders that react to a queue: enough of TCP to see how a discipline controls and shares.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;
use crate::engine::test_packet::TestPacket;

const PACKET_BYTES: u32 = 1500;
/// Weight of the newest marked share (RFC 8257, section 4.2).
const GAIN: f64 = 1.0 / 16.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Control {
    /// Halves the window once per round with a loss or mark.
    Reno,
    /// Reduces it by half of the marked share (RFC 8257), or halves it after a loss; spreads packets over the RTT.
    Scalable,
    /// Sends a packet of 200 bytes every so many ns.
    Thin(u64),
}

#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub control: Control,
    pub ecn: Ecn,
    pub base_rtt_ns: u64,
    pub delivered_bytes: u64,
    /// Queueing delays of its packets after the start of the measurement.
    pub delays_ns: Vec<u64>,
    pub lost_pkts: u64,
    cwnd: f64,
    ssthresh: f64,
    flying: u64,
    /// First packet of the next round.
    round: u64,
    reduced_until: u64,
    marked: f64,
    seen: f64,
    share: f64,
}

impl Sender {
    pub fn new(control: Control, ecn: Ecn, base_rtt_ms: u64) -> Self {
        Sender {
            control,
            ecn,
            base_rtt_ns: base_rtt_ms * 1_000_000,
            delivered_bytes: 0,
            delays_ns: Vec::new(),
            lost_pkts: 0,
            cwnd: 10.0,
            ssthresh: f64::INFINITY,
            flying: 0,
            round: 0,
            reduced_until: 0,
            marked: 0.0,
            seen: 0.0,
            share: 1.0,
        }
    }

    fn acked(&mut self, id: u64, next: u64, is_marked: bool) {
        self.flying = self.flying.saturating_sub(1);
        self.cwnd += if self.cwnd < self.ssthresh { 1.0 } else { 1.0 / self.cwnd };
        self.seen += 1.0;
        self.marked += f64::from(u8::from(is_marked));
        if is_marked && self.control != Control::Scalable {
            self.reduce(id, next, 0.5);
        }
        if id >= self.round && self.control == Control::Scalable {
            self.share += GAIN * (self.marked / self.seen - self.share);
            if self.marked > 0.0 {
                self.cwnd = (self.cwnd * (1.0 - self.share / 2.0)).max(2.0);
                self.ssthresh = self.cwnd;
            }
            (self.marked, self.seen, self.round) = (0.0, 0.0, next);
        }
    }

    fn lost(&mut self, id: u64, next: u64) {
        self.flying = self.flying.saturating_sub(1);
        self.lost_pkts += 1;
        self.reduce(id, next, 0.5);
    }

    fn reduce(&mut self, id: u64, next: u64, factor: f64) {
        if id >= self.reduced_until {
            self.cwnd = (self.cwnd * factor).max(2.0);
            self.ssthresh = self.cwnd;
            self.reduced_until = next;
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Event {
    Sent,
    Send(usize),
    Acked { flow: usize, id: u64, is_marked: bool },
    Lost { flow: usize, id: u64 },
}

/// Runs senders over one queue for some seconds, and measures the second half.
pub(super) fn run(spec: Spec, buffer: Buffer, rate: f64, senders: Vec<Sender>, seconds: u64) -> Vec<Sender> {
    let (end_ns, mut now_ns) = (seconds * 1_000_000_000, 0);
    let mut queue = Queue::new(spec, Some(buffer), PACKET_BYTES, Stream::new(1, "l>", "queue"));
    let (mut senders, mut counters, mut busy) = (senders, Counters::default(), false);
    let mut came_ns: Vec<u64> = Vec::new();
    let mut events: BinaryHeap<_> = (0..senders.len()).map(|n| Reverse((n as u64, Event::Send(n)))).collect();
    while let Some(Reverse((at_ns, event))) = events.pop() {
        now_ns = at_ns.max(now_ns);
        if now_ns >= end_ns {
            break;
        }
        let mut lost = Vec::new();
        match event {
            Event::Sent => busy = false,
            Event::Acked { flow, id, is_marked } => senders[flow].acked(id, came_ns.len() as u64, is_marked),
            Event::Lost { flow, id } => senders[flow].lost(id, came_ns.len() as u64),
            Event::Send(_) => (),
        }
        let turn = match event {
            Event::Sent => None,
            Event::Send(flow) | Event::Acked { flow, .. } | Event::Lost { flow, .. } => Some(flow),
        };
        if let Some(flow) = turn {
            let (count, len_bytes) = match (senders[flow].control, event) {
                (Control::Thin(every_ns), Event::Send(_)) => {
                    events.push(Reverse((now_ns + every_ns, Event::Send(flow))));
                    (1, 200)
                }
                (Control::Scalable, Event::Send(_)) => {
                    let Sender { cwnd, flying, base_rtt_ns, .. } = senders[flow];
                    let next_ns = now_ns + (base_rtt_ns as f64 / cwnd) as u64;
                    events.push(Reverse((next_ns, Event::Send(flow))));
                    (u64::from(flying < cwnd as u64), PACKET_BYTES)
                }
                (Control::Thin(_) | Control::Scalable, _) => (0, 0),
                _ => ((senders[flow].cwnd as u64).saturating_sub(senders[flow].flying), PACKET_BYTES),
            };
            for _ in 0..count {
                let id = came_ns.len() as u64;
                came_ns.push(now_ns);
                senders[flow].flying += 1;
                let ecn = senders[flow].ecn;
                let packet = TestPacket { id, flow: flow as u64, len_bytes, ecn, ..TestPacket::default() };
                let at_once = !busy && queue.is_empty();
                let kept = queue.push(now_ns, packet, at_once, rate, &mut counters, |other| {
                    lost.push((other.flow as usize, other.id));
                });
                if !kept {
                    lost.push((flow, id));
                }
            }
        }
        if !busy {
            let next =
                queue.pop(now_ns, &mut counters, |packet| lost.push((packet.flow as usize, packet.id)));
            if let Some(packet) = next {
                busy = true;
                let sent_ns = now_ns + (f64::from(packet.len_bytes) * 1e9 / rate) as u64;
                let sender = &mut senders[packet.flow as usize];
                if now_ns > end_ns / 2 {
                    sender.delivered_bytes += u64::from(packet.len_bytes);
                    sender.delays_ns.push(now_ns - came_ns[packet.id as usize]);
                }
                let (flow, is_marked) = (packet.flow as usize, packet.ecn == Ecn::Ce);
                events.push(Reverse((sent_ns, Event::Sent)));
                let acked = Event::Acked { flow, id: packet.id, is_marked };
                events.push(Reverse((sent_ns + sender.base_rtt_ns, acked)));
            }
        }
        for (flow, id) in lost {
            events.push(Reverse((now_ns + senders[flow].base_rtt_ns, Event::Lost { flow, id })));
        }
    }
    senders
}
