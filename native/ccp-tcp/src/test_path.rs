//! A path for tests: a bottleneck with a drop-tail buffer, delays both ways, and disturbances.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::{Ack, Config, Congestion, Data, Receiver, Sender};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fate {
    Passes,
    IsLost,
    /// Arrives later by this [ns].
    IsLate(u64),
    /// A copy arrives later by this [ns].
    IsDoubled(u64),
}

enum Event {
    Data(Data, bool),
    Ack(Ack),
}

/// Sender and receiver with a path between them.
pub(crate) struct Path<C> {
    pub(crate) sender: Sender<C>,
    pub(crate) receiver: Receiver,
    pub(crate) now_ns: u64,
    pub(crate) bytes_per_s: u64,
    pub(crate) one_way_ns: u64,
    pub(crate) buffer_bytes: u64,
    /// Queue size from which packets are marked.
    pub(crate) mark_bytes: u64,
    pub(crate) data_fate: Box<dyn FnMut(&Data) -> Fate>,
    pub(crate) ack_fate: Box<dyn FnMut(&Ack) -> Fate>,
    pub(crate) dropped: u64,
    pub(crate) sent: u64,
    link_free_ns: u64,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    packets: std::collections::HashMap<u64, Event>,
    count: u64,
    checks: u64,
}

impl<C: Congestion> Path<C> {
    pub(crate) fn new(
        config: &Config,
        congestion: C,
        bytes_per_s: u64,
        rtt_ns: u64,
        buffer_bytes: u64,
    ) -> Self {
        let rtt_us = (rtt_ns / 1000) as u32;
        Self {
            sender: Sender::new(config, congestion, 0, Some(rtt_us)),
            receiver: Receiver::new(config),
            now_ns: 0,
            bytes_per_s,
            one_way_ns: rtt_ns / 2,
            buffer_bytes,
            mark_bytes: u64::MAX,
            data_fate: Box::new(|_| Fate::Passes),
            ack_fate: Box::new(|_| Fate::Passes),
            dropped: 0,
            sent: 0,
            link_free_ns: 0,
            events: BinaryHeap::new(),
            packets: std::collections::HashMap::new(),
            count: 0,
            checks: 0,
        }
    }

    /// Runs until a time, or until nothing is left to do; returns whether the sender is done.
    pub(crate) fn run(&mut self, until_ns: u64) -> bool {
        self.send();
        while let Some(at_ns) = self.next_ns().filter(|at_ns| *at_ns <= until_ns) {
            assert!(at_ns >= self.now_ns, "time goes back from {} to {at_ns}", self.now_ns);
            self.now_ns = at_ns;
            self.step();
            self.check();
        }
        self.now_ns = self.now_ns.max(until_ns);
        self.sender.is_done()
    }

    /// Runs until all is acknowledged.
    pub(crate) fn finish(&mut self) {
        self.sender.finish(self.now_ns);
        self.send();
        while !self.sender.is_done() {
            self.now_ns = self.next_ns().expect("something is due while data are outstanding");
            assert!(self.now_ns < 40_000_000_000_000, "the connection does not end");
            self.step();
            self.check();
        }
    }

    fn next_ns(&self) -> Option<u64> {
        let packet = self.events.peek().map(|Reverse((at_ns, _))| *at_ns);
        let due = [packet, self.sender.due_ns(), self.receiver.due_ns()];
        due.into_iter().flatten().min().map(|at_ns| at_ns.max(self.now_ns))
    }

    fn step(&mut self) {
        let now_ns = self.now_ns;
        while let Some(Reverse((at_ns, number))) = self.events.peek().copied()
            && at_ns <= now_ns
        {
            self.events.pop();
            match self.packets.remove(&number).expect("it was put there") {
                Event::Data(data, ce) => {
                    for ack in self.receiver.on_data(now_ns, &data, ce) {
                        self.answer(ack);
                    }
                }
                Event::Ack(ack) => {
                    self.sender.on_ack(now_ns, &ack);
                    self.send();
                }
            }
        }
        if self.sender.due_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            self.sender.on_timer(now_ns);
            self.send();
        }
        if self.receiver.due_ns().is_some_and(|at_ns| at_ns <= now_ns)
            && let Some(ack) = self.receiver.on_timer(now_ns)
        {
            self.answer(ack);
        }
    }

    pub(crate) fn send(&mut self) {
        while let Some(data) = self.sender.next_segment(self.now_ns) {
            self.sent += 1;
            let fate = (self.data_fate)(&data);
            let wire_bytes = u64::from(data.len_bytes) + 52;
            let free_ns = self.link_free_ns.max(self.now_ns);
            let queue_bytes =
                (u128::from(free_ns - self.now_ns) * u128::from(self.bytes_per_s) / 1_000_000_000) as u64;
            if fate == Fate::IsLost || queue_bytes + wire_bytes > self.buffer_bytes {
                self.dropped += 1;
                continue;
            }
            let ce = data.ect && queue_bytes > self.mark_bytes;
            self.link_free_ns = free_ns + wire_bytes * 1_000_000_000 / self.bytes_per_s;
            let at_ns = self.link_free_ns + self.one_way_ns;
            match fate {
                Fate::IsLate(ns) => self.put(at_ns + ns, Event::Data(data, ce)),
                Fate::IsDoubled(ns) => {
                    self.put(at_ns, Event::Data(data.clone(), ce));
                    self.put(at_ns + ns, Event::Data(data, ce));
                }
                _ => self.put(at_ns, Event::Data(data, ce)),
            }
        }
    }

    fn answer(&mut self, ack: Ack) {
        let at_ns = self.now_ns + self.one_way_ns;
        match (self.ack_fate)(&ack) {
            Fate::Passes => self.put(at_ns, Event::Ack(ack)),
            Fate::IsLost => {}
            Fate::IsLate(ns) => self.put(at_ns + ns, Event::Ack(ack)),
            Fate::IsDoubled(ns) => {
                self.put(at_ns, Event::Ack(ack.clone()));
                self.put(at_ns + ns, Event::Ack(ack));
            }
        }
    }

    fn put(&mut self, at_ns: u64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((at_ns, self.count)));
        self.packets.insert(self.count, event);
    }

    fn check(&mut self) {
        self.checks += 1;
        // Each check visits all outstanding segments.
        if self.sender.sock.packets_out < 200 || self.checks.is_multiple_of(100) {
            self.sender.check();
        }
        assert!(self.receiver.totals.in_order_bytes >= self.sender.sock.bytes_acked);
    }
}
