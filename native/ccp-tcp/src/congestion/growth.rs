//! Shared by loss-based congestion controls: slow start and additive increase as in `tcp_cong.c`.

use crate::{CaState, Sock};

/// Slow start up to the threshold (`tcp_slow_start`). Returns the unused acknowledged segments.
pub(super) fn slow_start(sock: &mut Sock, acked: u32) -> u32 {
    let cwnd = sock.snd_cwnd.saturating_add(acked).min(sock.snd_ssthresh);
    let left = acked - (cwnd - sock.snd_cwnd);
    sock.snd_cwnd = cwnd.min(sock.snd_cwnd_clamp);
    left
}

/// Acknowledged segments not yet used for growth (`snd_cwnd_cnt`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Credit {
    acked: u32,
}

impl Credit {
    /// Increases the window by one segment per `per` acknowledged ones (`tcp_cong_avoid_ai`).
    pub(super) fn grow(&mut self, sock: &mut Sock, per: u32, acked: u32) {
        // Credit for a larger `per` counts once, not many times.
        if self.acked >= per {
            self.acked = 0;
            sock.snd_cwnd += 1;
        }
        self.acked += acked;
        if self.acked >= per {
            sock.snd_cwnd += self.acked / per;
            self.acked %= per;
        }
        sock.snd_cwnd = sock.snd_cwnd.min(sock.snd_cwnd_clamp);
    }

    /// A reduction resets it (`tcp_init_cwnd_reduction`, `tcp_enter_loss`).
    pub(super) fn on_state(&mut self, old: CaState, new: CaState) {
        let reduces = |state| matches!(state, CaState::Cwr | CaState::Recovery);
        if new == CaState::Loss || (reduces(new) && !reduces(old)) {
            self.acked = 0;
        }
    }
}
