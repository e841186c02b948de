//! How much a receiver offers: the window grows ahead of the sender, as Linux tunes it (dynamic right-sizing).

use crate::Config;

/// Segments that a sender may begin with (`TCP_INIT_CWND`): the first measure of what an RTT brings.
const INITIAL_PKTS: u64 = 10;
/// Segments shorter than that do not raise the window.
const LEAST_BYTES: u32 = 128;

/// The window of a receiver whose application reads at once.
#[derive(Debug)]
pub(crate) struct ReceiveWindow {
    mss_bytes: u64,
    /// The buffer grows no further (net.ipv4.tcp_rmem).
    most_bytes: u64,
    /// What the buffer has room for now (`window_clamp`).
    clamp_bytes: u64,
    /// What is offered of it (`rcv_ssthresh`).
    offered_bytes: u64,
    /// Behind the last byte that was ever offered.
    end: u64,
    /// What the application got in an RTT, at most.
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
            most_bytes: config.rcv_window_bytes,
            clamp_bytes: offered_bytes,
            offered_bytes,
            end: offered_bytes,
            per_rtt_bytes: offered_bytes.min(INITIAL_PKTS * mss_bytes),
            measured_seq: 0,
            measured_ns: 0,
        }
    }

    /// Behind the last byte that is taken.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// A segment of data came; `waiting_bytes` are behind a hole. Returns whether more is offered (`tcp_grow_window`).
    pub(crate) fn on_segment(&mut self, len_bytes: u32, waiting_bytes: u64) -> bool {
        let free_bytes = self.clamp_bytes.saturating_sub(waiting_bytes);
        let room_bytes = free_bytes.saturating_sub(self.offered_bytes);
        if len_bytes < LEAST_BYTES || room_bytes == 0 {
            return false;
        }
        self.offered_bytes += room_bytes.min(2 * self.mss_bytes);
        true
    }

    /// The application has read up to there; once an RTT the buffer is made to fit (`tcp_rcv_space_adjust`).
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

    /// Twice what an RTT brings, because this comes an RTT late; and more for a sender that doubles its window.
    fn grow(&mut self, read_bytes: u64, waiting_bytes: u64) {
        let before_bytes = std::mem::replace(&mut self.per_rtt_bytes, read_bytes);
        let twice = u128::from(2 * read_bytes);
        let faster = twice * u128::from(read_bytes - before_bytes) / u128::from(before_bytes);
        let wanted = twice + 2 * faster + u128::from(waiting_bytes);
        let bytes = u64::try_from(wanted).unwrap_or(u64::MAX).min(self.most_bytes);
        self.clamp_bytes = self.clamp_bytes.max(bytes);
    }

    /// The window of an ACK: what was offered once is not taken back.
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

    /// As the kernel computes it for a sender that doubles its window: 45 segments at first, 120 behind a round of 20.
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
