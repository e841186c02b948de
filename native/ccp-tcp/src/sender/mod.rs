//! The sender of an established connection: tcp_input.c, tcp_output.c, tcp_recovery.c and tcp_timer.c.

mod ack;
mod loss;
mod rack;
mod sack;
mod send_buffer;
mod timers;
mod transmit;
mod undo;

use crate::minmax::WindowedMin;
use crate::rate::RateEstimator;
use crate::rtt::RttEstimator;
use crate::scoreboard::Scoreboard;
use crate::{CaState, Config, Congestion, Data, Sock, pacing_rate_bytes_per_s};

use rack::Rack;
use send_buffer::SendBuffer;
use timers::Timers;

/// Window of the minimum RTT (net.ipv4.tcp_min_rtt_wlen) [us].
const MIN_RTT_WINDOW_US: u64 = 300_000_000;
/// Reordering tolerated before a loss is assumed (net.ipv4.tcp_reordering).
const REORDERING: u32 = 3;

/// What may be sent after an ACK besides new data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Resend {
    Nothing,
    Lost,
    /// New data first: it shows whether a timeout was spurious (F-RTO).
    NewFirst,
}

#[derive(Clone, Debug, Default)]
struct Source {
    /// Data beyond the send buffer.
    waiting_bytes: u64,
    is_endless: bool,
    /// What an endless source writes before it checks for room again.
    portion_bytes: u64,
    is_finished: bool,
    /// End of the data, position of the FIN.
    fin_seq: Option<u64>,
}

/// A sender with its congestion control.
#[derive(Debug)]
pub struct Sender<C> {
    /// The variables of congestion controls.
    pub sock: Sock,
    pub congestion: C,
    buffer: SendBuffer,
    nagle: bool,
    tick_ns: u64,
    board: Scoreboard,
    rate: RateEstimator,
    rtt: RttEstimator,
    min_rtt: WindowedMin,
    rack: Rack,
    timers: Timers,
    source: Source,
    now_ns: u64,
    /// `Ack::sent_ns` of the newest ACK.
    echo_ns: u64,
    /// `Ack::echo_ns` of the last ACK.
    ack_echo_ns: u64,
    /// Receive window after `snd_una`.
    window_bytes: u64,
    /// A segment sent by a timer.
    queued: Option<Data>,
    resend: Resend,
    /// Whether new data may be sent: not between a timeout and the next ACK.
    may_push: bool,
    /// Rest of a burst of new data [bytes], and whether it includes the FIN.
    burst_bytes: u64,
    /// A burst of several segments: the last one has PSH.
    burst_pushes: bool,
    /// New segments since `next_segment` last returned nothing.
    sent_new: u32,
    is_deferred_by_cwnd: bool,
    /// End of the window for `max_packets_out`.
    cwnd_usage_seq: u64,
    /// Maximum segments outstanding since the window was last the limit.
    cwnd_used: u32,
    /// When the window was last used up, or changed [us].
    cwnd_stamp_us: u64,
    high_seq: u64,
    prr_delivered: u32,
    reordering: u32,
    /// Start of the data for which a recovery can be undone.
    undo_marker: Option<u64>,
    /// Retransmissions not yet shown superfluous by a DSACK; -1: there was none.
    undo_retrans: i64,
    /// First retransmission of this recovery [us].
    retrans_stamp_us: Option<u64>,
    /// Consecutive timeouts.
    retransmits: u32,
    /// F-RTO (RFC 5682) is active.
    frto: bool,
    /// Segments reported by DSACKs.
    dsack_dups: u32,
    /// The next new segment announces the reduction (CWR).
    queue_cwr: bool,
    /// End of the data when a tail-loss probe was sent.
    tlp_high_seq: Option<u64>,
    /// The probe was a retransmission.
    tlp_retrans: bool,
    /// End of the last small segment (Minshall).
    small_end_seq: u64,
}

impl<C: Congestion> Sender<C> {
    /// A new connection. Linux uses the RTT of the handshake as the first sample.
    pub fn new(config: &Config, congestion: C, now_ns: u64, handshake_rtt_us: Option<u32>) -> Self {
        let mut sock = Sock::new(config.mss_bytes, config.init_cwnd);
        sock.ecn_ok = config.ecn;
        sock.mstamp_us = now_ns / 1000;
        let rto_min_us = (config.rto_min_ns / 1000) as u32;
        let mut sender = Self {
            sock,
            congestion,
            buffer: SendBuffer::new(config.send_buffer_bytes, config.mss_bytes),
            nagle: config.nagle,
            tick_ns: config.tick_ns,
            board: Scoreboard::new(),
            rate: RateEstimator::default(),
            rtt: RttEstimator::new(rto_min_us),
            min_rtt: WindowedMin::new(MIN_RTT_WINDOW_US),
            rack: Rack::default(),
            timers: Timers::default(),
            source: Source::default(),
            now_ns,
            echo_ns: 0,
            ack_echo_ns: 0,
            window_bytes: config.initial_window_bytes(),
            queued: None,
            resend: Resend::Nothing,
            may_push: true,
            burst_bytes: 0,
            burst_pushes: false,
            sent_new: 0,
            is_deferred_by_cwnd: false,
            cwnd_usage_seq: 0,
            cwnd_used: 0,
            cwnd_stamp_us: now_ns / 1000,
            high_seq: 0,
            prr_delivered: 0,
            reordering: REORDERING,
            undo_marker: None,
            undo_retrans: -1,
            retrans_stamp_us: None,
            retransmits: 0,
            frto: false,
            dsack_dups: 0,
            queue_cwr: false,
            tlp_high_seq: None,
            tlp_retrans: false,
            small_end_seq: 0,
        };
        if let Some(rtt_us) = handshake_rtt_us {
            sender.take_rtt(rtt_us, rtt_us, false);
            sender.sock.rtt_us = rtt_us;
        }
        sender.update_pacing_rate();
        sender.congestion.init(&mut sender.sock);
        sender.buffer.expand(sender.congestion.buffered_windows(), config.init_cwnd, REORDERING);
        sender
    }

    /// The application writes so many bytes; those beyond the send buffer wait.
    pub fn write(&mut self, now_ns: u64, bytes: u64) {
        self.begin_write(now_ns);
        self.source.waiting_bytes = self.source.waiting_bytes.saturating_add(bytes);
        self.fill();
    }

    /// The application always has more data, until `finish`.
    pub fn write_endless(&mut self, now_ns: u64) {
        self.write_portions(now_ns, u64::MAX);
    }

    /// As `write_endless`, but after each portion the application waits until a third of the buffer is free.
    pub fn write_portions(&mut self, now_ns: u64, portion_bytes: u64) {
        self.begin_write(now_ns);
        self.source.is_endless = true;
        self.source.portion_bytes = portion_bytes;
        self.fill();
    }

    /// No more data: a FIN follows. Of an endless source the content of the send buffer is still sent.
    pub fn finish(&mut self, now_ns: u64) {
        self.refresh(now_ns);
        self.source.is_endless = false;
        self.source.is_finished = true;
        self.fill();
    }

    pub fn is_done(&self) -> bool {
        self.source.fin_seq.is_some() && self.sock.snd_una == self.sock.write_seq
    }

    /// Written, but never sent. Of an endless source: in the send buffer.
    pub fn unsent_bytes(&self) -> u64 {
        let sent = self.sock.snd_nxt.min(self.data_end());
        self.data_end() - sent + self.source.waiting_bytes
    }

    /// Written, but not acknowledged. Of an endless source: in the send buffer.
    pub fn unacked_bytes(&self) -> u64 {
        let acked = self.sock.snd_una.min(self.data_end());
        self.data_end() - acked + self.source.waiting_bytes
    }

    fn begin_write(&mut self, now_ns: u64) {
        self.refresh(now_ns);
        self.may_push = true;
        if self.source.waiting_bytes == 0 && !self.source.is_endless {
            self.note_app_limited();
        }
        if self.sock.snd_nxt == self.sock.write_seq && !self.congestion.has_cong_control() {
            self.sock.rto_us = self.rtt.rto_us();
            if self.sock.restart_after_idle() {
                self.cwnd_stamp_us = self.sock.mstamp_us;
                self.cwnd_used = 0;
            }
        }
    }

    /// Moves waiting data into the send buffer, if the application is awake.
    fn fill(&mut self) {
        if self.source.fin_seq.is_some() {
            return;
        }
        let used_bytes = self.sock.write_seq - self.sock.snd_una;
        if self.buffer.is_blocked {
            self.expand_buffer();
            if !self.buffer.wakes(used_bytes) {
                return;
            }
            self.note_app_limited();
        }
        if self.source.is_endless {
            self.fill_endlessly();
            return;
        }
        let room_bytes = self.buffer.room_bytes(used_bytes);
        let source = &mut self.source;
        let bytes = source.waiting_bytes.min(room_bytes);
        source.waiting_bytes -= bytes;
        self.sock.write_seq += bytes;
        self.buffer.is_blocked = source.waiting_bytes > 0;
        if source.is_finished && source.waiting_bytes == 0 {
            source.fin_seq = Some(self.sock.write_seq);
            self.sock.write_seq += 1;
        }
    }

    fn fill_endlessly(&mut self) {
        loop {
            let room_bytes = self.buffer.room_bytes(self.sock.write_seq - self.sock.snd_una);
            let written_bytes = room_bytes.min(self.source.portion_bytes);
            self.sock.write_seq += written_bytes;
            let is_full = written_bytes == room_bytes;
            if is_full || !self.buffer.wakes(self.sock.write_seq - self.sock.snd_una) {
                break;
            }
        }
        self.buffer.is_blocked = true;
    }

    /// Expands the buffer if it may be the limit instead of the window (`tcp_new_space`).
    fn expand_buffer(&mut self) {
        let sock = &self.sock;
        let unsent_bytes = if sock.is_paced { 0 } else { sock.write_seq - sock.snd_nxt.min(sock.write_seq) };
        let unsent = u32::try_from(unsent_bytes / u64::from(sock.mss_bytes)).unwrap_or(u32::MAX);
        if sock.packets_in_flight().saturating_add(unsent) < sock.snd_cwnd {
            self.buffer.expand(self.congestion.buffered_windows(), sock.snd_cwnd, self.reordering);
            self.cwnd_stamp_us = self.sock.mstamp_us;
        }
    }

    fn data_end(&self) -> u64 {
        self.source.fin_seq.unwrap_or(self.sock.write_seq)
    }

    fn refresh(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        self.sock.mstamp_us = self.now_ns / 1000;
    }

    fn set_state(&mut self, state: CaState) {
        self.congestion.set_state(&mut self.sock, state);
        self.sock.ca_state = state;
    }

    /// Records that the application limits the rate (`tcp_rate_check_app_limited`).
    fn note_app_limited(&mut self) {
        let sock = &mut self.sock;
        let in_flight = sock.packets_in_flight();
        if sock.write_seq - sock.snd_nxt < u64::from(sock.mss_bytes)
            && in_flight < sock.snd_cwnd
            && sock.lost_out <= sock.retrans_out
        {
            sock.app_limited = sock.delivered.wrapping_add(in_flight).max(1);
        }
    }

    /// TCP's own pacing rate (`tcp_update_pacing_rate`).
    fn update_pacing_rate(&mut self) {
        let ratios = self.congestion.pacing_ratios_percent();
        self.sock.pacing_rate_bytes_per_s = pacing_rate_bytes_per_s(&self.sock, ratios);
    }

    /// RTT samples: `rtt_us` for the smoothed one, `newest_us` for the minimum.
    fn take_rtt(&mut self, rtt_us: u32, newest_us: u32, maybe_delayed: bool) {
        if !maybe_delayed || newest_us <= self.min_rtt.get() {
            self.sock.min_rtt_us = self.min_rtt.update(self.sock.mstamp_us, newest_us.max(1));
        }
        self.sock.rtt_samples += 1;
        self.sock.rtt_sum_us += u64::from(rtt_us);
        self.rtt.update(rtt_us, self.sock.snd_una, self.sock.snd_nxt);
        self.sock.srtt_us = self.rtt.srtt8_us() >> 3;
        self.sock.rttvar_us = self.rtt.deviation_us();
    }
}

#[cfg(test)]
impl<C: Congestion> Sender<C> {
    pub(crate) fn check(&self) {
        use crate::scoreboard::{LOST, RETRANS, SACKED};
        let slots = || (self.board.first()..self.board.end()).map(|number| self.board.slot(number));
        let count = |flag: u8| slots().filter(|slot| slot.has(flag)).count() as u32;
        let sock = &self.sock;
        assert_eq!(sock.packets_out, slots().count() as u32, "packets_out");
        assert_eq!(sock.sacked_out, count(SACKED), "sacked_out");
        assert_eq!(sock.lost_out, count(LOST), "lost_out");
        assert_eq!(sock.retrans_out, count(RETRANS), "retrans_out");
        assert!(!slots().any(|slot| slot.has(SACKED) && slot.has(LOST)), "sacked and lost");
        assert!(sock.sacked_out + sock.lost_out <= sock.packets_out + sock.retrans_out, "in flight");
        assert!(sock.packets_out == 0 || self.due_ns().is_some(), "no timer while data are outstanding");
        assert!(sock.snd_una <= sock.snd_nxt && sock.snd_nxt <= sock.write_seq, "sequence numbers");
        assert!(sock.snd_cwnd >= 1, "window");
    }
}

#[cfg(test)]
#[path = "../sender_tests.rs"]
mod tests;
