//! The limiter alone, for tests.

use crate::types::{rtcp_limiter, rtcp_stage};
use crate::{Detector, Options, Progress, rtcp_detector};

unsafe extern "C" {
    fn rtcp_host_limiter_ack(
        l: *mut rtcp_limiter,
        d: *mut rtcp_detector,
        o: *const Options,
        now: *const Progress,
    );
    fn rtcp_host_limiter_rate(
        l: *const rtcp_limiter,
        d: *const rtcp_detector,
        o: *const Options,
        now: *const Progress,
    ) -> u64;
}

/// A detector, and the permitted rate of the client's flows.
pub struct Limiter {
    detector: Detector,
    state: rtcp_limiter,
}

impl Limiter {
    /// Starts with a detector, which may know of a limit.
    #[must_use]
    pub fn new(detector: Detector) -> Self {
        Self { detector, state: rtcp_limiter::default() }
    }

    pub fn start(&mut self, now: &Progress) {
        self.detector.start(now);
    }

    /// Handles an ACK; with `observe`, limits are found but nothing is capped.
    pub fn ack(&mut self, now: &Progress) {
        self.detector.ack(now);
        if self.detector.options.observe != 0 {
            return;
        }
        let (limiter, detector) = (&raw mut self.state, &raw mut self.detector.state);
        // SAFETY: all four are complete structures that outlive the call.
        unsafe { rtcp_host_limiter_ack(limiter, detector, &raw const self.detector.options, now) };
    }

    /// The permitted rate of all flows together, if capped.
    #[must_use]
    pub fn rate_bytes_per_s(&self, now: &Progress) -> Option<u64> {
        let (limiter, detector) = (&raw const self.state, &raw const self.detector.state);
        // SAFETY: as above.
        let rate =
            unsafe { rtcp_host_limiter_rate(limiter, detector, &raw const self.detector.options, now) };
        (rate > 0).then_some(rate)
    }

    /// Its stage, an `enum rtcp_stage`.
    #[must_use]
    pub fn stage(&self) -> rtcp_stage {
        self.state.stage.into()
    }

    #[must_use]
    pub fn detector(&self) -> &Detector {
        &self.detector
    }
}
