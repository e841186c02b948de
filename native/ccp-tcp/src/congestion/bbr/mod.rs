//! BBR, version 1, as in Linux' `tcp_bbr.c` (draft-cardwell-iccrg-bbr-congestion-control-00).
//!
//! Deviation: the first phase of gain cycling depends on the clock instead of a random number, for reproducibility.

mod aggregation;
mod from_outside;
mod long_term;
mod window;

use super::Congestion;
use super::jiffies::{HZ, jiffies};
use crate::minmax::WindowedMin;
use crate::{CaState, INFINITE_SSTHRESH, RateSample, Sock};
use aggregation::Aggregation;
use long_term::{LongTerm, Outcome};

/// Bandwidths are segments per us, times this.
const BW_UNIT: u64 = 1 << 24;
/// Gains are in units of 1/256.
const UNIT: u64 = 1 << 8;
/// 2/ln 2: fills the pipe in as many rounds as slow start.
const HIGH_GAIN: u64 = UNIT * 2885 / 1000 + 1;
/// Drains in a round what STARTUP queued.
const DRAIN_GAIN: u64 = UNIT * 1000 / 2885;
const CWND_GAIN: u64 = 2 * UNIT;
/// Pacing gains of PROBE_BW, one round each.
const CYCLE: [u64; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// The maximum bandwidth of this many rounds is used.
const BW_ROUNDS: u64 = CYCLE.len() as u64 + 2;
/// Lifetime of a minimum RTT.
const MIN_RTT_JIFFIES: u64 = 10 * HZ;
/// PROBE_RTT lasts this long, and a round.
const PROBE_RTT_JIFFIES: u64 = HZ / 5;
/// The pipe is full after this many consecutive rounds with less than a quarter more.
const FULL_BW_ROUNDS: u32 = 3;
const FULL_BW_GAIN: u64 = UNIT * 5 / 4;
/// Pacing is 1 % below the bandwidth.
const MARGIN_PERCENT: u64 = 1;
/// Below this rate bursts may be single segments [bytes/s].
const MIN_TSO_BYTES_PER_S: u64 = 1_200_000 / 8;
/// Multiplier of splitmix64's sequence.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Mode {
    #[default]
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

#[derive(Clone, Debug)]
pub struct Bbr {
    mode: Mode,
    min_rtt_us: u32,
    min_rtt_stamp: u64,
    /// Jiffies; none: the window is not yet drained.
    probe_rtt_done: Option<u64>,
    probe_rtt_round_done: bool,
    /// Complements of bandwidths by round: their minimum is the maximum bandwidth.
    complements: WindowedMin,
    rounds: u64,
    next_round_delivered: u32,
    round_start: bool,
    cycle_us: u64,
    cycle_index: usize,
    pacing_gain: u64,
    cwnd_gain: u64,
    prev_state: CaState,
    packet_conservation: bool,
    idle_restart: bool,
    has_seen_rtt: bool,
    full_bw: u32,
    full_bw_rounds: u32,
    full_bw_reached: bool,
    prior_cwnd: u32,
    long_term: LongTerm,
    aggregation: Aggregation,
}

impl Default for Bbr {
    fn default() -> Self {
        Self {
            mode: Mode::Startup,
            min_rtt_us: u32::MAX,
            min_rtt_stamp: 0,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            complements: WindowedMin::new(BW_ROUNDS),
            rounds: 0,
            next_round_delivered: 0,
            round_start: false,
            cycle_us: 0,
            cycle_index: 0,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            prev_state: CaState::Open,
            packet_conservation: false,
            idle_restart: false,
            has_seen_rtt: false,
            full_bw: 0,
            full_bw_rounds: 0,
            full_bw_reached: false,
            prior_cwnd: 0,
            long_term: LongTerm::default(),
            aggregation: Aggregation::default(),
        }
    }
}

/// The rate in bytes of a bandwidth and a gain, minus the margin (`bbr_rate_bytes_per_sec`).
fn pace_bytes_per_s(sock: &Sock, bw: u32, gain: u64) -> u64 {
    let bytes = u128::from(bw) * u128::from(sock.mss_bytes);
    let scaled = (bytes * u128::from(gain)) / u128::from(UNIT);
    (scaled * u128::from(1_000_000 / 100 * (100 - MARGIN_PERCENT)) / u128::from(BW_UNIT)) as u64
}

fn is_valid(sample: &RateSample) -> bool {
    sample.delivered >= 0 && sample.interval_us > 0
}

impl Bbr {
    fn max_bw(&self) -> u32 {
        u32::MAX - self.complements.get()
    }

    fn bw(&self) -> u32 {
        if self.long_term.in_use { self.long_term.bw } else { self.max_bw() }
    }

    /// Without a bandwidth: a window per RTT, or per 1 ms.
    fn pace_by_rtt(&mut self, sock: &mut Sock) {
        self.has_seen_rtt |= sock.srtt_us > 0;
        let rtt_us = if sock.srtt_us > 0 { sock.srtt_us } else { 1000 };
        let bw = u64::from(sock.snd_cwnd) * BW_UNIT / u64::from(rtt_us);
        let bw = u32::try_from(bw).unwrap_or(u32::MAX);
        sock.pacing_rate_bytes_per_s = pace_bytes_per_s(sock, bw, HIGH_GAIN);
    }

    fn pace(&mut self, sock: &mut Sock, gain: u64) {
        let rate = pace_bytes_per_s(sock, self.bw(), gain);
        if !self.has_seen_rtt && sock.srtt_us > 0 {
            self.pace_by_rtt(sock);
        }
        if self.full_bw_reached || rate > sock.pacing_rate_bytes_per_s {
            sock.pacing_rate_bytes_per_s = rate;
        }
    }

    fn enter_probe_bw(&mut self, sock: &Sock) {
        self.mode = Mode::ProbeBw;
        // Any phase except the draining one.
        let chance = (sock.mstamp_us ^ u64::from(sock.delivered)).wrapping_mul(GOLDEN) >> 32;
        self.cycle_index = CYCLE.len() - 1 - ((chance * 7) >> 32) as usize;
        self.advance_cycle(sock);
    }

    fn advance_cycle(&mut self, sock: &Sock) {
        self.cycle_index = (self.cycle_index + 1) % CYCLE.len();
        self.cycle_us = sock.delivered_mstamp_us;
    }

    fn leave_probe_rtt(&mut self, sock: &Sock) {
        if self.full_bw_reached {
            self.enter_probe_bw(sock);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn sample_long_term(&mut self, sock: &Sock, sample: &RateSample) {
        let probes_bw = self.mode == Mode::ProbeBw;
        match self.long_term.sample(sock, sample, self.round_start, probes_bw) {
            Outcome::Nothing => {}
            Outcome::Policed => self.pacing_gain = UNIT,
            Outcome::Expired => self.enter_probe_bw(sock),
        }
    }

    fn update_bw(&mut self, sock: &Sock, sample: &RateSample) {
        self.round_start = false;
        if !is_valid(sample) {
            return;
        }
        // Segment numbers wrap.
        if sample.prior_delivered.wrapping_sub(self.next_round_delivered) as i32 >= 0 {
            self.next_round_delivered = sock.delivered;
            self.rounds += 1;
            self.round_start = true;
            self.packet_conservation = false;
        }
        self.sample_long_term(sock, sample);
        let bw = sample.delivered as u64 * BW_UNIT / sample.interval_us as u64;
        let bw = u32::try_from(bw).unwrap_or(u32::MAX);
        if !sample.is_app_limited || bw >= self.max_bw() {
            self.complements.update(self.rounds, u32::MAX - bw);
        }
    }

    fn update_cycle(&mut self, sock: &Sock, sample: &RateSample) {
        if self.mode == Mode::ProbeBw && self.is_next_phase(sock, sample) {
            self.advance_cycle(sock);
        }
    }

    fn is_next_phase(&self, sock: &Sock, sample: &RateSample) -> bool {
        let past_us = sock.delivered_mstamp_us.saturating_sub(self.cycle_us);
        let is_full_length = past_us > u64::from(self.min_rtt_us);
        if self.pacing_gain == UNIT {
            return is_full_length;
        }
        let in_net = self.in_net_at_departure(sock, sample.prior_in_flight);
        if self.pacing_gain > UNIT {
            let is_filled = in_net >= self.target_in_flight(sock, self.max_bw(), self.pacing_gain);
            return is_full_length && (sample.losses > 0 || is_filled);
        }
        is_full_length || in_net <= self.target_in_flight(sock, self.max_bw(), UNIT)
    }

    fn check_full(&mut self, sample: &RateSample) {
        if self.full_bw_reached || !self.round_start || sample.is_app_limited {
            return;
        }
        if u64::from(self.max_bw()) >= u64::from(self.full_bw) * FULL_BW_GAIN / UNIT {
            self.full_bw = self.max_bw();
            self.full_bw_rounds = 0;
            return;
        }
        self.full_bw_rounds += 1;
        self.full_bw_reached = self.full_bw_rounds >= FULL_BW_ROUNDS;
    }

    fn check_drain(&mut self, sock: &mut Sock) {
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
            sock.snd_ssthresh = self.target_in_flight(sock, self.max_bw(), UNIT);
        }
        if self.mode == Mode::Drain {
            let in_net = self.in_net_at_departure(sock, sock.packets_in_flight());
            if in_net <= self.target_in_flight(sock, self.max_bw(), UNIT) {
                self.enter_probe_bw(sock);
            }
        }
    }

    fn check_probe_rtt_done(&mut self, sock: &mut Sock) {
        let now = jiffies(sock);
        if self.probe_rtt_done.is_some_and(|done| now > done) {
            self.min_rtt_stamp = now;
            sock.snd_cwnd = sock.snd_cwnd.max(self.prior_cwnd);
            self.leave_probe_rtt(sock);
        }
    }

    fn update_min_rtt(&mut self, sock: &mut Sock, sample: &RateSample) {
        let now = jiffies(sock);
        let is_old = now > self.min_rtt_stamp + MIN_RTT_JIFFIES;
        if let Ok(rtt_us) = u32::try_from(sample.rtt_us)
            && (rtt_us < self.min_rtt_us || (is_old && !sample.is_ack_delayed))
        {
            self.min_rtt_us = rtt_us;
            self.min_rtt_stamp = now;
        }
        if is_old && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd(sock);
            self.probe_rtt_done = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.probe_rtt(sock, now);
        }
        if sample.delivered > 0 {
            self.idle_restart = false;
        }
    }

    fn probe_rtt(&mut self, sock: &mut Sock, now: u64) {
        // Rates are low intentionally.
        sock.app_limited = sock.delivered.wrapping_add(sock.packets_in_flight()).max(1);
        if self.probe_rtt_done.is_some() {
            self.probe_rtt_round_done |= self.round_start;
            if self.probe_rtt_round_done {
                self.check_probe_rtt_done(sock);
            }
        } else if sock.packets_in_flight() <= window::MIN_PKTS {
            self.probe_rtt_done = Some(now + PROBE_RTT_JIFFIES);
            self.probe_rtt_round_done = false;
            self.next_round_delivered = sock.delivered;
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.long_term.in_use => (UNIT, CWND_GAIN),
            Mode::ProbeBw => (CYCLE[self.cycle_index], CWND_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }
}

impl Congestion for Bbr {
    fn init(&mut self, sock: &mut Sock) {
        *self = Self {
            min_rtt_us: sock.min_rtt_us,
            min_rtt_stamp: jiffies(sock),
            next_round_delivered: sock.delivered,
            ..Self::default()
        };
        self.long_term.reset(sock);
        self.aggregation.restart(sock.mstamp_us);
        sock.snd_ssthresh = INFINITE_SSTHRESH;
        self.pace_by_rtt(sock);
        sock.is_paced = true;
    }

    /// Losses set no threshold.
    fn ssthresh(&mut self, sock: &mut Sock) -> u32 {
        self.save_cwnd(sock);
        sock.snd_ssthresh
    }

    fn has_cong_control(&self) -> bool {
        true
    }

    fn cong_control(&mut self, sock: &mut Sock, sample: &RateSample, _ece: bool) {
        self.update_bw(sock, sample);
        self.aggregation.update(sock, sample, self.bw(), self.round_start);
        self.update_cycle(sock, sample);
        self.check_full(sample);
        self.check_drain(sock);
        self.update_min_rtt(sock, sample);
        self.update_gains();
        self.pace(sock, self.pacing_gain);
        self.set_cwnd(sock, sample);
    }

    fn set_state(&mut self, sock: &mut Sock, new: CaState) {
        if new == CaState::Loss {
            self.prev_state = CaState::Loss;
            self.full_bw = 0;
            self.round_start = true;
            self.sample_long_term(sock, &RateSample { losses: 1, ..RateSample::default() });
        }
    }

    fn tx_start(&mut self, sock: &mut Sock) {
        if sock.app_limited == 0 {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(sock.mstamp_us);
        match self.mode {
            Mode::ProbeBw => self.pace(sock, UNIT),
            Mode::ProbeRtt => self.check_probe_rtt_done(sock),
            Mode::Startup | Mode::Drain => {}
        }
    }

    fn undo_cwnd(&mut self, sock: &mut Sock) -> u32 {
        self.full_bw = 0;
        self.full_bw_rounds = 0;
        self.long_term.reset(sock);
        sock.snd_cwnd
    }

    fn buffered_windows(&self) -> u32 {
        3
    }

    fn min_tso_segs(&self, sock: &Sock) -> u32 {
        if sock.pacing_rate_bytes_per_s < MIN_TSO_BYTES_PER_S { 1 } else { 2 }
    }
}

#[cfg(test)]
#[path = "../bbr_tests.rs"]
mod tests;
