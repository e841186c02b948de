//! What a learner sees of an interval, and what it is told of it.

use ccp_tcp::Sock;

/// Numbers of an observation.
pub const FEATURES: usize = 7;

/// One interval of a connection, as `ccp_algs/hyvar/observation.py` takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// How long it was.
    pub length_us: f64,
    /// Delivered, in order or not.
    pub thr_bytes_per_s: f64,
    /// Most of the connection so far, or of the window in which the best counts.
    pub thr_max_bytes_per_s: f64,
    /// Taken for lost.
    pub loss_bytes_per_s: f64,
    /// Mean of the RTT samples; 0: there was none.
    pub rtt_us: f64,
    /// Least of the connection so far.
    pub rtt_min_us: f64,
    /// Smoothed RTT at the end.
    pub srtt_us: f64,
    /// Window at the end.
    pub cwnd_bytes: f64,
    /// Payload of a full segment.
    pub mss_bytes: f64,
}

impl Interval {
    /// The observation `hyvar-1`; meaning and source are those of `ccp_algs/hyvar/observation.py`.
    #[must_use]
    pub fn observation(&self) -> [f32; FEATURES] {
        let bdp_bytes = self.thr_max_bytes_per_s * self.rtt_min_us / 1e6;
        let window = ratio(self.cwnd_bytes, bdp_bytes, f64::INFINITY).log2() / 4.0;
        [
            ratio(self.thr_bytes_per_s, self.thr_max_bytes_per_s, 0.0),
            (1.0 + ratio(bdp_bytes, self.mss_bytes, 0.0)).log2() / 16.0,
            ratio(self.rtt_min_us, self.rtt_us, 1.0),
            (1.0 + self.rtt_min_us / 1e3).log2() / 12.0,
            ratio(self.loss_bytes_per_s, self.thr_bytes_per_s + self.loss_bytes_per_s, 0.0),
            window,
            ratio(self.rtt_min_us, self.srtt_us, 1.0),
        ]
        .map(|value| value.clamp(-1.0, 1.0) as f32)
    }
}

fn ratio(above: f64, below: f64, otherwise: f64) -> f64 {
    if below > 0.0 { above / below } else { otherwise }
}

/// The best that the path can do at a time.
#[derive(Clone, Copy, Debug)]
pub struct Best {
    /// Rate of the bottleneck, as payload.
    pub thr_bytes_per_s: f64,
    /// RTT without a queue.
    pub rtt_us: f64,
}

/// Totals of a connection at one moment.
#[derive(Clone, Copy, Debug)]
struct Totals {
    now_ns: u64,
    delivered_pkts: u32,
    lost_pkts: u32,
    rtt_samples: u64,
    rtt_sum_us: u64,
}

impl Totals {
    fn of(sock: &Sock, now_ns: u64) -> Self {
        Totals {
            now_ns,
            delivered_pkts: sock.delivered,
            lost_pkts: sock.lost,
            rtt_samples: sock.rtt_samples,
            rtt_sum_us: sock.rtt_sum_us,
        }
    }
}

/// Makes intervals of what the sender counts.
#[derive(Clone, Debug)]
pub struct Monitor {
    before: Totals,
    best_of_rtts: f64,
    span_began_ns: u64,
    /// Best of the span that is under way, and of the one before.
    best_bytes_per_s: [f64; 2],
}

impl Monitor {
    /// The first interval begins now; the best throughput is that of so many minimum RTTs.
    #[must_use]
    pub fn new(sock: &Sock, now_ns: u64, best_of_rtts: f64) -> Self {
        Monitor {
            before: Totals::of(sock, now_ns),
            best_of_rtts,
            span_began_ns: now_ns,
            best_bytes_per_s: [0.0; 2],
        }
    }

    /// The best throughput with that of the interval that ends; half of the window is forgotten at once.
    fn best(&mut self, now_ns: u64, thr_bytes_per_s: f64, rtt_min_us: f64) -> f64 {
        let span_us = (now_ns - self.span_began_ns) as f64 / 1e3;
        if span_us > self.best_of_rtts * rtt_min_us.max(1.0) / 2.0 {
            self.best_bytes_per_s = [0.0, self.best_bytes_per_s[0]];
            self.span_began_ns = now_ns;
        }
        self.best_bytes_per_s[0] = self.best_bytes_per_s[0].max(thr_bytes_per_s);
        self.best_bytes_per_s[0].max(self.best_bytes_per_s[1])
    }

    /// Whether anything was heard from the receiver, or a timeout happened, since the interval began.
    #[must_use]
    pub fn heard(&self, sock: &Sock) -> bool {
        sock.delivered != self.before.delivered_pkts || sock.lost != self.before.lost_pkts
    }

    /// Ends an interval; the next one begins.
    pub fn end(&mut self, sock: &Sock, now_ns: u64) -> Interval {
        let now = Totals::of(sock, now_ns);
        let mss_bytes = f64::from(sock.mss_bytes);
        let length_us = (now_ns - self.before.now_ns) as f64 / 1e3;
        let per_s = |pkts: u32| ratio(f64::from(pkts) * mss_bytes * 1e6, length_us, 0.0);
        let thr_bytes_per_s = per_s(now.delivered_pkts - self.before.delivered_pkts);
        // What was taken for lost and had not been (an undo) lowers the total.
        let loss_bytes_per_s = per_s(now.lost_pkts.saturating_sub(self.before.lost_pkts));
        let rtt_min_us = if sock.min_rtt_us == u32::MAX { 0.0 } else { f64::from(sock.min_rtt_us) };
        let thr_max_bytes_per_s = self.best(now_ns, thr_bytes_per_s, rtt_min_us);
        let rtt_samples = now.rtt_samples - self.before.rtt_samples;
        let rtt_us = ratio((now.rtt_sum_us - self.before.rtt_sum_us) as f64, rtt_samples as f64, 0.0);
        self.before = now;
        Interval {
            length_us,
            thr_bytes_per_s,
            thr_max_bytes_per_s,
            loss_bytes_per_s,
            rtt_us,
            rtt_min_us,
            srtt_us: f64::from(sock.srtt_us),
            cwnd_bytes: f64::from(sock.snd_cwnd) * mss_bytes,
            mss_bytes,
        }
    }
}

#[cfg(test)]
#[path = "interval_tests.rs"]
mod tests;
