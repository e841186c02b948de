//! Hyvar's reasoner, as `ccp_algs/hyvar/reasoner.py` has it: the next MTP, and who has the window.

use serde::Deserialize;

use crate::Result;
use crate::env::bad;

/// Losses without a queue.
const LOSS_WITHOUT_QUEUE: u32 = 3;
/// A long queue.
const LONG_QUEUE: u32 = 4;

/// Parameters of `hyvar`; those of the same names in `ccp_algs/hyvar/algorithms.py` say what they are.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Hyvar {
    /// Queueing delay above which a queue is long.
    pub alpha_rtts: f64,
    /// Share of lost packets from which losses count.
    pub delta_ratio: f64,
    /// Shortest MTP.
    pub mtp_min_ms: f64,
    /// Longest MTP.
    pub mtp_max_ms: f64,
    /// Shortest MTP in minimum RTTs, also beyond the longest.
    pub mtp_min_rtts: f64,
    /// The policy has the window alone in case 4 at the shortest MTP.
    pub case4_alone: bool,
    /// The best throughput is that of so many minimum RTTs.
    pub thr_window_rtts: f64,
}

/// What an interval was like.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// Queueing delay in minimum RTTs.
    pub queue_rtts: f64,
    /// What that grew by since the interval before.
    pub gradient_rtts: f64,
    /// Lost, as part of what was sent.
    pub loss_ratio: f64,
    /// Minimum RTT.
    pub rtt_min_us: f64,
    /// Length of the interval that was asked for.
    pub mtp_us: f64,
    /// The window is below the slow-start threshold.
    pub in_slow_start: bool,
}

/// What the next interval is to be like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Next {
    /// The case, 1 to 4.
    pub case: u32,
    /// Its length.
    pub mtp_us: f64,
    /// The policy has the window alone.
    pub alone: bool,
    /// The policy's factor is applied at its beginning.
    pub heeded: bool,
}

impl Hyvar {
    /// Whether its values can be.
    ///
    /// # Errors
    ///
    /// `learning.bad_domain` if they cannot.
    pub fn check(&self) -> Result<()> {
        let above_0 = [self.alpha_rtts, self.mtp_min_ms, self.mtp_max_ms, self.thr_window_rtts];
        if above_0.into_iter().any(|value| value.is_nan() || value <= 0.0) {
            return Err(bad("alpha, bounds of the MTP and the window of the best are above 0").at("hyvar"));
        }
        Ok(())
    }

    /// What follows an interval.
    #[must_use]
    pub fn next(&self, state: &State) -> Next {
        let calm = state.queue_rtts <= self.alpha_rtts;
        let lossy = state.loss_ratio >= self.delta_ratio;
        let steepness = state.gradient_rtts / self.alpha_rtts;
        let (case, factor) = match (calm, lossy) {
            (false, _) => (LONG_QUEUE, (-state.queue_rtts / self.alpha_rtts).exp()),
            (true, true) => (LOSS_WITHOUT_QUEUE, 1.0),
            (true, false) if steepness < 0.0 => (1, (1.0 / (1.0 + steepness.exp())).exp2()),
            (true, false) => (2, (-steepness).exp()),
        };
        let least_us = (1e3 * self.mtp_min_ms).max(self.mtp_min_rtts * state.rtt_min_us);
        let mtp_us = (state.mtp_us * factor).min(1e3 * self.mtp_max_ms).max(least_us);
        let shortest = self.case4_alone && case == LONG_QUEUE && mtp_us <= least_us;
        let alone = case == LOSS_WITHOUT_QUEUE || shortest;
        Next { case, mtp_us, alone, heeded: case >= LOSS_WITHOUT_QUEUE || !state.in_slow_start }
    }
}

#[cfg(test)]
pub const SHIPPED: Hyvar = Hyvar {
    alpha_rtts: 0.2,
    delta_ratio: 0.01,
    mtp_min_ms: 10.0,
    mtp_max_ms: 200.0,
    mtp_min_rtts: 1.0,
    case4_alone: false,
    thr_window_rtts: 3000.0,
};

#[cfg(test)]
mod tests {
    use super::*;

    fn state(queue_rtts: f64, gradient_rtts: f64, loss_ratio: f64) -> State {
        State { queue_rtts, gradient_rtts, loss_ratio, rtt_min_us: 20e3, mtp_us: 60e3, in_slow_start: true }
    }

    #[test]
    fn each_case_has_its_interval() {
        let next = |queue, gradient, loss| SHIPPED.next(&state(queue, gradient, loss));
        // 60 ms * 2^(1 / (1 + e^-1))
        let drains = next(0.1, -0.2, 0.0);
        assert!((drains.mtp_us - 60e3 * 2_f64.powf(1.0 / (1.0 + (-1.0_f64).exp()))).abs() < 1e-6);
        assert_eq!((drains.case, drains.alone, drains.heeded), (1, false, false));
        let grows = next(0.1, 0.1, 0.0);
        assert!((grows.mtp_us - 60e3 * (-0.5_f64).exp()).abs() < 1e-6);
        assert_eq!((grows.case, grows.alone, grows.heeded), (2, false, false));
        assert_eq!(next(0.1, 0.1, 0.02), Next { case: 3, mtp_us: 60e3, alone: true, heeded: true });
        let longer = next(0.21, 0.0, 0.02);
        assert!((longer.mtp_us - 60e3 * (-1.05_f64).exp()).abs() < 1e-6);
        assert_eq!((longer.case, longer.alone, longer.heeded), (4, false, true));
    }

    #[test]
    fn a_long_queue_at_the_shortest_interval_may_leave_the_window_to_the_policy() {
        let long = state(1.0, 0.0, 0.0);
        let alone = Hyvar { case4_alone: true, ..SHIPPED };
        assert_eq!(alone.next(&long), Next { case: 4, mtp_us: 20e3, alone: true, heeded: true });
        assert!(!SHIPPED.next(&long).alone);
    }
}
