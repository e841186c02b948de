//! The receive window: it grows ahead of the sender, as tuned by Linux (dynamic right-sizing).

use crate::Config;

/// Initial window of senders (`TCP_INIT_CWND`): the first estimate of the bytes per RTT.
const INITIAL_PKTS: u64 = 10;
/// Shorter segments do not increase the window.
const MIN_BYTES: u32 = 128;

/// The window of a receiver whose application reads immediately.
#[derive(Debug)]
pub(crate) struct ReceiveWindow {
    mss_bytes: u64,
    /// Maximum buffer (net.ipv4.tcp_rmem).
    max_bytes: u64,
    /// Present size of the buffer (`window_clamp`).
    clamp_bytes: u64,
    /// Offered part of it (`rcv_ssthresh`).
    offered_bytes: u64,
    /// End of the offered bytes.
    end: u64,
    /// Maximum bytes read by the application in an RTT.
    per_rtt_bytes: u64,
    measured_seq: u64,
    measured_ns: u64,
}

impl ReceiveWindow {
    pub(crate) fn new(config: &Config) -> Self {
        let offered_bytes = config.initial_window_bytes();
        let mss_bytes = u64::from(config.mss_bytes);
        Self {
            mss_bytes,
            max_bytes: config.rcv_window_bytes,
            clamp_bytes: offered_bytes,
            offered_bytes,
            end: offered_bytes,
            per_rtt_bytes: offered_bytes.min(INITIAL_PKTS * mss_bytes),
            measured_seq: 0,
            measured_ns: 0,
        }
    }

    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// A data segment arrived; `waiting_bytes` are behind a gap. Returns whether the offer grows (`tcp_grow_window`).
    pub(crate) fn on_segment(&mut self, len_bytes: u32, waiting_bytes: u64) -> bool {
        let free_bytes = self.clamp_bytes.saturating_sub(waiting_bytes);
        let room_bytes = free_bytes.saturating_sub(self.offered_bytes);
        if len_bytes < MIN_BYTES || room_bytes == 0 {
            return false;
        }
        self.offered_bytes += room_bytes.min(2 * self.mss_bytes);
        true
    }

    /// The application has read up to there; the buffer is adjusted once per RTT (`tcp_rcv_space_adjust`).
    pub(crate) fn on_read(&mut self, now_ns: u64, rtt_ns: u64, read_seq: u64, waiting_bytes: u64) {
        if rtt_ns == 0 || now_ns - self.measured_ns < rtt_ns {
            return;
        }
        let read_bytes = read_seq - self.measured_seq;
        if read_bytes > self.per_rtt_bytes {
            self.grow(read_bytes, waiting_bytes);
        }
        self.measured_seq = read_seq;
        self.measured_ns = now_ns;
    }

    /// Twice the bytes of an RTT, as this is an RTT late; more for a sender that doubles its window.
    fn grow(&mut self, read_bytes: u64, waiting_bytes: u64) {
        let before_bytes = std::mem::replace(&mut self.per_rtt_bytes, read_bytes);
        let twice = u128::from(2 * read_bytes);
        let faster = twice * u128::from(read_bytes - before_bytes) / u128::from(before_bytes);
        let wanted = twice + 2 * faster + u128::from(waiting_bytes);
        let bytes = u64::try_from(wanted).unwrap_or(u64::MAX).min(self.max_bytes);
        self.clamp_bytes = self.clamp_bytes.max(bytes);
    }

    /// The window of an ACK, which never shrinks below an earlier offer.
    pub(crate) fn offer(&mut self, rcv_nxt: u64, waiting_bytes: u64) -> u64 {
        let free_bytes = self.clamp_bytes.saturating_sub(waiting_bytes);
        self.end = self.end.max(rcv_nxt + self.offered_bytes.min(free_bytes));
        self.end - rcv_nxt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const MSS: u64 = 1448;

    /// As computed by the kernel for a sender that doubles its window: first 45 segments, 120 after a round of 20.
    #[test]
    fn the_window_grows_ahead_of_the_sender() {
        let mut window = ReceiveWindow::new(&Config::default());
        assert_eq!(window.end(), 45 * MSS);
        window.on_read(50 * MS, 50 * MS, 10 * MSS, 0);
        assert!(!window.on_segment(1448, 0), "ten segments need no more");
        window.on_read(60 * MS, 50 * MS, 20 * MSS, 0);
        assert!(!window.on_segment(1448, 0), "not before an RTT is over");
        window.on_read(100 * MS, 50 * MS, 30 * MSS, 0);
        // Twice 20, and 40 (20 - 10) / 10 twice: 120 segments.
        assert!(window.on_segment(1448, 0));
        assert_eq!(window.offer(30 * MSS, 0), 47 * MSS);
        let raises = (0..1000).take_while(|_| window.on_segment(1448, 0)).count() as u64;
        assert_eq!(raises, (120 - 47_u64).div_ceil(2));
        assert_eq!(window.offer(30 * MSS, 0), 120 * MSS);
    }

    #[test]
    fn what_was_offered_is_not_taken_back() {
        let mut window = ReceiveWindow::new(&Config::default());
        assert_eq!(window.offer(0, 40 * MSS), 45 * MSS);
        assert_eq!(window.offer(10 * MSS, 40 * MSS), 35 * MSS);
    }

    #[test]
    fn it_is_never_larger_than_the_buffer_may_be() {
        let config = Config { rcv_window_bytes: 100 * MSS, ..Config::default() };
        let mut window = ReceiveWindow::new(&config);
        window.on_read(100 * MS, 50 * MS, 1000 * MSS, 0);
        while window.on_segment(1448, 0) {}
        assert_eq!(window.offer(1000 * MSS, 0), 100 * MSS);
    }
}
