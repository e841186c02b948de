//! The fallback: CUBIC, for flows without a program or an agent, with proportional rate reduction (RFC 6937),
//! which a sender leaves to congestion controls that set the window. Corresponds to `fallback.h` of `ccp-bpf`.

use ccp_tcp::{CaState, Congestion, Cubic, MIN_CWND_PKTS, RateSample, Sock, reduced_cwnd};

/// Minimum rise of the RTT that indicates a queue (HyStart's).
const MIN_SLACK_US: u32 = 4000;

#[derive(Clone, Debug, Default)]
pub(super) struct Fallback {
    pub steers: bool,
    /// The sender undid this reduction.
    pub undone: bool,
    pub cubic: Cubic,
    prr_delivered: u32,
    prior_state: CaState,
    /// `snd_una` at the last ACK.
    una: u64,
}

fn reduces(state: CaState) -> bool {
    matches!(state, CaState::Cwr | CaState::Recovery)
}

impl Fallback {
    /// Takes over the flow with the algorithm's window. Slow start continues only if the path shows neither
    /// losses nor a queue.
    pub fn enter(&mut self, sock: &mut Sock) {
        *self = Self { steers: true, prior_state: sock.ca_state, una: sock.snd_una, ..Self::default() };
        self.cubic.init(sock);
        let slack_us = (sock.min_rtt_us >> 3).max(MIN_SLACK_US);
        if sock.lost > 0 || sock.srtt_us > sock.min_rtt_us.saturating_add(slack_us) {
            sock.snd_ssthresh = sock.snd_ssthresh.min(sock.snd_cwnd.max(MIN_CWND_PKTS));
        }
    }

    /// A reduction begins, possibly on the ACK that ended the previous one.
    pub fn ssthresh(&mut self, sock: &mut Sock) -> u32 {
        self.prr_delivered = 0;
        self.undone = false;
        self.cubic.ssthresh(sock)
    }

    pub fn on_ack(&mut self, sock: &mut Sock, sample: &RateSample) {
        let (state, prior, delivered) = (sock.ca_state, self.prior_state, sample.acked_sacked);
        let advanced = sock.snd_una != self.una;
        if sample.rtt_us > 0 {
            self.cubic.pkts_acked(sock, delivered, sample.rtt_us);
        }
        if reduces(state) {
            self.reduce(sock, delivered, advanced && sample.losses == 0);
        } else {
            if reduces(prior) && !self.undone && state != CaState::Loss {
                sock.snd_cwnd = sock.snd_ssthresh;
            }
            if advanced {
                self.cubic.cong_avoid(sock, delivered);
            }
        }
        self.una = sock.snd_una;
        self.prior_state = state;
    }

    fn reduce(&mut self, sock: &mut Sock, delivered: u32, progress: bool) {
        if delivered > 0 && sock.prior_cwnd > 0 {
            self.prr_delivered += delivered;
            sock.snd_cwnd = reduced_cwnd(sock, self.prr_delivered, delivered, progress);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recovery from a loss at 20 segments, with threshold 14.
    fn reducing() -> (Fallback, Sock) {
        let mut sock = Sock::new(1448, 20);
        sock.mstamp_us = 1_000_000;
        let mut fallback = Fallback::default();
        fallback.enter(&mut sock);
        sock.prior_cwnd = 20;
        sock.snd_ssthresh = fallback.ssthresh(&mut sock);
        assert_eq!(sock.snd_ssthresh, 14);
        sock.ca_state = CaState::Recovery;
        sock.packets_out = 20;
        sock.sacked_out = 3;
        sock.lost_out = 1;
        (fallback, sock)
    }

    fn ack(fallback: &mut Fallback, sock: &mut Sock, delivered: u32) {
        sock.mstamp_us += 1000;
        sock.delivered += delivered;
        fallback.on_ack(sock, &RateSample { acked_sacked: delivered, rtt_us: -1, ..RateSample::default() });
    }

    #[test]
    fn in_recovery_the_window_falls_in_proportion() {
        let (mut fallback, mut sock) = reducing();
        // 16 in flight: the first retransmission is sent; ceil(14 * 1 / 20) - 0 = 1.
        ack(&mut fallback, &mut sock, 1);
        assert_eq!(sock.snd_cwnd, 17);
        sock.prr_out = 1;
        sock.retrans_out = 1;
        sock.sacked_out = 5;
        // 15 in flight, 3 delivered: ceil(14 * 3 / 20) - 1 = 2.
        ack(&mut fallback, &mut sock, 2);
        assert_eq!(sock.snd_cwnd, 17);
    }

    #[test]
    fn below_the_threshold_as_much_is_sent_as_is_delivered() {
        let (mut fallback, mut sock) = reducing();
        sock.lost_out = 8;
        // 9 in flight: one for the delivered one; a second if the ACK advances without a loss.
        ack(&mut fallback, &mut sock, 1);
        assert_eq!(sock.snd_cwnd, 10);
        sock.prr_out = 1;
        sock.snd_una += 1448;
        ack(&mut fallback, &mut sock, 1);
        assert_eq!(sock.snd_cwnd, 11);
        // Never above the threshold.
        ack(&mut fallback, &mut sock, 9);
        assert_eq!(sock.snd_cwnd, 14);
    }

    #[test]
    fn a_reduction_right_after_another_counts_again() {
        let (mut fallback, mut sock) = reducing();
        ack(&mut fallback, &mut sock, 10);
        // The same ACK ends one recovery and begins another: the sender restarts its count.
        sock.snd_ssthresh = fallback.ssthresh(&mut sock);
        sock.prr_out = 1;
        sock.lost_out = 12;
        ack(&mut fallback, &mut sock, 1);
        assert_eq!(sock.snd_cwnd, 6, "5 in flight, and one for the one delivered");
    }

    #[test]
    fn after_recovery_the_window_is_the_threshold_unless_it_was_undone() {
        for (undone, window) in [(false, 14), (true, 17)] {
            let (mut fallback, mut sock) = reducing();
            ack(&mut fallback, &mut sock, 1);
            assert_eq!(sock.snd_cwnd, 17);
            sock.ca_state = CaState::Open;
            fallback.undone = undone;
            ack(&mut fallback, &mut sock, 1);
            assert_eq!(sock.snd_cwnd, window);
        }
    }

    #[test]
    fn it_leaves_slow_start_where_the_path_shows_losses_or_a_queue() {
        // The slack is an eighth of the minimum RTT, at least 4 ms.
        for (lost, srtt_us, threshold) in
            [(0, 44_999, ccp_tcp::INFINITE_SSTHRESH), (0, 45_001, 20), (1, 40_000, 20)]
        {
            let mut sock = Sock::new(1448, 20);
            sock.lost = lost;
            sock.srtt_us = srtt_us;
            sock.min_rtt_us = 40_000;
            Fallback::default().enter(&mut sock);
            assert_eq!(sock.snd_ssthresh, threshold, "{lost} {srtt_us}");
        }
    }

    #[test]
    fn in_slow_start_it_doubles_as_cubic_does() {
        let mut sock = Sock::new(1448, 20);
        let mut fallback = Fallback::default();
        fallback.enter(&mut sock);
        sock.is_cwnd_limited = true;
        sock.snd_una = 1448;
        ack(&mut fallback, &mut sock, 20);
        assert_eq!(sock.snd_cwnd, 40);
    }
}
