//! A fold program on one connection.

use std::time::{Duration, Instant};

use ccp_lang::prims::{self, NOTHING, Prims};
use ccp_lang::{Implicit, Machine};

use crate::flow::{Numbered, Update};
use crate::link::{Link, Sent};
use crate::rates::Rates;
use crate::wire::{MAX_MEASURE_BYTES, Values, measure};

/// Minimum window in packets, as in quinn's own controllers.
pub const MIN_WINDOW_PKTS: u64 = 2;

/// The rate that means none, as in libccp [bytes/s].
const NO_RATE: u64 = u32::MAX as u64;

/// Events since the last fold.
#[derive(Clone, Copy, Debug, Default)]
pub struct Happened {
    pub acked_bytes: u64,
    pub acked_pkts: u64,
    pub rtt: Option<Duration>,
    pub lost_bytes: u64,
    pub lost_pkts: u64,
    /// An ACK reported marked packets; quinn does not report their number.
    pub is_marked: bool,
    /// Persistent congestion by RFC 9002.
    pub was_timeout: bool,
    pub is_app_limited: bool,
}

/// A program with its registers and decisions. Handling an ACK does not allocate.
#[derive(Debug)]
pub struct Fold {
    /// The agent that set the program.
    pub agent: u64,
    program: Numbered,
    machine: Box<Machine>,
    /// A report for which the agent had no room.
    is_due: bool,
    cwnd_bytes: u64,
    rate_bytes_per_s: u64,
    in_flight_bytes: u64,
    /// Time of the last ACK, and bytes acknowledged by it.
    acked: (Instant, u64),
    rates: Rates,
    /// Start of the program's clock.
    began: Instant,
    newest_sent: Instant,
}

impl Fold {
    /// Starts a program on a connection with a window of `cwnd_bytes`.
    pub fn new(now: Instant, cwnd_bytes: u64, agent: u64, program: Numbered, values: &Values) -> Self {
        let mut fold = Fold {
            agent,
            program,
            machine: Box::new(Machine::new()),
            is_due: false,
            cwnd_bytes,
            rate_bytes_per_s: 0,
            in_flight_bytes: 0,
            acked: (now, 0),
            rates: Rates::new(now),
            began: now,
            newest_sent: now,
        };
        fold.machine.reset(&fold.program.program, 0);
        fold.set(values);
        fold
    }

    pub fn obey(&mut self, now: Instant, update: Update) {
        if let Some(program) = update.program {
            (self.agent, self.program, self.is_due) = (update.agent, program, false);
            self.machine.reset(&self.program.program, self.now_us(now));
        }
        self.set(&update.values);
    }

    fn set(&mut self, values: &Values) {
        values.write(&mut self.machine.control);
        self.apply(values.cwnd_bytes, values.rate_bytes_per_s);
    }

    /// Applies a window and a rate; 0 leaves them unchanged.
    fn apply(&mut self, cwnd_bytes: u64, rate_bytes_per_s: u64) {
        if cwnd_bytes != 0 {
            self.cwnd_bytes = cwnd_bytes;
        }
        if rate_bytes_per_s != 0 {
            self.rate_bytes_per_s = rate_bytes_per_s;
        }
    }

    /// Returns the window [bytes]: the minimum of the program's and of its rate times `srtt`. QUIC libraries
    /// pace by window and `srtt`, and have no settable rate.
    pub fn window_bytes(&self, srtt: Duration, mss_bytes: u16) -> u64 {
        let minimum = MIN_WINDOW_PKTS * u64::from(mss_bytes);
        let by_rate = match self.rate_bytes_per_s {
            0 | NO_RATE.. => u128::MAX,
            rate => u128::from(rate) * srtt.as_micros() / 1_000_000,
        };
        u128::from(self.cwnd_bytes).min(by_rate).max(u128::from(minimum)) as u64
    }

    pub fn sent(&mut self, now: Instant, bytes: u64) {
        if self.reads_rates() {
            self.rates.sent(now, self.in_flight_bytes == 0);
        }
        self.in_flight_bytes += bytes;
    }

    /// Handles an ACK whose newest packet was sent at `newest_sent`. Returns the round-trip time if that
    /// packet is the newest of all: an older one may have been delivered earlier.
    pub fn acked(
        &mut self,
        now: Instant,
        newest_sent: Instant,
        bytes: u64,
        in_flight_bytes: u64,
    ) -> Option<Duration> {
        if self.reads_rates() {
            self.rates.acked(now, newest_sent, bytes);
        }
        self.in_flight_bytes = in_flight_bytes;
        self.acked = (now, bytes);
        let is_newest = newest_sent >= self.newest_sent;
        self.newest_sent = self.newest_sent.max(newest_sent);
        is_newest.then(|| now.duration_since(newest_sent))
    }

    pub fn lost(&mut self, bytes: u64) {
        self.in_flight_bytes = self.in_flight_bytes.saturating_sub(bytes);
    }

    /// Runs the program once, applies window and rate, and sends a report if requested. An aborted fold does
    /// neither. `number` is the flow's.
    pub fn run(&mut self, now: Instant, happened: &Happened, mss_bytes: u16, number: u32, link: &Link) {
        let prims = self.primitives(now, happened, u64::from(mss_bytes));
        let now_us = self.now_us(now);
        let machine = &mut *self.machine;
        machine.imp[Implicit::Cwnd as usize] = self.cwnd_bytes;
        machine.imp[Implicit::Rate as usize] = self.rate_bytes_per_s;
        let Ok(folded) = machine.invoke(&self.program.program, &prims, now_us) else { return };
        let [cwnd_bytes, rate_bytes_per_s] =
            [Implicit::Cwnd, Implicit::Rate].map(|reg| machine.imp[reg as usize]);
        self.apply(cwnd_bytes, rate_bytes_per_s);
        if folded.report || self.is_due {
            self.report(number, link);
        }
    }

    fn report(&mut self, number: u32, link: &Link) {
        let mut buffer = [0; MAX_MEASURE_BYTES];
        let fields = self.machine.reported(&self.program.program);
        let sent = link.report(measure(&mut buffer, number, self.program.number, fields));
        self.is_due = sent == Sent::Busy;
        if sent == Sent::Yes {
            self.machine.clear_volatile(&self.program.program);
        }
    }

    fn primitives(&self, now: Instant, happened: &Happened, mss_bytes: u64) -> Prims {
        let mut prims = NOTHING;
        // A recovery permits what is in flight plus what an ACK delivered. In the second fold of an ACK, for
        // its losses, nothing more is delivered, but the delivery has not been used for sending yet.
        let is_second = happened.acked_bytes == 0 && self.acked.0 == now;
        let in_flight_bytes = self.in_flight_bytes + if is_second { self.acked.1 } else { 0 };
        let marked = u64::from(happened.is_marked);
        for (index, value) in [
            (ACK_BYTES_ACKED, happened.acked_bytes),
            (ACK_ECN_BYTES, marked * mss_bytes),
            (ACK_ECN_PACKETS, marked),
            (ACK_LOST_PKTS_SAMPLE, happened.lost_pkts),
            (ACK_PACKETS_ACKED, happened.acked_pkts),
            (FLOW_BYTES_IN_FLIGHT, in_flight_bytes),
            (FLOW_BYTES_PENDING, if happened.is_app_limited { 0 } else { mss_bytes }),
            (FLOW_PACKETS_IN_FLIGHT, in_flight_bytes.div_ceil(mss_bytes)),
            (FLOW_RATE_INCOMING, self.rates.incoming_bytes_per_s),
            (FLOW_RATE_OUTGOING, self.rates.outgoing_bytes_per_s),
            (FLOW_WAS_TIMEOUT, u64::from(happened.was_timeout)),
        ] {
            prims[index] = value;
        }
        if let Some(rtt) = happened.rtt {
            prims[FLOW_RTT_SAMPLE_US] = rtt.as_micros() as u64;
        }
        prims
    }

    fn reads_rates(&self) -> bool {
        self.program.program.prims_used & (1 << FLOW_RATE_INCOMING | 1 << FLOW_RATE_OUTGOING) != 0
    }

    fn now_us(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.began).as_micros() as u64
    }
}

const ACK_BYTES_ACKED: usize = index("Ack.bytes_acked");
const ACK_ECN_BYTES: usize = index("Ack.ecn_bytes");
const ACK_ECN_PACKETS: usize = index("Ack.ecn_packets");
const ACK_LOST_PKTS_SAMPLE: usize = index("Ack.lost_pkts_sample");
const ACK_PACKETS_ACKED: usize = index("Ack.packets_acked");
const FLOW_BYTES_IN_FLIGHT: usize = index("Flow.bytes_in_flight");
const FLOW_BYTES_PENDING: usize = index("Flow.bytes_pending");
const FLOW_PACKETS_IN_FLIGHT: usize = index("Flow.packets_in_flight");
const FLOW_RATE_INCOMING: usize = index("Flow.rate_incoming");
const FLOW_RATE_OUTGOING: usize = index("Flow.rate_outgoing");
const FLOW_RTT_SAMPLE_US: usize = index("Flow.rtt_sample_us");
const FLOW_WAS_TIMEOUT: usize = index("Flow.was_timeout");

const fn index(name: &str) -> usize {
    let mut i = 0;
    while i < prims::N_PORTUS_PRIMS {
        if same(prims::PRIMITIVES[i].name.as_bytes(), name.as_bytes()) {
            return i;
        }
        i += 1;
    }
    panic!("CCP has no such primitive");
}

const fn same(left: &[u8], right: &[u8]) -> bool {
    let mut i = 0;
    while i < left.len() && i < right.len() && left[i] == right[i] {
        i += 1;
    }
    i == left.len() && i == right.len()
}

#[cfg(test)]
#[path = "fold_tests.rs"]
mod tests;
