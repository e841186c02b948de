//! Settings of a connection.

/// Sysctls and socket options, with Linux' defaults where they exist.
#[derive(Clone, Debug)]
pub struct Config {
    /// Payload of a full segment.
    pub mss_bytes: u32,
    /// Initial congestion window [segments], RFC 6928.
    pub init_cwnd: u32,
    /// Buffer for written and unacknowledged data: the maximum of net.ipv4.tcp_wmem.
    pub send_buffer_bytes: u64,
    /// Maximum receive window: half the maximum of net.ipv4.tcp_rmem. At least two segments.
    pub rcv_window_bytes: u64,
    /// ECN has been negotiated (RFC 3168).
    pub ecn: bool,
    /// The receiver echoes each mark (RFC 8257), as for congestion controls that need ECN.
    pub accurate_ecn: bool,
    /// Minimum retransmission timeout [ns], `TCP_RTO_MIN`.
    pub rto_min_ns: u64,
    /// Period of the timer clock [ns]: CONFIG_HZ is 250 in most builds. 0: timers are exact.
    pub tick_ns: u64,
    /// Small segments wait for the ACK of the previous small one (Minshall's variant of Nagle's algorithm).
    pub nagle: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mss_bytes: 1448,
            init_cwnd: 10,
            send_buffer_bytes: 4 << 20,
            rcv_window_bytes: 16 << 20,
            ecn: false,
            accurate_ecn: false,
            rto_min_ns: 200_000_000,
            tick_ns: 4_000_000,
            nagle: true,
        }
    }
}

/// The window field of a SYN is not scaled (RFC 7323, section 2.2).
const SYN_WINDOW_BYTES: u64 = 65_535;

impl Config {
    /// The initial receive window: whole segments.
    pub(crate) fn initial_window_bytes(&self) -> u64 {
        let mss_bytes = u64::from(self.mss_bytes);
        (SYN_WINDOW_BYTES / mss_bytes * mss_bytes).min(self.rcv_window_bytes)
    }
}
