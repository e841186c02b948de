//! Bulk transfers like iperf3's.

use ccp_tcp::Sender;

use super::TICK_NS;
use crate::control::Control;

/// Size of iperf3's writes (`DEFAULT_TCP_BLKSIZE`).
const BLOCK_BYTES: u64 = 128 << 10;
/// Writes without a rate before it checks for room again (`multisend`).
const BLOCKS_AT_ONCE: u64 = 10;
/// Written first into each connection (`COOKIE_SIZE`), before the test. Not counted.
pub(crate) const COOKIE_BYTES: u64 = 37;
/// Between the last connection and the first byte of the test pass one round trip, as the server starts the
/// test, and processing at both ends: measured with iperf3 3.12.
const THINKING_NS: u64 = 800_000;

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    is_open: bool,
    written_bytes: u64,
    /// Start of the test, or the next write allowed by the rate.
    due_ns: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Bulk {
    /// Not yet written; `None`: unlimited.
    left_bytes: Option<u64>,
    rate_bytes_per_s: Option<f64>,
    streams: Vec<Stream>,
    /// Start of the test, after all connections are open.
    begin_ns: Option<u64>,
}

impl Bulk {
    pub fn new(total_bytes: Option<u64>, rate_bytes_per_s: Option<f64>, parallel: u32) -> Self {
        Bulk {
            left_bytes: total_bytes,
            rate_bytes_per_s,
            streams: vec![Stream::default(); parallel as usize],
            begin_ns: None,
        }
    }

    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// It ends only with its flow.
    pub fn is_endless(&self) -> bool {
        self.left_bytes.is_none()
    }

    /// It writes everything at once.
    pub fn is_unlimited(&self) -> bool {
        self.is_endless() && self.rate_bytes_per_s.is_none()
    }

    pub fn is_written(&self) -> bool {
        self.left_bytes == Some(0)
    }

    pub fn due_ns(&self) -> Option<u64> {
        self.streams.iter().filter_map(|stream| stream.due_ns).min()
    }

    /// The stream whose rate allows a write now.
    pub fn take_due(&mut self, now_ns: u64) -> Option<usize> {
        let nth = self.streams.iter().position(|stream| stream.due_ns.is_some_and(|at| at <= now_ns))?;
        self.streams[nth].due_ns = None;
        Some(nth)
    }

    pub fn fill(&mut self, now_ns: u64, nth: usize, sender: &mut Sender<Control>) {
        if !std::mem::replace(&mut self.streams[nth].is_open, true) {
            sender.write(now_ns, COOKIE_BYTES);
            if self.streams.iter().all(|stream| stream.is_open) {
                let begin_ns = now_ns + u64::from(sender.sock.srtt_us) * 1000 + THINKING_NS;
                self.begin_ns = Some(begin_ns);
                self.streams.iter_mut().for_each(|stream| stream.due_ns = Some(begin_ns));
            }
            return;
        }
        let Some(begin_ns) = self.begin_ns.filter(|begin_ns| *begin_ns <= now_ns) else { return };
        let stream = &mut self.streams[nth];
        if self.left_bytes.is_none() && self.rate_bytes_per_s.is_none() {
            sender.write_portions(now_ns, BLOCKS_AT_ONCE * BLOCK_BYTES);
            return;
        }
        while sender.unsent_bytes() < BLOCK_BYTES {
            if let Some(rate) = self.rate_bytes_per_s {
                let at_ns = begin_ns + (stream.written_bytes as f64 * 1e9 / rate).ceil() as u64;
                if at_ns > now_ns {
                    let ticks = (at_ns - begin_ns).div_ceil(TICK_NS);
                    stream.due_ns = Some(begin_ns + ticks * TICK_NS);
                    return;
                }
            }
            let block_bytes = self.left_bytes.map_or(BLOCK_BYTES, |left| left.min(BLOCK_BYTES));
            if block_bytes == 0 {
                sender.finish(now_ns);
                return;
            }
            sender.write(now_ns, block_bytes);
            stream.written_bytes += block_bytes;
            self.left_bytes = self.left_bytes.map(|left| left - block_bytes);
        }
        if self.is_written() {
            sender.finish(now_ns);
        }
    }
}
