//! CLOCK_MONOTONIC in nanoseconds.

use rustix::time::{ClockId, Timespec, clock_gettime};

fn read(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The time used throughout the emulator.
pub fn now_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// Offset from this clock to the time of day.
pub fn real_offset_ns() -> u64 {
    read(ClockId::Realtime).saturating_sub(now_ns())
}

pub fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
}
