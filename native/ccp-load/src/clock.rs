//! The kernel's CLOCK_MONOTONIC, which TCP and BPF programs use. In a time namespace (time_namespaces(7)) processes see
//! another one, with an offset.

use std::fs;
use std::sync::OnceLock;

/// This process's CLOCK_MONOTONIC minus the kernel's [ns].
pub fn offset_ns() -> i64 {
    static OFFSET_NS: OnceLock<i64> = OnceLock::new();
    *OFFSET_NS.get_or_init(|| {
        let namespace = |name: &str| fs::read_link(format!("/proc/self/ns/{name}")).ok();
        // The offsets are those of future children, which may be in another namespace than this process.
        if namespace("time") != namespace("time_for_children") {
            return 0;
        }
        // Kernels without time namespaces have no such file.
        fs::read_to_string("/proc/self/timens_offsets").map_or(0, |text| parse(&text).unwrap_or(0))
    })
}

/// The offset in the line `monotonic SECONDS NANOSECONDS`.
fn parse(text: &str) -> Option<i64> {
    let mut words = text.lines().find_map(|line| line.strip_prefix("monotonic"))?.split_whitespace();
    let (seconds, nanoseconds): (i64, i64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

/// The kernel's time [ns].
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    let here_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    here_ns.wrapping_sub(offset_ns() as u64)
}

/// The kernel's time [us].
pub fn now_us() -> u64 {
    now_ns() / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_parsed() {
        let text = |seconds: i64, ns: i64| {
            format!("monotonic  {seconds:10} {ns:9}\nboottime           7         0\n")
        };
        assert_eq!(parse(&text(100_000, 5)), Some(100_000_000_000_005));
        assert_eq!(parse(&text(-3, 999_999_999)), Some(-2_000_000_001));
        assert_eq!(parse("boottime 7 0\n"), None);
        assert_eq!(parse("monotonic x 0\n"), None);
    }
}
