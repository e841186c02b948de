//! Size of a socket's send buffer: `sk_sndbuf`, `sk_wmem_queued` and `SOCK_NOSPACE` of Linux.

/// Timestamps and header space of a segment: `MAX_TCP_HEADER` and `struct skb_shared_info`.
const HEADERS_BYTES: u64 = 12 + 256 + 320;
/// `struct sk_buff`.
const SK_BUFF_BYTES: u64 = 256;
/// `TCP_INIT_CWND`.
const INIT_CWND: u32 = 10;
/// Memory per data: measured, as a `sk_buff` holds between one burst and 44 segments.
const MEMORY_RATIO: (u64, u64) = (26, 25);

#[derive(Clone, Debug)]
pub(super) struct SendBuffer {
    /// Maximum size: that of net.ipv4.tcp_wmem.
    max_bytes: u64,
    /// Present size, in memory.
    size_bytes: u64,
    segment_bytes: u64,
    /// The application waits for room.
    pub(super) is_blocked: bool,
}

impl SendBuffer {
    pub(super) fn new(max_bytes: u64, mss_bytes: u32) -> Self {
        let segment_bytes = (u64::from(mss_bytes) + HEADERS_BYTES).next_power_of_two() + SK_BUFF_BYTES;
        Self { max_bytes, size_bytes: 0, segment_bytes, is_blocked: false }
    }

    /// Expands to so many windows, if smaller (`tcp_sndbuf_expand`).
    pub(super) fn expand(&mut self, windows: u32, cwnd: u32, reordering: u32) {
        let segments = INIT_CWND.max(cwnd).max(reordering.saturating_add(1));
        let wanted_bytes = u64::from(windows) * u64::from(segments) * self.segment_bytes;
        self.size_bytes = self.size_bytes.max(wanted_bytes.min(self.max_bytes));
    }

    pub(super) fn room_bytes(&self, used_bytes: u64) -> u64 {
        (self.size_bytes * MEMORY_RATIO.1 / MEMORY_RATIO.0).saturating_sub(used_bytes)
    }

    /// A waiting application is woken when a third is free (`sk_stream_is_writeable`).
    pub(super) fn wakes(&self, used_bytes: u64) -> bool {
        3 * used_bytes * MEMORY_RATIO.0 / MEMORY_RATIO.1 <= 2 * self.size_bytes
    }
}
