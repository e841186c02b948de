//! Rates at which data leaves and arrives, from a flow's own acknowledgements.
//!
//! Source: draft-ietf-ccwg-bbr, "Delivery Rate Samples", as in Linux: for the newest acknowledged packet, deliveries
//! since its transmission, divided by the time that passed at the sender and at the receiver. quinn gives controllers
//! only the transmission time of a packet, which identifies it here.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Maximum number of transmission times: a window of this many bursts.
const MAX_BURSTS: usize = 1024;

#[derive(Clone, Copy, Debug)]
struct Burst {
    sent: Instant,
    first_sent: Instant,
    delivered_bytes: u64,
    delivered_at: Instant,
}

/// Rates of one flow. Allocates only at creation.
#[derive(Debug)]
pub struct Rates {
    bursts: VecDeque<Burst>,
    first_sent: Instant,
    delivered_bytes: u64,
    delivered_at: Instant,
    /// From the last sample; 0 before it.
    pub outgoing_bytes_per_s: u64,
    pub incoming_bytes_per_s: u64,
}

impl Rates {
    pub fn new(now: Instant) -> Self {
        Rates {
            bursts: VecDeque::with_capacity(MAX_BURSTS),
            first_sent: now,
            delivered_bytes: 0,
            delivered_at: now,
            outgoing_bytes_per_s: 0,
            incoming_bytes_per_s: 0,
        }
    }

    /// Records a transmission, with the path empty before or not.
    pub fn sent(&mut self, now: Instant, was_empty: bool) {
        if was_empty {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        if self.bursts.back().is_some_and(|burst| burst.sent >= now) {
            return;
        }
        if self.bursts.len() == MAX_BURSTS {
            self.bursts.pop_front();
        }
        self.bursts.push_back(Burst {
            sent: now,
            first_sent: self.first_sent,
            delivered_bytes: self.delivered_bytes,
            delivered_at: self.delivered_at,
        });
    }

    /// Handles an acknowledgement of `bytes`, whose newest packet was sent at `newest_sent`.
    pub fn acked(&mut self, now: Instant, newest_sent: Instant, bytes: u64) {
        self.delivered_bytes += bytes;
        self.delivered_at = now;
        let older = self.bursts.partition_point(|burst| burst.sent < newest_sent);
        self.bursts.drain(..older);
        let Some(burst) = self.bursts.front().filter(|burst| burst.sent == newest_sent) else { return };
        self.first_sent = burst.sent;
        let delivered_bytes = self.delivered_bytes - burst.delivered_bytes;
        let rate = |time: Duration| {
            let ns = time.as_nanos();
            (ns > 0).then(|| (u128::from(delivered_bytes) * 1_000_000_000 / ns) as u64)
        };
        let outgoing = rate(burst.sent.duration_since(burst.first_sent));
        let incoming = rate(now.duration_since(burst.delivered_at));
        self.outgoing_bytes_per_s = outgoing.unwrap_or(self.outgoing_bytes_per_s);
        self.incoming_bytes_per_s = incoming.unwrap_or(self.incoming_bytes_per_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Sends 1000 bytes per ms; each is acknowledged 10 ms later, or a queue releases one per `gap`.
    fn driven(gap: Duration) -> Rates {
        let began = Instant::now();
        let mut rates = Rates::new(began);
        let mut acks = VecDeque::new();
        let mut last_ack = began;
        for i in 0..200 {
            let sent = began + i * MS;
            while acks.front().is_some_and(|(ack, _)| *ack <= sent) {
                let (ack, of) = acks.pop_front().unwrap();
                rates.acked(ack, of, 1000);
            }
            rates.sent(sent, acks.is_empty());
            last_ack = (sent + 10 * MS).max(last_ack + gap);
            acks.push_back((last_ack, sent));
        }
        rates
    }

    #[test]
    fn a_path_with_room_delivers_what_is_sent() {
        let rates = driven(MS);
        assert_eq!((rates.outgoing_bytes_per_s, rates.incoming_bytes_per_s), (1_000_000, 1_000_000));
    }

    #[test]
    fn a_bottleneck_delivers_its_own_rate() {
        let rates = driven(2 * MS);
        assert_eq!(rates.incoming_bytes_per_s, 500_000);
        assert!(rates.outgoing_bytes_per_s > 550_000, "{}", rates.outgoing_bytes_per_s);
    }

    #[test]
    fn packets_of_before_give_no_sample() {
        let began = Instant::now();
        let mut rates = Rates::new(began + 5 * MS);
        rates.acked(began + 10 * MS, began, 1000);
        assert_eq!((rates.outgoing_bytes_per_s, rates.incoming_bytes_per_s), (0, 0));
    }

    #[test]
    fn it_does_not_allocate_while_it_runs() {
        let began = Instant::now();
        let mut rates = Rates::new(began);
        let room = rates.bursts.capacity();
        for i in 0..3 * MAX_BURSTS as u32 {
            rates.sent(began + i * MS, false);
        }
        assert_eq!((rates.bursts.len(), rates.bursts.capacity()), (MAX_BURSTS, room));
    }
}
