//! A connection's variables for tests of congestion controls.

use crate::{Congestion, RateSample, Sock};

pub(super) const MSS_BYTES: u32 = 1448;

/// A connection with a full window, 1 s after the start.
pub(super) fn busy(cwnd: u32) -> Sock {
    let mut sock = Sock::new(MSS_BYTES, cwnd);
    sock.mstamp_us = 1_000_000;
    sock.is_cwnd_limited = true;
    sock.snd_nxt = u64::from(cwnd * MSS_BYTES);
    sock.packets_out = cwnd;
    sock.max_packets_out = cwnd;
    sock
}

/// Time passes, and segments are acknowledged.
pub(super) fn acked(control: &mut impl Congestion, sock: &mut Sock, after_us: u64, pkts: u32, rtt_us: i64) {
    sock.mstamp_us += after_us;
    sock.snd_una += u64::from(pkts * MSS_BYTES);
    sock.snd_nxt = sock.snd_una + u64::from(sock.snd_cwnd * MSS_BYTES);
    sock.delivered += pkts;
    sock.delivered_mstamp_us = sock.mstamp_us;
    sock.packets_out = sock.snd_cwnd;
    control.pkts_acked(sock, pkts, rtt_us);
    if control.has_cong_control() {
        let sample = RateSample { acked_sacked: pkts, rtt_us, ..RateSample::default() };
        control.cong_control(sock, &sample, false);
    } else {
        control.cong_avoid(sock, pkts);
    }
}
