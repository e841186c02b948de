"""Integers in place of fractions: the detector in the kernel gives the same answers, bit by bit.

Rates are whole bytes/s, levels of buckets millionths of a byte (_ubytes), so that a rate [bytes/s] times a
time [us] needs no division. What could grow beyond 64 bits stops at a bound that no flow reaches.
"""

from __future__ import annotations

US_PER_S = 1_000_000
PPM = 1_000_000
UBYTES = 1_000_000
"""In a byte."""
MOST = 2**43 - 1
"""Bytes or us since some beginning count up to here: 9 TB, or 100 days."""
_MOST_PKTS = 2**32
_MOST_UBYTES = 2**63 - 1


def since(now: int, then: int) -> int:
    """Return what a counter or a clock has moved; 0 if it has gone back."""
    return min(now - then, MOST) if now > then else 0


def bytes_of(pkts: int, mss_bytes: int) -> int:
    """Return the bytes of so many packets."""
    return min(min(pkts, _MOST_PKTS) * mss_bytes, MOST)


def share(amount: int, ppm: int) -> int:
    """Return a share of an amount, rounded down."""
    return amount * ppm // PPM


def brings(rate_bytes_per_s: int, t_us: int) -> int:
    """Return what a rate brings in a time [ubytes]."""
    return min(rate_bytes_per_s, _MOST_UBYTES // t_us) * t_us if t_us else 0


def lowest_rate(through_bytes: int, t_us: int) -> int:
    """Return the lowest rate that brings so much in a time, rounded up [bytes/s]; 0 for less than none."""
    return -(-max(0, through_bytes) * UBYTES // t_us)
