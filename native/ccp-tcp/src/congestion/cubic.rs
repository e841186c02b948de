//! CUBIC with HyStart: RFC 9438 and RFC 9406's predecessor, with integers and constants of Linux' `tcp_cubic.c`.
//!
//! Times of the curve are jiffies of 1/HZ s: it is evaluated once per jiffy.

use super::growth::{Credit, slow_start};
use super::jiffies::{HZ, jiffies, jiffies_at};
use super::{Congestion, MIN_CWND_PKTS};
use crate::{CaState, Sock};

/// The curve's unit of time is 2^-10 s.
const UNIT_BITS: u32 = 10;
/// Reduction of the window, in 1024ths (RFC 9438, section 4.6: 0.7).
const BETA: u64 = 717;
const BETA_SCALE: u64 = 1024;
/// C in 1024ths of a segment/s^3: 0.4 (RFC 9438, section 5.1).
const C: u64 = 410;
/// 8 (1 + beta) / (3 (1 - beta)): window over this / 8 acknowledged segments increase Reno's window by one.
const RENO_SCALE: u64 = 8 * (BETA_SCALE + BETA) / 3 / (BETA_SCALE - BETA);
/// Acknowledged segments per segment of growth before the first loss, at most: 5 % per round trip.
const MAX_PER_BEFORE_LOSS: u32 = 20;
/// Minimum: half a window per round trip.
const MIN_PER: u32 = 2;

/// Minimum window for HyStart.
const HYSTART_LOW_WINDOW_PKTS: u32 = 16;
/// ACKs closer than this belong to one train.
const HYSTART_ACK_DELTA_US: u64 = 2000;
/// Minimum number of RTT samples per round.
const HYSTART_SAMPLES: u8 = 8;
/// Minimum and maximum rise of the RTT that indicates a queue.
const HYSTART_DELAY_US: (u32, u32) = (4000, 16000);
/// Maximum burst of segmentation offload; its serialization may delay ACKs.
const GSO_MAX_BYTES: u64 = 65_215;

#[derive(Clone, Debug, Default)]
pub struct Cubic {
    credit: Credit,
    curve: Curve,
    hystart: HyStart,
}

/// `struct bictcp` up to `tcp_cwnd`.
#[derive(Clone, Debug, Default)]
struct Curve {
    /// Acknowledged segments per segment of growth.
    per: u32,
    last_max_cwnd: u32,
    /// The window when `per` was computed.
    last_cwnd: u32,
    /// Jiffies at that time.
    last_time: u64,
    /// The curve's plateau.
    origin_pkts: u32,
    /// K [2^-10 s].
    k: u64,
    /// Minimum RTT [us], 0 = none yet.
    delay_min_us: u32,
    /// Jiffies at the start of the epoch; none: it begins at the next ACK.
    epoch_start: Option<u64>,
    /// Acknowledged segments not yet used for Reno's growth.
    ack_cnt: u32,
    /// Reno's window: W_est.
    reno_cwnd: u32,
}

#[derive(Clone, Debug, Default)]
struct HyStart {
    found: bool,
    samples: u8,
    round_start_us: u64,
    /// The round ends when this is acknowledged.
    end_seq: u64,
    /// The last ACK of the train.
    last_ack_us: u64,
    curr_rtt_us: u32,
}

impl HyStart {
    fn begin_round(&mut self, sock: &Sock) {
        self.round_start_us = sock.mstamp_us;
        self.last_ack_us = sock.mstamp_us;
        self.end_seq = sock.snd_nxt;
        self.curr_rtt_us = u32::MAX;
        self.samples = 0;
    }

    fn leave_slow_start(&mut self, sock: &mut Sock) {
        self.found = true;
        sock.snd_ssthresh = sock.snd_cwnd;
    }

    fn on_rtt(&mut self, sock: &mut Sock, rtt_us: u32, delay_min_us: u32) {
        if sock.snd_una > self.end_seq {
            self.begin_round(sock);
        }
        if sock.snd_cwnd < HYSTART_LOW_WINDOW_PKTS {
            return;
        }
        let now_us = sock.mstamp_us;
        if now_us - self.last_ack_us <= HYSTART_ACK_DELTA_US {
            self.last_ack_us = now_us;
            // Pacing may already have spread segments over half an RTT.
            let max_us = (u64::from(delay_min_us) + burst_us(sock)) >> u32::from(!sock.is_paced);
            if now_us - self.round_start_us > max_us {
                self.leave_slow_start(sock);
            }
        }
        self.curr_rtt_us = self.curr_rtt_us.min(rtt_us);
        if self.samples < HYSTART_SAMPLES {
            self.samples += 1;
        } else {
            let rise_us = (delay_min_us >> 3).clamp(HYSTART_DELAY_US.0, HYSTART_DELAY_US.1);
            if self.curr_rtt_us > delay_min_us + rise_us {
                self.leave_slow_start(sock);
            }
        }
    }
}

/// Duration that bursts may add to a train of ACKs, at most 1 ms (`hystart_ack_delay`).
fn burst_us(sock: &Sock) -> u64 {
    (GSO_MAX_BYTES * 4 * 1_000_000).checked_div(sock.pacing_rate_bytes_per_s).map_or(0, |us| us.min(1000))
}

/// K for a window below W_max: the cube root of the deficit over C, in 2^-10 s.
fn cube_root(deficit_pkts: u32) -> u64 {
    const PER_SEGMENT: u64 = (1 << (10 + 3 * UNIT_BITS)) / C;
    let cubed = PER_SEGMENT * u64::from(deficit_pkts);
    // The kernel's table and one Newton step are within 0.2 % of this. Floats differ between machines.
    let mut root = (cubed as f64).cbrt() as u64;
    while root.pow(3) > cubed {
        root -= 1;
    }
    while (root + 1).pow(3) <= cubed {
        root += 1;
    }
    root
}

impl Curve {
    /// Sets `per` (`bictcp_update`).
    fn update(&mut self, sock: &Sock, acked: u32) {
        let (now, cwnd) = (jiffies(sock), sock.snd_cwnd);
        self.ack_cnt += acked;
        if self.last_cwnd == cwnd && now - self.last_time <= HZ / 32 {
            return;
        }
        if self.epoch_start.is_none() || now != self.last_time {
            self.last_cwnd = cwnd;
            self.last_time = now;
            self.per = self.per_segment(now, cwnd, acked);
        }
        self.befriend(cwnd);
        self.per = self.per.max(MIN_PER);
    }

    /// Acknowledged segments per segment of growth on the curve (RFC 9438, sections 4.2 to 4.5).
    fn per_segment(&mut self, now: u64, cwnd: u32, acked: u32) -> u32 {
        let epoch_start = self.epoch_start.unwrap_or_else(|| self.begin_epoch(now, cwnd, acked));
        // The curve one round trip ahead; jiffies are rounded up.
        let rtt = (u64::from(self.delay_min_us) * HZ).div_ceil(1_000_000);
        let t = ((now - epoch_start + rtt) << UNIT_BITS) / HZ;
        let off = t.abs_diff(self.k);
        let cubed = (u128::from(off).pow(3) * u128::from(C)) >> (10 + 3 * UNIT_BITS);
        let delta = cubed.min(u128::from(u32::MAX / 2)) as u32;
        let target = if t < self.k {
            self.origin_pkts.saturating_sub(delta)
        } else {
            self.origin_pkts.saturating_add(delta)
        };
        let per = if target > cwnd { cwnd / (target - cwnd) } else { cwnd.saturating_mul(100) };
        if self.last_max_cwnd == 0 { per.min(MAX_PER_BEFORE_LOSS) } else { per }
    }

    fn begin_epoch(&mut self, now: u64, cwnd: u32, acked: u32) -> u64 {
        self.epoch_start = Some(now);
        self.ack_cnt = acked;
        self.reno_cwnd = cwnd;
        self.k = cube_root(self.last_max_cwnd.saturating_sub(cwnd));
        self.origin_pkts = self.last_max_cwnd.max(cwnd);
        now
    }

    /// At least as fast as Reno (RFC 9438, section 4.3).
    fn befriend(&mut self, cwnd: u32) {
        let per_reno = ((u64::from(cwnd) * RENO_SCALE) >> 3) as u32;
        if per_reno > 0 && self.ack_cnt > per_reno {
            // As often as possible, with a remainder.
            let times = (self.ack_cnt - 1) / per_reno;
            self.ack_cnt -= times * per_reno;
            self.reno_cwnd += times;
        }
        if self.reno_cwnd > cwnd {
            self.per = self.per.min(cwnd / (self.reno_cwnd - cwnd));
        }
    }
}

impl Cubic {
    /// The window was set from outside: the curve restarts there, with an epoch from the next ACK on. After a
    /// `lowered` window, or a loss, the growth of 5 % per round trip ends.
    pub fn restart(&mut self, cwnd: u32, lowered: bool) {
        let is_known = lowered || self.curve.last_max_cwnd > 0;
        self.curve = Curve {
            delay_min_us: self.curve.delay_min_us,
            last_max_cwnd: if is_known { cwnd } else { 0 },
            ..Curve::default()
        };
    }
}

impl Congestion for Cubic {
    fn init(&mut self, sock: &mut Sock) {
        *self = Self::default();
        self.hystart.begin_round(sock);
    }

    /// RFC 9438, sections 4.6 and 4.7 (fast convergence).
    fn ssthresh(&mut self, sock: &mut Sock) -> u32 {
        let cwnd = u64::from(sock.snd_cwnd);
        self.curve.epoch_start = None;
        self.curve.last_max_cwnd = if sock.snd_cwnd < self.curve.last_max_cwnd {
            (cwnd * (BETA_SCALE + BETA) / (2 * BETA_SCALE)) as u32
        } else {
            sock.snd_cwnd
        };
        ((cwnd * BETA / BETA_SCALE) as u32).max(MIN_CWND_PKTS)
    }

    fn cong_avoid(&mut self, sock: &mut Sock, acked: u32) {
        if !sock.cwnd_limited() {
            return;
        }
        let left = if sock.in_slow_start() { slow_start(sock, acked) } else { acked };
        if left > 0 {
            self.curve.update(sock, left);
            self.credit.grow(sock, self.curve.per, left);
        }
    }

    fn pkts_acked(&mut self, sock: &mut Sock, _acked: u32, rtt_us: i64) {
        // Samples right after a recovery were delayed by it.
        let is_early = self.curve.epoch_start.is_some_and(|start| jiffies(sock) - start < HZ);
        if rtt_us < 0 || is_early {
            return;
        }
        let rtt_us = u32::try_from(rtt_us.max(1)).unwrap_or(u32::MAX);
        if self.curve.delay_min_us == 0 || self.curve.delay_min_us > rtt_us {
            self.curve.delay_min_us = rtt_us;
        }
        if !self.hystart.found && sock.in_slow_start() {
            self.hystart.on_rtt(sock, rtt_us, self.curve.delay_min_us);
        }
    }

    /// A timeout resets everything.
    fn set_state(&mut self, sock: &mut Sock, new: CaState) {
        self.credit.on_state(sock.ca_state, new);
        if new == CaState::Loss {
            self.curve = Curve::default();
            self.hystart = HyStart::default();
            self.hystart.begin_round(sock);
        }
    }

    /// Idle time of the application is excluded.
    fn tx_start(&mut self, sock: &mut Sock) {
        let now = jiffies(sock);
        let idle = now.saturating_sub(jiffies_at(sock.last_sent_us));
        self.curve.epoch_start = self.curve.epoch_start.map(|start| (start + idle).min(now));
    }
}

#[cfg(test)]
#[path = "cubic_tests.rs"]
mod tests;
