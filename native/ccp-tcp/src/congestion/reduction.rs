//! The window during a reduction: proportional rate reduction.

use crate::Sock;

/// The window after an ACK that delivered `acked` segments, `prr_delivered` in this reduction
/// (`tcp_cwnd_reduction`): RFC 6937, section 3, with the bounds of RFC 9937 as in Linux. `progress`: the ACK
/// advances, and nothing new is marked lost.
pub fn reduced_cwnd(sock: &Sock, prr_delivered: u32, acked: u32, progress: bool) -> u32 {
    let (in_flight, ssthresh) = (i64::from(sock.packets_in_flight()), i64::from(sock.snd_ssthresh));
    let (delivered, sent) = (i64::from(prr_delivered), i64::from(sock.prr_out));
    let send = if in_flight > ssthresh {
        (ssthresh * delivered + i64::from(sock.prior_cwnd) - 1) / i64::from(sock.prior_cwnd).max(1) - sent
    } else {
        ((delivered - sent).max(i64::from(acked)) + i64::from(progress)).min(ssthresh - in_flight)
    };
    // The first retransmission is always sent.
    (in_flight + send.max(i64::from(sock.prr_out == 0))) as u32
}

#[cfg(test)]
mod tests {
    use super::super::test_sock::busy;
    use super::*;

    /// From 20 to 14 segments.
    fn sock(in_flight: u32, prr_out: u32) -> Sock {
        let mut sock = busy(20);
        (sock.prior_cwnd, sock.snd_ssthresh, sock.packets_out, sock.prr_out) = (20, 14, in_flight, prr_out);
        sock
    }

    #[test]
    fn above_the_threshold_it_falls_in_proportion() {
        // RFC 6937, section 3: ceil(10 * 14 / 20) - 5 = 2; the first retransmission is always sent.
        assert_eq!(reduced_cwnd(&sock(18, 5), 10, 1, true), 20);
        assert_eq!(reduced_cwnd(&sock(18, 7), 10, 1, true), 18);
        assert_eq!(reduced_cwnd(&sock(18, 9), 10, 1, true), 18);
        assert_eq!(reduced_cwnd(&sock(18, 0), 1, 1, false), 19);
    }

    #[test]
    fn below_it_what_is_delivered_is_sent_and_one_more_on_progress() {
        assert_eq!(reduced_cwnd(&sock(5, 9), 10, 2, false), 7);
        assert_eq!(reduced_cwnd(&sock(5, 9), 10, 2, true), 8);
        assert_eq!(reduced_cwnd(&sock(5, 3), 10, 2, false), 12);
        assert_eq!(reduced_cwnd(&sock(12, 3), 10, 2, true), 14, "not above the threshold");
    }
}
