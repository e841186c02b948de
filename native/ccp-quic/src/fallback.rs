//! The fallback of connections without an agent: quinn's own CUBIC.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::congestion::{Controller, Cubic, CubicConfig};

/// quinn's CUBIC window after a loss, as a fraction (RFC 9438 section 4.6).
const BETA: f64 = 0.7;

/// Returns the fallback of a new connection.
pub fn first(now: Instant, mtu_bytes: u16) -> Box<dyn Controller> {
    Box::new(Cubic::new(Arc::new(CubicConfig::default()), now, mtu_bytes))
}

/// Returns the fallback of a connection that an agent left with a window of `window_bytes`: in slow start if
/// it `never_lost` a packet, otherwise as if a loss, one `rtt` ago, had reduced the window to this.
pub fn heir(
    now: Instant,
    mtu_bytes: u16,
    window_bytes: u64,
    rtt: Duration,
    never_lost: bool,
) -> Box<dyn Controller> {
    let before_bytes = if never_lost { window_bytes } else { (window_bytes as f64 / BETA).ceil() as u64 };
    let mut config = CubicConfig::default();
    config.initial_window(before_bytes);
    let mut cubic = Cubic::new(Arc::new(config), now, mtu_bytes);
    if !never_lost {
        let then = now.checked_sub(rtt).unwrap_or(now);
        cubic.on_congestion_event(then, then, false, u64::from(mtu_bytes));
    }
    Box::new(cubic)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: u16 = 1200;
    const RTT: Duration = Duration::from_millis(20);

    #[test]
    fn an_heir_begins_with_the_window_that_there_was() {
        let now = Instant::now();
        for never_lost in [false, true] {
            for window in [2 * u64::from(MTU), 100_000, 10_000_001] {
                let heir = heir(now, MTU, window, RTT, never_lost);
                assert!(heir.window().abs_diff(window) <= 1, "{} for {window}", heir.window());
            }
        }
    }

    #[test]
    fn an_heir_receives_of_losses_at_once_but_not_of_those_before() {
        let now = Instant::now();
        let mut cubic = heir(now, MTU, 100_000, RTT, false);
        cubic.on_congestion_event(now, now - 2 * RTT, false, 1200);
        assert!(cubic.window() >= 99_999);
        cubic.on_congestion_event(now, now - RTT / 2, false, 1200);
        assert!(cubic.window() <= 70_001);
    }
}
