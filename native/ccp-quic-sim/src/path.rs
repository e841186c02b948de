//! The path between senders and receivers: one link in each direction.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use ccp_emu::spec::{Buffer, Direction, Link, Loss, Node, Queue, Spec};

/// IP packets of an Ethernet.
const MTU_BYTES: u32 = 1500;
/// Bytes of each opportunity of a trace.
const OPPORTUNITY_BYTES: f64 = 1500.0;

/// A bottleneck that all flows share, and a way back for ACKs with the same delay and no limit.
#[derive(Clone, Debug)]
pub struct Path {
    pub(crate) data: Direction,
    pub(crate) acks: Direction,
    pub(crate) seed: u64,
}

impl Path {
    /// A path with a buffer of one bandwidth-delay product that drops packets when it is full. `rtt` is the round-trip
    /// time of an empty path.
    pub fn new(mbit_per_s: f64, rtt: Duration) -> Self {
        let delay_us = u64::try_from(rtt.as_micros() / 2).unwrap_or(u64::MAX);
        let acks = Direction { delay_us, ..Direction::default() };
        let data = Direction { rate_bytes_per_s: Some(mbit_per_s * 125e3), ..acks.clone() };
        Path { data, acks, seed: 1 }.buffer_bdps(1.0)
    }

    #[must_use]
    pub fn buffer_bytes(mut self, bytes: u64) -> Self {
        self.data.buffer = Some(Buffer::Bytes(bytes));
        self
    }

    /// Sets the buffer in bandwidth-delay products; it holds at least one packet.
    #[must_use]
    pub fn buffer_bdps(self, bdps: f64) -> Self {
        let bytes = (self.bdp_bytes() as f64 * bdps) as u64;
        self.buffer_bytes(bytes.max(MTU_BYTES.into()))
    }

    /// Sets the probability that a data packet is lost, independently of others.
    #[must_use]
    pub fn loss(mut self, ratio: f64) -> Self {
        self.data.loss = (ratio > 0.0).then_some(Loss::Bernoulli { ratio });
        self
    }

    /// Delays each data packet by up to this time more, without reordering.
    #[must_use]
    pub fn jitter(mut self, maximum: Duration) -> Self {
        self.data.jitter_us = u64::try_from(maximum.as_micros()).unwrap_or(u64::MAX);
        self
    }

    /// Marks ECN-capable packets that waited longer than this in the queue.
    #[must_use]
    pub fn marks_above(mut self, queue: Duration) -> Self {
        let ce_threshold_us = u64::try_from(queue.as_micros()).ok();
        self.data.queue = Queue::DropTail { ce_threshold_us, ce_threshold_bytes: None };
        self
    }

    /// Sets the seed of all random numbers of path and connections; the default is 1.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Changes what has no method here, such as bursts of loss, traces, token buckets and CoDel.
    #[must_use]
    pub fn data(mut self, change: impl FnOnce(&mut Direction)) -> Self {
        change(&mut self.data);
        self
    }

    /// Changes the way of the ACKs.
    #[must_use]
    pub fn acks(mut self, change: impl FnOnce(&mut Direction)) -> Self {
        change(&mut self.acks);
        self
    }

    /// Mean rate of the bottleneck; infinite without a limit.
    pub fn rate_bytes_per_s(&self) -> f64 {
        match (&self.data.trace_ms, self.data.rate_bytes_per_s) {
            (Some(trace_ms), _) => {
                let period_ms = trace_ms.last().copied().unwrap_or(0).max(1) as f64;
                trace_ms.len() as f64 * OPPORTUNITY_BYTES * 1e3 / period_ms
            }
            (None, Some(rate)) => rate,
            (None, None) => f64::INFINITY,
        }
    }

    /// Round-trip time of the empty path.
    pub fn rtt(&self) -> Duration {
        Duration::from_micros(self.data.delay_us.saturating_add(self.acks.delay_us))
    }

    pub fn bdp_bytes(&self) -> u64 {
        (self.rate_bytes_per_s() * self.rtt().as_secs_f64()) as u64
    }

    /// The network of this path. Errors: `emulator.bad_spec`.
    pub(crate) fn spec(self) -> ccp_emu::Result<Spec> {
        for (name, direction) in [("data", &self.data), ("acks", &self.acks)] {
            direction.check().map_err(|e| e.at(format!("the path's direction of {name}")))?;
        }
        let host = |name: &str, last| Node {
            name: name.to_string(),
            addresses: vec![IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))],
            tun: None,
            misbehaves: None,
        };
        let link = |name: &str, from, to, direction| Link { name: name.to_string(), from, to, direction };
        Ok(Spec {
            seed: self.seed,
            mtu_bytes: MTU_BYTES,
            nodes: vec![host("senders", 1), host("receivers", 2)],
            links: vec![link(DATA, 0, 1, self.data), link(ACKS, 1, 0, self.acks)],
            routes: vec![vec![-1, 0], vec![1, -1]],
            sample_interval_us: 1_000_000,
            samples_path: None,
            pcap: None,
            int: None,
        })
    }
}

/// Name and index of the link that carries data.
pub(crate) const DATA: &str = "data";
pub(crate) const DATA_LINK: usize = 0;
const ACKS: &str = "acks";

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    #[test]
    fn a_buffer_is_one_bandwidth_delay_product_by_default() {
        let path = Path::new(20.0, RTT);
        assert_eq!((path.bdp_bytes(), path.data.buffer), (100_000, Some(Buffer::Bytes(100_000))));
        assert_eq!(path.buffer_bdps(0.001).data.buffer, Some(Buffer::Bytes(1500)));
    }

    #[test]
    fn the_rate_of_a_trace_is_its_mean() {
        let path = Path::new(1.0, RTT).data(|data| {
            data.rate_bytes_per_s = None;
            data.trace_ms = Some(vec![1, 2, 4]);
        });
        assert_eq!(path.rate_bytes_per_s(), 3.0 * 1500.0 / 0.004);
    }

    #[test]
    fn an_invalid_path_is_refused_with_its_direction() {
        let error = Path::new(20.0, RTT).loss(1.5).spec().unwrap_err();
        assert_eq!((error.slug, error.place.as_str()), ("emulator.bad_spec", "the path's direction of data"));
    }
}
