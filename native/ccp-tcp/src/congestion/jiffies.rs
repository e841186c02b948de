//! The kernel's coarse clock.

use crate::Sock;

/// Ticks per second, as in distributions.
pub(super) const HZ: u64 = 250;

pub(super) fn jiffies_at(time_us: u64) -> u64 {
    time_us * HZ / 1_000_000
}

pub(super) fn jiffies(sock: &Sock) -> u64 {
    jiffies_at(sock.mstamp_us)
}
