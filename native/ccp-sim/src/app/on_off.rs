//! Pulses on one connection, as sent by `experiments/traffic/pulses.py`.

use std::collections::VecDeque;

use ccp_tcp::Sender;

use super::{TICK_NS, ns};
use crate::control::Control;

/// Size of a write.
const CHUNK_BYTES: u64 = 1 << 16;
/// Maximum unsent bytes in the socket (TCP_NOTSENT_LOWAT); a blocked source is woken below half of it
/// (`tcp_stream_memory_free`).
const NOTSENT_BYTES: u64 = 1 << 17;

#[derive(Clone, Copy, Debug)]
struct Pulse {
    start_ns: u64,
    off_ns: u64,
    /// When the next one begins.
    end_ns: u64,
    written_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct OnOff {
    phases_us: VecDeque<(u64, u64)>,
    rate_bytes_per_s: Option<f64>,
    pulse: Option<Pulse>,
    due_ns: Option<u64>,
    is_blocked: bool,
    is_over: bool,
}

impl OnOff {
    pub fn new(phases_us: &[(u64, u64)], rate_bytes_per_s: Option<f64>) -> Self {
        OnOff {
            phases_us: phases_us.iter().copied().collect(),
            rate_bytes_per_s,
            pulse: None,
            due_ns: None,
            is_blocked: false,
            is_over: false,
        }
    }

    pub fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }

    /// All pulses, and the last pause, are over.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    pub fn fill(&mut self, now_ns: u64, sender: &mut Sender<Control>) {
        let Some(pulse) = self.pulse_at(now_ns) else { return };
        if now_ns >= pulse.off_ns {
            self.due_ns = Some(pulse.end_ns);
            return;
        }
        self.due_ns = Some(pulse.off_ns);
        let unsent_bytes = sender.unsent_bytes();
        if self.is_blocked && unsent_bytes >= NOTSENT_BYTES / 2 {
            return;
        }
        let room_bytes = NOTSENT_BYTES.saturating_sub(unsent_bytes);
        let written_bytes = pulse.written_bytes + self.writes(now_ns, pulse, room_bytes);
        self.is_blocked = written_bytes - pulse.written_bytes == room_bytes;
        if written_bytes > pulse.written_bytes {
            sender.write(now_ns, written_bytes - pulse.written_bytes);
        }
        self.pulse = Some(Pulse { written_bytes, ..pulse });
    }

    /// Bytes to write now; tries again at the next tick if limited by its rate.
    fn writes(&mut self, now_ns: u64, pulse: Pulse, room_bytes: u64) -> u64 {
        let Some(rate) = self.rate_bytes_per_s else { return room_bytes };
        let may_bytes = (now_ns - pulse.start_ns) as f64 * rate / 1e9 - pulse.written_bytes as f64;
        let min_bytes = (rate * TICK_NS as f64 / 1e9).clamp(1.0, CHUNK_BYTES as f64);
        if may_bytes >= room_bytes as f64 {
            return room_bytes;
        }
        self.due_ns = Some(pulse.off_ns.min(now_ns + TICK_NS));
        if may_bytes < min_bytes { 0 } else { may_bytes as u64 }
    }

    /// The pulse at this time; the first call starts the first. `None` after the last.
    fn pulse_at(&mut self, now_ns: u64) -> Option<Pulse> {
        let mut start_ns = match self.pulse {
            Some(pulse) if now_ns < pulse.end_ns => return Some(pulse),
            Some(pulse) => pulse.end_ns,
            None => now_ns,
        };
        loop {
            let Some((on_us, off_us)) = self.phases_us.pop_front() else {
                (self.is_over, self.due_ns) = (true, None);
                return None;
            };
            let off_ns = start_ns.saturating_add(ns(on_us));
            let pulse =
                Pulse { start_ns, off_ns, end_ns: off_ns.saturating_add(ns(off_us)), written_bytes: 0 };
            self.pulse = Some(pulse);
            if now_ns < pulse.end_ns {
                return Some(pulse);
            }
            start_ns = pulse.end_ns;
        }
    }
}
