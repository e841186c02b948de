//! Synthetic ACKs, to measure the detector's cost per ACK in its states.

use crate::{Detector, Options, Progress};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waiting for losses.
    Waiting,
    /// Estimating, without finding a limit.
    Triggered,
    /// Tracking a limit that it has found.
    Limited,
}

impl State {
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "waiting" => Some(Self::Waiting),
            "triggered" => Some(Self::Triggered),
            "limited" => Some(Self::Limited),
            _ => None,
        }
    }
}

const MSS_BYTES: u16 = 1448;
const MIN_RTT_US: u32 = 10_000;
/// ACKs before the first loss.
const CALM_ACKS: u64 = 100;

/// Passes ACKs to a new detector, which reaches this state within the first few hundred.
#[must_use]
pub fn work(options: Options, state: State, acks: u32) -> Detector {
    let mut detector = Detector::new(options, MSS_BYTES);
    let mut now = Progress { min_rtt_us: MIN_RTT_US, ..Progress::default() };
    detector.start(&now);
    for number in 0..u64::from(acks) {
        let calm = number < CALM_ACKS || state == State::Waiting;
        let limited = !calm && state == State::Limited;
        now.time_us += if limited { 10_000 } else { 1_000 };
        now.delivered_pkts += if limited { 1 } else { 5 };
        now.lost_pkts += if number == CALM_ACKS && !calm { 3 * CALM_ACKS } else { u64::from(limited) };
        detector.ack(&now);
    }
    detector
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_detector_is_busy_with_what_is_asked_for() {
        for (state, triggered, limited) in
            [(State::Waiting, 0, 0), (State::Triggered, 1, 0), (State::Limited, 1, 1)]
        {
            for acks in [1_000, 100_000] {
                let detector = work(Options::usual(), state, acks);
                let found = detector.state();
                let reported = (found.transfer.triggered, found.limited, found.undetected);
                assert_eq!(reported, (triggered, limited, 0), "{state:?}, {acks} ACKs");
            }
        }
    }
}
