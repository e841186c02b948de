//! A bottleneck in this process.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use ccp_tcp::{Ack, Data};

pub enum Packet {
    Data(Data),
    Ack(Ack),
}

/// A bottleneck and its buffer; ACKs are only delayed.
pub struct Bottleneck {
    pub rate_bytes_per_s: f64,
    pub delay_ns: u64,
    pub buffer_bytes: f64,
    free_ns: u64,
    due: BinaryHeap<Reverse<(u64, u64)>>,
    packets: HashMap<u64, Packet>,
    n_sent: u64,
}

impl Bottleneck {
    pub fn new(rate_bytes_per_s: f64, delay_ns: u64, buffer_bytes: f64) -> Self {
        Self {
            rate_bytes_per_s,
            delay_ns,
            buffer_bytes,
            free_ns: 0,
            due: BinaryHeap::new(),
            packets: HashMap::new(),
            n_sent: 0,
        }
    }

    /// Arrival time of data sent now; None if it is lost.
    fn passes(&mut self, now_ns: u64, data: &Data) -> Option<u64> {
        let wire_bytes = f64::from(data.len_bytes) + 52.0;
        let begin_ns = self.free_ns.max(now_ns);
        let queue_bytes = (begin_ns - now_ns) as f64 * 1e-9 * self.rate_bytes_per_s;
        if queue_bytes + wire_bytes > self.buffer_bytes {
            return None;
        }
        self.free_ns = begin_ns + (wire_bytes / self.rate_bytes_per_s * 1e9) as u64;
        Some(self.free_ns + self.delay_ns)
    }

    pub fn send(&mut self, now_ns: u64, packet: Packet) {
        let at_ns = match &packet {
            Packet::Data(data) => self.passes(now_ns, data),
            Packet::Ack(..) => Some(now_ns + self.delay_ns),
        };
        if let Some(at_ns) = at_ns {
            self.n_sent += 1;
            self.due.push(Reverse((at_ns, self.n_sent)));
            self.packets.insert(self.n_sent, packet);
        }
    }

    /// Returns the next packet that has arrived, and its time.
    pub fn arrived(&mut self, now_ns: u64) -> Option<(u64, Packet)> {
        let at_ns = self.next_ns().filter(|at_ns| *at_ns <= now_ns)?;
        let Reverse((_, number)) = self.due.pop()?;
        Some((at_ns, self.packets.remove(&number)?))
    }

    pub fn next_ns(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((at_ns, _))| *at_ns)
    }
}
