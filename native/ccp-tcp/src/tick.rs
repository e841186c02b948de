//! Expiry of the kernel's timers: its clock ticks, and distant expiries are rounded (kernel/time/timer.c).

/// Ticks within the finest level of the timer wheel.
const LEVEL_TICKS: u64 = 63;
/// Factor between levels, as a power of 2.
const LEVEL_SHIFT: u32 = 3;
const LEVELS: u32 = 9;

/// The first tick at least `wait_ns` from now at which the wheel fires. `tick_ns` 0: exactly then.
pub(crate) fn expiry_ns(tick_ns: u64, now_ns: u64, wait_ns: u64) -> u64 {
    if tick_ns == 0 {
        return now_ns + wait_ns;
    }
    let wait_ticks = wait_ns.div_ceil(tick_ns);
    let expiry = now_ns / tick_ns + wait_ticks;
    let level = (0..LEVELS - 1).find(|level| wait_ticks < LEVEL_TICKS << (LEVEL_SHIFT * level));
    let shift = LEVEL_SHIFT * level.unwrap_or(LEVELS - 1);
    // Rounded up: never early, even if now is just before a tick.
    (((expiry + (1 << shift)) >> shift) << shift) * tick_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn short_waits_last_until_the_tick_after_them() {
        assert_eq!(expiry_ns(0, 5, 7), 12);
        assert_eq!(expiry_ns(4 * MS, 0, 40 * MS), 44 * MS);
        assert_eq!(expiry_ns(4 * MS, 3 * MS, 40 * MS), 44 * MS);
        assert_eq!(expiry_ns(4 * MS, 3 * MS, 41 * MS), 48 * MS);
        assert_eq!(expiry_ns(MS, 3 * MS, 3 * MS), 7 * MS);
    }

    #[test]
    fn long_waits_are_coarser() {
        assert_eq!(expiry_ns(4 * MS, 0, 62 * 4 * MS), 63 * 4 * MS);
        assert_eq!(expiry_ns(4 * MS, 0, 63 * 4 * MS), 64 * 4 * MS);
        assert_eq!(expiry_ns(4 * MS, 0, 64 * 4 * MS), 72 * 4 * MS);
        assert_eq!(expiry_ns(4 * MS, 0, 504 * 4 * MS), 512 * 4 * MS);
        assert_eq!(expiry_ns(4 * MS, 0, 513 * 4 * MS), 576 * 4 * MS);
    }
}
