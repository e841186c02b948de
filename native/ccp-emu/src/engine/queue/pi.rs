//! What the controllers of PIE and PI2 share: updates at regular times.

/// Times of a controller that is updated every interval, computed at packets: between two of them, nothing that
/// an update reads changes except time.
#[derive(Clone, Debug)]
pub(super) struct Updates {
    every_ns: u64,
    /// Unknown until the first packet.
    next_ns: Option<u64>,
}

impl Updates {
    pub fn new(every_us: u64) -> Self {
        Updates { every_ns: every_us.max(1).saturating_mul(1000), next_ns: None }
    }

    pub fn every_ns(&self) -> u64 {
        self.every_ns
    }

    /// Time of an update that is due; call until `None`.
    pub fn due(&mut self, now_ns: u64) -> Option<u64> {
        let at_ns = *self.next_ns.get_or_insert(now_ns.saturating_add(self.every_ns));
        if at_ns > now_ns {
            return None;
        }
        self.next_ns = Some(at_ns.saturating_add(self.every_ns));
        Some(at_ns)
    }

    /// Omits due updates, which would change nothing.
    pub fn skip(&mut self, now_ns: u64) {
        if let Some(next_ns) = &mut self.next_ns {
            let due = (now_ns.saturating_sub(*next_ns)).div_ceil(self.every_ns);
            *next_ns = next_ns.saturating_add(due.saturating_mul(self.every_ns));
        }
    }
}

/// Step of a proportional integral controller: gains in Hz, delays in ns.
pub(super) fn step(gains_hz: (f64, f64), delay_ns: u64, before_ns: u64, target_ns: u64) -> f64 {
    let seconds = |from_ns: u64| (delay_ns as f64 - from_ns as f64) / 1e9;
    gains_hz.0 * seconds(target_ns) + gains_hz.1 * seconds(before_ns)
}
