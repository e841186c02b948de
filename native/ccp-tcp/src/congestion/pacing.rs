//! The pacing rate if no congestion control sets one.

use crate::Sock;

/// A gain over cwnd/srtt [bytes/s]: the pacing rate, or without pacing the limit of bursts
/// (`tcp_update_pacing_rate`). `ratios_percent`: in slow start, well below the threshold; and outside.
pub fn pacing_rate_bytes_per_s(sock: &Sock, ratios_percent: (u32, u32)) -> u64 {
    let (slow_start, avoidance) = ratios_percent;
    let ratio = if sock.snd_cwnd < sock.snd_ssthresh / 2 { slow_start } else { avoidance };
    let window = u64::from(sock.mss_bytes) * u64::from(sock.snd_cwnd.max(sock.packets_out));
    let rate = window * 10_000 * u64::from(ratio);
    // Without an RTT the kernel, whose srtt is in eighths, uses 1/8 us.
    let rate = rate.checked_div(u64::from(sock.srtt_us)).unwrap_or(rate * 8);
    rate.min(sock.max_pacing_rate_bytes_per_s)
}

#[cfg(test)]
mod tests {
    use super::super::test_sock::busy;
    use super::*;

    #[test]
    fn it_is_the_window_in_an_rtt_with_a_gain() {
        // 20 * 1448 bytes in 40 ms: 724 kB/s, twice in slow start, and 1.2 times outside.
        let mut sock = busy(20);
        sock.srtt_us = 40_000;
        assert_eq!(pacing_rate_bytes_per_s(&sock, (200, 120)), 1_448_000);
        sock.snd_ssthresh = 40;
        assert_eq!(pacing_rate_bytes_per_s(&sock, (200, 120)), 868_800);
        sock.packets_out = 40;
        assert_eq!(pacing_rate_bytes_per_s(&sock, (200, 120)), 1_737_600);
        sock.srtt_us = 0;
        assert_eq!(pacing_rate_bytes_per_s(&sock, (200, 120)), 40 * 1448 * 80_000 * 120);
        sock.max_pacing_rate_bytes_per_s = 500_000;
        assert_eq!(pacing_rate_bytes_per_s(&sock, (200, 120)), 500_000);
    }
}
