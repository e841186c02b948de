//! Transmission: `tcp_write_xmit` and `tcp_xmit_retransmit_queue`.

use super::{Resend, Sender};
use crate::scoreboard::{EVER_RETRANS, FIN, RETRANS, Slot};
use crate::{CaState, Congestion, Data};

/// Maximum burst (`sk_gso_max_size`).
const MAX_BURST_BYTES: u64 = 65_536;
/// A burst is 2^-10 s at the pacing rate (`sk_pacing_shift`).
const BURST_SHIFT: u32 = 10;
/// net.ipv4.tcp_tso_rtt_log: near receivers get larger bursts.
const BURST_RTT_SHIFT: u32 = 9;
/// A third of the window is sent at once (net.ipv4.tcp_tso_win_divisor).
const WINDOW_DIVISOR: u64 = 3;
/// Initial segments of a connection, sent without pacing.
const UNPACED_SEGMENTS: u64 = 10;
const MILLISECOND_NS: u64 = 1_000_000;

impl<C: Congestion> Sender<C> {
    /// The next segment that may be sent now; to be called until `None`.
    pub fn next_segment(&mut self, now_ns: u64) -> Option<Data> {
        self.refresh(now_ns);
        if self.queued.is_some() {
            return self.queued.take();
        }
        if self.burst_bytes > 0 {
            return Some(self.send_new());
        }
        if self.resend == Resend::NewFirst {
            if let Some(data) = self.next_new() {
                return Some(data);
            }
            if self.sock.snd_nxt > self.high_seq {
                self.resend = Resend::Nothing;
            } else {
                self.frto = false;
                self.resend = Resend::Lost;
            }
        }
        if self.resend == Resend::Lost
            && let Some(data) = self.next_lost()
        {
            return Some(data);
        }
        if self.may_push
            && let Some(data) = self.next_new()
        {
            return Some(data);
        }
        self.end_round();
        None
    }

    pub(super) fn window_end(&self) -> u64 {
        self.sock.snd_una + self.window_bytes
    }

    /// Whether pacing allows sending; if not, the timer waits for it.
    fn pacing_allows(&mut self) -> bool {
        let is_early = self.sock.is_paced && self.sock.wstamp_ns > self.now_ns;
        self.timers.is_paced_out = is_early;
        !is_early
    }

    fn next_lost(&mut self) -> Option<Data> {
        let sock = &self.sock;
        if sock.retrans_out >= sock.lost_out || sock.packets_in_flight() >= sock.snd_cwnd {
            return None;
        }
        let number = self.board.next_lost()?;
        if !self.pacing_allows() {
            return None;
        }
        let is_first = number == self.board.first();
        let data = self.resend_slot(number);
        if self.sock.in_reduction() {
            self.sock.prr_out += 1;
        }
        if is_first {
            self.restart_rto();
        }
        Some(data)
    }

    fn next_new(&mut self) -> Option<Data> {
        self.start_burst().then(|| self.send_new())
    }

    /// Decides how much new data is sent at once; false: nothing.
    fn start_burst(&mut self) -> bool {
        let unsent_bytes = self.sock.write_seq - self.sock.snd_nxt;
        if unsent_bytes == 0 || !self.pacing_allows() {
            return false;
        }
        let (cwnd, in_flight) = (self.sock.snd_cwnd, self.sock.packets_in_flight());
        if in_flight >= cwnd {
            return false;
        }
        let max_pkts = u64::from(self.burst_pkts());
        let quota_pkts = u64::from((cwnd >> 1).max(1).min(cwnd - in_flight)).min(max_pkts);
        let mss_bytes = u64::from(self.sock.mss_bytes);
        let room_bytes = self.window_end().saturating_sub(self.sock.snd_nxt);
        if room_bytes < unsent_bytes.min(mss_bytes) {
            return false;
        }
        if unsent_bytes <= mss_bytes {
            if self.is_held_by_nagle(unsent_bytes) {
                return false;
            }
            self.burst_bytes = unsent_bytes;
        } else {
            if self.should_defer(unsent_bytes, room_bytes, max_pkts) {
                return false;
            }
            self.burst_bytes = self.burst_of(quota_pkts * mss_bytes, unsent_bytes, room_bytes);
        }
        self.burst_pushes = self.burst_bytes > mss_bytes;
        self.pace(self.burst_bytes);
        true
    }

    /// Full segments, and a partial one only if it need not wait (`tcp_mss_split_point`).
    fn burst_of(&self, quota_bytes: u64, unsent_bytes: u64, room_bytes: u64) -> u64 {
        let needed_bytes = unsent_bytes.min(room_bytes);
        if quota_bytes <= needed_bytes {
            return quota_bytes;
        }
        let partial_bytes = needed_bytes % u64::from(self.sock.mss_bytes);
        if partial_bytes > 0 && self.is_held_by_nagle(partial_bytes) {
            needed_bytes - partial_bytes
        } else {
            needed_bytes
        }
    }

    /// A small segment waits while another small one is in flight, unless it is the last.
    fn is_held_by_nagle(&self, bytes: u64) -> bool {
        self.nagle
            && bytes < u64::from(self.sock.mss_bytes)
            && self.source.fin_seq.is_none()
            && self.sock.packets_out > 0
            && self.small_end_seq > self.sock.snd_una
    }

    /// Segments of one burst (`tcp_tso_segs`).
    fn burst_pkts(&self) -> u32 {
        let mut bytes = self.sock.pacing_rate_bytes_per_s >> BURST_SHIFT;
        let shift = self.sock.min_rtt_us >> BURST_RTT_SHIFT;
        if shift < u32::BITS {
            bytes += MAX_BURST_BYTES >> shift;
        }
        let pkts = bytes.min(MAX_BURST_BYTES) / u64::from(self.sock.mss_bytes);
        (pkts as u32).max(self.congestion.min_tso_segs(&self.sock))
    }

    /// Whether to wait for a larger burst, because an ACK comes soon (`tcp_tso_should_defer`).
    fn should_defer(&mut self, unsent_bytes: u64, room_bytes: u64, max_pkts: u64) -> bool {
        let sock = &self.sock;
        if sock.ca_state >= CaState::Recovery || self.now_ns > sock.wstamp_ns + MILLISECOND_NS {
            return false;
        }
        let mss_bytes = u64::from(sock.mss_bytes);
        let free_bytes = u64::from(sock.snd_cwnd - sock.packets_in_flight()) * mss_bytes;
        let limit_bytes = free_bytes.min(room_bytes);
        let third_bytes = self.window_bytes.min(u64::from(sock.snd_cwnd) * mss_bytes) / WINDOW_DIVISOR;
        if limit_bytes >= (max_pkts * mss_bytes).min(third_bytes) {
            return false;
        }
        // The queue consists of buffers of this size; only the last one still grows.
        let buffer_bytes = unsent_bytes.min(MAX_BURST_BYTES / mss_bytes * mss_bytes);
        if unsent_bytes > buffer_bytes && limit_bytes >= buffer_bytes {
            return false;
        }
        let Some(head) = self.board.head() else { return false };
        let srtt_ns = u64::from(sock.srtt_us) * 1000;
        let expected_ns = head.sent_us * 1000 + srtt_ns;
        if expected_ns > self.now_ns + (srtt_ns / 2).min(MILLISECOND_NS) {
            return false;
        }
        if free_bytes < room_bytes {
            if free_bytes <= buffer_bytes {
                self.is_deferred_by_cwnd = true;
                return true;
            }
        } else if room_bytes <= buffer_bytes {
            return true;
        }
        self.source.fin_seq.is_none()
    }

    fn send_new(&mut self) -> Data {
        let seq = self.sock.snd_nxt;
        let data_bytes = self.data_end().saturating_sub(seq);
        let burst_bytes = self.burst_bytes.min(u64::from(self.sock.mss_bytes));
        let len_bytes = burst_bytes.min(data_bytes) as u32;
        let end = seq + u64::from(len_bytes);
        let fin = self.source.fin_seq == Some(end);
        // A FIN needs no room in the last segment.
        self.burst_bytes = if fin { 0 } else { self.burst_bytes - u64::from(len_bytes) };
        let mut slot = Slot::new(seq, len_bytes, fin);
        self.before_sending(u64::from(len_bytes));
        slot.sent_us = self.sock.mstamp_us;
        self.rate.sent(&mut self.sock, &mut slot);
        self.board.push(slot);
        if len_bytes < self.sock.mss_bytes {
            self.small_end_seq = end;
        }
        let sock = &mut self.sock;
        sock.snd_nxt = end + u64::from(fin);
        sock.packets_out += 1;
        if sock.in_reduction() {
            sock.prr_out += 1;
        }
        let was_empty = sock.packets_out == 1;
        self.sent_new += 1;
        if was_empty || self.timers.pending == super::timers::Pending::LossProbe {
            self.rearm_rto();
        }
        let cwr = std::mem::take(&mut self.queue_cwr);
        let ends_queue = self.sock.snd_nxt == self.sock.write_seq;
        let push = self.burst_bytes == 0 && (self.burst_pushes || ends_queue);
        Data { cwr, push, ..self.data_of(seq, len_bytes, fin) }
    }

    fn data_of(&self, seq: u64, len_bytes: u32, fin: bool) -> Data {
        Data {
            seq,
            len_bytes,
            sent_ns: self.now_ns,
            echo_ns: self.echo_ns,
            is_retransmission: false,
            ect: self.sock.ecn_ok,
            cwr: false,
            push: false,
            fin,
        }
    }

    /// Retransmits a slot, regardless of the window (`tcp_retransmit_skb`).
    pub(super) fn resend_slot(&mut self, number: u64) -> Data {
        let data = self.send_again(number);
        let slot = self.board.slot_mut(number);
        slot.flags |= RETRANS;
        self.sock.retrans_out += 1;
        self.retrans_stamp_us.get_or_insert(self.sock.mstamp_us);
        self.undo_retrans = self.undo_retrans.max(0) + 1;
        data
    }

    fn send_again(&mut self, number: u64) -> Data {
        let slot = self.board.slot(number);
        let (seq, len_bytes, fin) = (slot.seq, slot.len_bytes, slot.has(FIN));
        self.pace(u64::from(len_bytes));
        self.before_sending(u64::from(len_bytes));
        let slot = self.board.slot_mut(number);
        slot.sent_us = self.sock.mstamp_us;
        slot.flags |= EVER_RETRANS;
        self.rate.sent(&mut self.sock, slot);
        self.board.list(number);
        self.sock.total_retrans = self.sock.total_retrans.wrapping_add(1);
        self.sock.bytes_retrans += u64::from(len_bytes);
        // RFC 3168, section 6.1.5: retransmissions are not ECT; DCTCP's are (RFC 8257).
        let ect = self.sock.ecn_ok && self.congestion.needs_ecn();
        Data { is_retransmission: true, ect, ..self.data_of(seq, len_bytes, fin) }
    }

    fn before_sending(&mut self, bytes: u64) {
        if self.sock.packets_in_flight() == 0 {
            self.sock.rto_us = self.rtt.rto_us();
            self.congestion.tx_start(&mut self.sock);
        }
        self.sock.last_sent_us = self.sock.mstamp_us;
        self.sock.bytes_sent += bytes;
        self.sock.data_segs_out += 1;
    }

    /// Computes when the next burst may be sent (`tcp_update_skb_after_send`).
    fn pace(&mut self, bytes: u64) {
        let sock = &mut self.sock;
        let late_ns = self.now_ns.saturating_sub(sock.wstamp_ns);
        sock.wstamp_ns = sock.wstamp_ns.max(self.now_ns);
        let rate = sock.pacing_rate_bytes_per_s;
        let segments = bytes.div_ceil(u64::from(sock.mss_bytes)).max(1);
        let is_start = sock.data_segs_out + segments < UNPACED_SEGMENTS;
        if !sock.is_paced || rate == 0 || rate == u64::MAX || is_start {
            return;
        }
        let needed_ns = (u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as u64;
        // Lateness is compensated, up to a half.
        sock.wstamp_ns += needed_ns - late_ns.min(needed_ns / 2);
    }

    /// A probe ignores the window.
    pub(super) fn probe_with_new_data(&mut self) -> Option<Data> {
        let unsent_bytes = self.sock.write_seq - self.sock.snd_nxt;
        let bytes = unsent_bytes.min(u64::from(self.sock.mss_bytes));
        if bytes == 0 || self.window_end() < self.sock.snd_nxt + bytes {
            return None;
        }
        self.burst_bytes = bytes;
        self.burst_pushes = false;
        self.pace(bytes);
        let data = self.send_new();
        self.burst_bytes = 0;
        self.validate_cwnd(self.sock.packets_in_flight() >= self.sock.snd_cwnd);
        self.sent_new = 0;
        Some(data)
    }

    /// The retransmission of a probe is not part of recovery: it is not counted as outstanding.
    pub(super) fn probe_with_last_segment(&mut self) -> Data {
        self.send_again(self.board.end() - 1)
    }

    /// Nothing more is sent now: was the window the limit (end of `tcp_write_xmit`)?
    fn end_round(&mut self) {
        let is_limited = std::mem::take(&mut self.is_deferred_by_cwnd)
            || self.sock.packets_in_flight() >= self.sock.snd_cwnd;
        let has_unsent = self.sock.write_seq > self.sock.snd_nxt;
        if self.sent_new > 0 || (self.may_push && is_limited && has_unsent) {
            self.validate_cwnd(is_limited);
        }
        if std::mem::take(&mut self.sent_new) > 0 {
            self.schedule_loss_probe(false);
        }
    }

    /// Checks whether the window is used (`tcp_cwnd_validate`).
    fn validate_cwnd(&mut self, is_limited: bool) {
        let sock = &mut self.sock;
        if sock.snd_una >= self.cwnd_usage_seq
            || is_limited
            || (!sock.is_cwnd_limited && sock.packets_out > sock.max_packets_out)
        {
            sock.is_cwnd_limited = is_limited;
            sock.max_packets_out = sock.packets_out;
            self.cwnd_usage_seq = sock.snd_nxt;
        }
        if sock.cwnd_limited() {
            self.cwnd_used = 0;
            self.cwnd_stamp_us = sock.mstamp_us;
            return;
        }
        self.cwnd_used = self.cwnd_used.max(sock.packets_out);
        let unused_us = sock.mstamp_us.saturating_sub(self.cwnd_stamp_us);
        if unused_us >= self.rtt.rto_us() && !self.congestion.has_cong_control() {
            self.shrink_unused_cwnd();
        }
    }

    /// Reduces a window that was unused for a timeout (`tcp_cwnd_application_limited`, RFC 2861).
    fn shrink_unused_cwnd(&mut self) {
        if self.sock.ca_state == CaState::Open && !self.buffer.is_blocked {
            let used = self.cwnd_used.max(self.sock.init_cwnd);
            if used < self.sock.snd_cwnd {
                self.sock.snd_ssthresh = self.sock.current_ssthresh();
                self.sock.snd_cwnd = (self.sock.snd_cwnd + used) >> 1;
            }
            self.cwnd_used = 0;
        }
        self.cwnd_stamp_us = self.sock.mstamp_us;
    }
}
