//! Smoothed RTT and retransmission timeout: RFC 6298 as computed by tcp_rtt_estimator().

/// Timeout without a sample (`TCP_TIMEOUT_INIT`) [us].
const INITIAL_RTO_US: u64 = 1_000_000;
/// Maximum timeout (`TCP_RTO_MAX`) [us].
const MAX_RTO_US: u64 = 120_000_000;

/// The estimator. Its state is scaled as in the kernel: `srtt` by 8, deviations by 4.
#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    srtt8_us: u32,
    mdev4_us: u32,
    mdev_max4_us: u32,
    rttvar4_us: u32,
    /// End of the round whose maximum deviation is used.
    round_end_seq: u64,
    rto_us: u64,
    rto_min_us: u32,
}

impl RttEstimator {
    pub(crate) fn new(rto_min_us: u32) -> Self {
        Self {
            srtt8_us: 0,
            mdev4_us: 0,
            mdev_max4_us: 0,
            rttvar4_us: 0,
            round_end_seq: 0,
            rto_us: INITIAL_RTO_US,
            rto_min_us,
        }
    }

    /// Eight times the smoothed RTT [us]; 0: no sample yet.
    pub(crate) fn srtt8_us(&self) -> u32 {
        self.srtt8_us
    }

    /// Mean deviation [us], as in TCP_INFO.
    pub(crate) fn deviation_us(&self) -> u32 {
        self.mdev4_us >> 2
    }

    pub(crate) fn rto_us(&self) -> u64 {
        self.rto_us
    }

    pub(crate) fn rto_min_us(&self) -> u32 {
        self.rto_min_us
    }

    /// A timeout occurred: the next one is twice as long.
    pub(crate) fn back_off(&mut self) {
        self.rto_us = (2 * self.rto_us).min(MAX_RTO_US);
    }

    /// Adds a sample, which ends the backoff.
    pub(crate) fn update(&mut self, rtt_us: u32, snd_una: u64, snd_nxt: u64) {
        if self.srtt8_us == 0 {
            self.srtt8_us = (rtt_us << 3).max(1);
            self.mdev4_us = rtt_us << 1;
            self.rttvar4_us = self.mdev4_us.max(self.rto_min_us);
            self.mdev_max4_us = self.rttvar4_us;
            self.round_end_seq = snd_nxt;
        } else {
            self.smooth(rtt_us, snd_una, snd_nxt);
        }
        self.rto_us = (u64::from(self.srtt8_us >> 3) + u64::from(self.rttvar4_us)).min(MAX_RTO_US);
    }

    fn smooth(&mut self, rtt_us: u32, snd_una: u64, snd_nxt: u64) {
        let error = i64::from(rtt_us) - i64::from(self.srtt8_us >> 3);
        self.srtt8_us = (i64::from(self.srtt8_us) + error).max(1) as u32;
        let mdev = i64::from(self.mdev4_us);
        let mut change = error.abs() - (mdev >> 2);
        if error < 0 && change > 0 {
            // A falling RTT would increase the timeout: it counts an eighth.
            change >>= 3;
        }
        self.mdev4_us = (mdev + change).max(0) as u32;
        if self.mdev4_us > self.mdev_max4_us {
            self.mdev_max4_us = self.mdev4_us;
            self.rttvar4_us = self.rttvar4_us.max(self.mdev_max4_us);
        }
        if snd_una > self.round_end_seq {
            if self.mdev_max4_us < self.rttvar4_us {
                self.rttvar4_us -= (self.rttvar4_us - self.mdev_max4_us) >> 2;
            }
            self.round_end_seq = snd_nxt;
            self.mdev_max4_us = self.rto_min_us;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6298, section 2.2: SRTT = R, RTTVAR = R/2; the deviation's part is at least the minimum (Linux).
    #[test]
    fn the_first_sample_sets_the_timeout() {
        let mut rtt = RttEstimator::new(200_000);
        assert_eq!(rtt.rto_us(), 1_000_000);
        rtt.update(100_000, 0, 0);
        assert_eq!((rtt.srtt8_us() >> 3, rtt.rto_us()), (100_000, 300_000));
        rtt = RttEstimator::new(200_000);
        rtt.update(400_000, 0, 0);
        assert_eq!(rtt.rto_us(), 400_000 + 800_000);
    }

    /// RFC 6298, section 2.3: SRTT <- 7/8 SRTT + 1/8 R'.
    #[test]
    fn further_samples_are_smoothed() {
        let mut rtt = RttEstimator::new(200_000);
        rtt.update(80_000, 0, 0);
        rtt.update(160_000, 0, 0);
        assert_eq!(rtt.srtt8_us() >> 3, 90_000);
    }

    #[test]
    fn each_timeout_doubles_until_two_minutes_and_a_sample_ends_that() {
        let mut rtt = RttEstimator::new(200_000);
        rtt.update(100_000, 0, 0);
        rtt.back_off();
        assert_eq!(rtt.rto_us(), 600_000);
        for _ in 0..20 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto_us(), 120_000_000);
        rtt.update(100_000, 1, 2);
        assert_eq!(rtt.rto_us(), 300_000);
    }
}
