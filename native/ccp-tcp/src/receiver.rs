//! The receiver of a connection: reassembly and ACKs.

use std::iter::Chain;
use std::option;

use crate::receive_window::ReceiveWindow;
use crate::reorder::OutOfOrder;
use crate::rtt::RttEstimator;
use crate::tick::expiry_ns;
use crate::{Ack, Config, Data, SackRange};

/// Initial segments that are acknowledged immediately (`TCP_MAX_QUICKACKS`).
const MAX_QUICK_ACKS: u32 = 16;
/// After an ECN mark: the sender may have a window of one segment.
const QUICK_ACKS_AFTER_MARK: u32 = 2;
/// Minimum delay of an ACK (`TCP_DELACK_MIN`, `TCP_ATO_MIN`) [ns].
const ATO_MIN_NS: u64 = 40_000_000;
/// Maximum delay (`TCP_DELACK_MAX`) [ns].
const ATO_MAX_NS: u64 = 200_000_000;
/// Duplicate ACKs sent before compression begins (`TCP_FASTRETRANS_THRESH`).
const UNCOMPRESSED_ACKS: u32 = 3;
/// net.ipv4.tcp_comp_sack_nr: maximum number of compressed ACKs.
const MAX_COMPRESSED_ACKS: u32 = 44;
/// net.ipv4.tcp_comp_sack_delay_ns: maximum delay of an ACK of out-of-order data.
const COMPRESSED_DELAY_NS: u64 = 1_000_000;

#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub segments: u64,
    /// Bytes of data in order.
    pub in_order_bytes: u64,
    /// Segments without new data.
    pub duplicate_segments: u64,
    /// Segments after a gap.
    pub out_of_order_segments: u64,
    /// Segments with an ECN mark.
    pub ce_segments: u64,
    pub resent_segments: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Acks(Option<Ack>, Option<Ack>);

impl IntoIterator for Acks {
    type Item = Ack;
    type IntoIter = Chain<option::IntoIter<Ack>, option::IntoIter<Ack>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().chain(self.1)
    }
}

/// A receiver whose application reads immediately.
#[derive(Debug)]
pub struct Receiver {
    pub totals: Totals,
    window: ReceiveWindow,
    mss_bytes: u64,
    ecn: bool,
    accurate_ecn: bool,
    tick_ns: u64,
    now_ns: u64,
    rcv_nxt: u64,
    /// `rcv_nxt` of the last ACK.
    rcv_wup: u64,
    fin_seq: Option<u64>,
    ahead: OutOfOrder,
    /// Duplicate range, for the next ACK.
    duplicate: Option<SackRange>,
    /// Timestamp echoed by ACKs [ns].
    echo_ns: u64,
    demands_cwr: bool,
    /// The mark of the newest segment (RFC 8257, section 3.2).
    ce_state: bool,
    /// Number of segments still acknowledged immediately.
    quick_acks: u32,
    is_ack_due: bool,
    ack_at_ns: Option<u64>,
    /// Delay of ACKs; 0: nothing has arrived yet.
    ato_ns: u64,
    last_data_ns: u64,
    compress_at_ns: Option<u64>,
    compressed_acks: u32,
    duplicate_acks: u32,
    /// `rcv_nxt` of the gap of these counters.
    compressed_rcv_nxt: u64,
    /// The last echo used to measure the RTT, and the RTT [ns]; 0: none yet.
    measured_echo_ns: u64,
    rtt_ns: u64,
    /// This end's own estimate: of the handshake, as it sends no data.
    own_rtt: RttEstimator,
}

impl Receiver {
    /// The receiving end of a new connection.
    pub fn new(config: &Config) -> Self {
        Self {
            totals: Totals::default(),
            window: ReceiveWindow::new(config),
            mss_bytes: u64::from(config.mss_bytes),
            ecn: config.ecn,
            accurate_ecn: config.accurate_ecn,
            tick_ns: config.tick_ns,
            now_ns: 0,
            rcv_nxt: 0,
            rcv_wup: 0,
            fin_seq: None,
            ahead: OutOfOrder::default(),
            duplicate: None,
            echo_ns: 0,
            demands_cwr: false,
            ce_state: false,
            quick_acks: 0,
            is_ack_due: false,
            ack_at_ns: None,
            ato_ns: 0,
            last_data_ns: 0,
            compress_at_ns: None,
            compressed_acks: 0,
            duplicate_acks: 0,
            compressed_rcv_nxt: 0,
            measured_echo_ns: 0,
            rtt_ns: 0,
            own_rtt: RttEstimator::new((config.rto_min_ns / 1000) as u32),
        }
    }

    /// Whether all data and the FIN have arrived.
    pub fn is_finished(&self) -> bool {
        self.fin_seq.is_some_and(|fin| self.rcv_nxt > fin)
    }

    /// A segment arrived. `ce`: with an ECN mark.
    pub fn on_data(&mut self, now_ns: u64, data: &Data, ce: bool) -> Acks {
        self.now_ns = self.now_ns.max(now_ns);
        self.count(data, ce);
        self.duplicate = None;
        if data.seq <= self.rcv_wup {
            self.echo_ns = self.echo_ns.max(data.sent_ns);
        }
        if data.cwr && self.ecn {
            self.demands_cwr = false;
            self.is_ack_due |= data.len_bytes > 0;
        }
        let (seq, end) = (data.seq, data.end_seq());
        if data.fin {
            self.fin_seq = Some(end - 1);
        }
        if end <= self.rcv_nxt {
            self.totals.duplicate_segments += 1;
            self.duplicate = Some(SackRange { start: seq, end });
            self.start_quick_acks(MAX_QUICK_ACKS);
            return Acks(Some(self.ack()), None);
        }
        if seq >= self.window.end() {
            self.start_quick_acks(MAX_QUICK_ACKS);
            return Acks(Some(self.ack()), None);
        }
        if seq <= self.rcv_nxt {
            self.note_arrival();
        }
        // Before the segment is counted: an ACK triggered by its mark covers those before it.
        let mut early = self.take_mark(ce);
        if seq <= self.rcv_nxt {
            if seq < self.rcv_nxt {
                self.duplicate = Some(SackRange { start: seq, end: self.rcv_nxt });
            }
            self.take_in_order(end);
            // The application has read everything: no need to wait (`tcp_cleanup_rbuf`).
            self.is_ack_due |= data.push || u64::from(data.len_bytes) < self.mss_bytes;
        } else {
            self.totals.out_of_order_segments += 1;
            let range = SackRange { start: seq, end };
            if self.compressed_acks > 0 && self.ahead.displaces(range) {
                // The delayed ACK reports ranges that do not fit into the next one.
                early = Some(self.ack());
            }
            if let Some(duplicate) = self.ahead.insert(range) {
                self.totals.duplicate_segments += u64::from(duplicate == range);
                self.duplicate = Some(duplicate);
            }
        }
        self.measure_rtt(data);
        let waiting_bytes = self.waiting_bytes();
        // A larger window is announced immediately.
        self.quick_acks |= u32::from(self.window.on_segment(data.len_bytes, waiting_bytes));
        let answer = self.ack_or_wait();
        self.window.on_read(self.now_ns, self.rtt_ns, self.rcv_nxt, waiting_bytes);
        Acks(early, answer)
    }

    /// When `on_timer` has something to do.
    pub fn due_ns(&self) -> Option<u64> {
        match (self.ack_at_ns, self.compress_at_ns) {
            (Some(ack), Some(compressed)) => Some(ack.min(compressed)),
            (ack, compressed) => ack.or(compressed),
        }
    }

    /// Sends delayed ACKs that are due.
    pub fn on_timer(&mut self, now_ns: u64) -> Option<Ack> {
        self.now_ns = self.now_ns.max(now_ns);
        if self.compress_at_ns.is_some_and(|at_ns| at_ns <= self.now_ns) {
            return Some(self.ack());
        }
        if self.ack_at_ns.is_some_and(|at_ns| at_ns <= self.now_ns) {
            // Nothing arrived to trigger it earlier: the next delay is longer.
            self.ato_ns = (2 * self.ato_ns).min(self.rto_ns());
            return Some(self.ack());
        }
        None
    }

    /// This end is established; it measured the RTT of the handshake unless a SYN was lost.
    pub fn establish(&mut self, handshake_rtt_us: Option<u32>) {
        if let Some(rtt_us) = handshake_rtt_us {
            self.own_rtt.update(rtt_us, 0, 0);
        }
    }

    fn rto_ns(&self) -> u64 {
        self.own_rtt.rto_us() * 1000
    }

    fn count(&mut self, data: &Data, ce: bool) {
        let totals = &mut self.totals;
        totals.segments += 1;
        totals.ce_segments += u64::from(ce);
        totals.resent_segments += u64::from(data.is_retransmission);
    }

    /// Delivers data up to there, and the data waiting after it.
    fn take_in_order(&mut self, end: u64) {
        let had_holes = !self.ahead.is_empty();
        let (reached, duplicate) = self.ahead.advance(end);
        if self.duplicate.is_none() {
            self.duplicate = duplicate;
        }
        let fin = u64::from(self.fin_seq.is_some_and(|fin| reached > fin && self.rcv_nxt <= fin));
        self.totals.in_order_bytes += reached - self.rcv_nxt - fin;
        self.rcv_nxt = reached;
        // RFC 5681, section 4.2: a filled gap is acknowledged immediately. And a FIN ends everything.
        self.is_ack_due |= (had_holes && self.ahead.is_empty()) || fin > 0;
    }

    /// Data arrived in order: adapts the delay of ACKs (`tcp_event_data_recv`).
    fn note_arrival(&mut self) {
        let gap_ns = self.now_ns - self.last_data_ns;
        if self.ato_ns == 0 {
            self.start_quick_acks(MAX_QUICK_ACKS);
        } else if gap_ns <= ATO_MIN_NS / 2 {
            self.ato_ns = self.ato_ns / 2 + ATO_MIN_NS / 2;
        } else if gap_ns < self.ato_ns {
            self.ato_ns = (self.ato_ns / 2 + gap_ns).min(self.rto_ns());
        } else if gap_ns > self.rto_ns() {
            self.start_quick_acks(MAX_QUICK_ACKS);
        }
        self.last_data_ns = self.now_ns;
    }

    fn start_quick_acks(&mut self, maximum: u32) {
        let half_window_pkts = ((self.window.end() - self.rcv_nxt) / (2 * self.mss_bytes)).max(2);
        let quick = (half_window_pkts as u32).min(maximum);
        self.quick_acks = self.quick_acks.max(quick);
        self.ato_ns = ATO_MIN_NS;
    }

    /// Processes presence or absence of a mark; DCTCP's receiver acknowledges earlier segments with the previous mark.
    fn take_mark(&mut self, ce: bool) -> Option<Ack> {
        if !self.ecn {
            return None;
        }
        let mut early = None;
        if self.accurate_ecn {
            if self.ce_state != ce {
                if self.ack_at_ns.is_some() {
                    self.demands_cwr = self.ce_state;
                    early = Some(self.send_ack());
                }
                self.is_ack_due = true;
            }
            self.ce_state = ce;
            self.demands_cwr = ce;
        } else if ce && !self.demands_cwr {
            self.demands_cwr = true;
            self.start_quick_acks(QUICK_ACKS_AFTER_MARK);
        }
        early
    }

    /// Measures the RTT by echoed timestamps; the recent minimum is used (`tcp_rcv_rtt_measure_ts`).
    fn measure_rtt(&mut self, data: &Data) {
        if data.echo_ns <= self.measured_echo_ns || u64::from(data.len_bytes) < self.mss_bytes {
            return;
        }
        self.measured_echo_ns = data.echo_ns;
        let rtt_ns = (self.now_ns - data.echo_ns).max(1);
        self.rtt_ns = match self.rtt_ns {
            0 => rtt_ns,
            old if rtt_ns < old => rtt_ns,
            old => old - old / 8 + rtt_ns / 8,
        };
    }

    /// `__tcp_ack_snd_check`.
    fn ack_or_wait(&mut self) -> Option<Ack> {
        let is_second = self.rcv_nxt - self.rcv_wup > self.mss_bytes;
        if is_second || self.quick_acks > 0 || self.is_ack_due {
            return Some(self.ack());
        }
        if self.ahead.is_empty() {
            self.delay_ack();
            return None;
        }
        if self.compressed_acks >= MAX_COMPRESSED_ACKS {
            return Some(self.ack());
        }
        if self.compressed_rcv_nxt != self.rcv_nxt {
            self.compressed_rcv_nxt = self.rcv_nxt;
            self.duplicate_acks = 0;
        }
        if self.duplicate_acks < UNCOMPRESSED_ACKS {
            self.duplicate_acks += 1;
            return Some(self.ack());
        }
        self.compressed_acks += 1;
        if self.compress_at_ns.is_none() {
            self.compress_at_ns = Some(self.now_ns + (self.rtt_ns / 20).min(COMPRESSED_DELAY_NS));
        }
        None
    }

    /// `tcp_send_delayed_ack`: at most an RTT, if known.
    fn delay_ack(&mut self) {
        let max_ns = match u64::from(self.own_rtt.srtt8_us()) * 1000 / 8 {
            0 => ATO_MAX_NS,
            srtt_ns => srtt_ns.clamp(ATO_MIN_NS, ATO_MAX_NS),
        };
        let at_ns = expiry_ns(self.tick_ns, self.now_ns, self.ato_ns.min(max_ns));
        self.ack_at_ns = Some(self.ack_at_ns.map_or(at_ns, |old_ns| old_ns.min(at_ns)));
    }

    fn ack(&mut self) -> Ack {
        self.quick_acks = self.quick_acks.saturating_sub(1);
        if self.quick_acks == 0 && self.ato_ns > 0 {
            self.ato_ns = self.ato_ns.max(ATO_MIN_NS);
        }
        self.send_ack()
    }

    /// Bytes behind a gap, including the gaps.
    fn waiting_bytes(&self) -> u64 {
        self.ahead.end().map_or(0, |end| end - self.rcv_nxt)
    }

    fn send_ack(&mut self) -> Ack {
        self.rcv_wup = self.rcv_nxt;
        self.is_ack_due = false;
        self.ack_at_ns = None;
        self.compress_at_ns = None;
        self.compressed_acks = 0;
        let waiting_bytes = self.waiting_bytes();
        let window_bytes = self.window.offer(self.rcv_nxt, waiting_bytes);
        Ack {
            ack: self.rcv_nxt,
            sent_ns: self.now_ns,
            echo_ns: self.echo_ns,
            sacks: self.ahead.sacks(self.duplicate.take()),
            ece: self.demands_cwr,
            window_bytes,
        }
    }
}

#[cfg(test)]
impl Receiver {
    /// The next ACKs are neither delayed nor compressed.
    fn quick(&mut self) {
        self.start_quick_acks(MAX_QUICK_ACKS);
    }
}

#[cfg(test)]
#[path = "receiver_tests.rs"]
mod tests;
