"""Integers in place of fractions: the detector in the kernel gives the same answers, bit by bit.

Rates are whole bytes/s, levels of buckets millionths of a byte (_ubytes), so that a rate [bytes/s] times a
time [us] needs no division. There most numbers have 32 bits, so that a client takes little memory: what could
grow beyond that stops at a bound.
"""

from __future__ import annotations

US_PER_S = 1_000_000
PPM = 1_000_000
UBYTES = 1_000_000
"""In a byte."""
MOST = 2**31 - 1
"""Bytes or us since some beginning count up to here: 2 GB, or 35 minutes."""
MOST_BYTES_PER_S = 2**32 - 1
"""The highest rate: 34 Gbit/s."""
MOST_UBYTES = 2**63 - 1
"""The highest level of a bucket."""


def since(now: int, then: int) -> int:
    """Return what a counter or a clock has moved; 0 if it has gone back."""
    return max(0, now - then)


def bytes_of(pkts: int, mss_bytes: int) -> int:
    """Return the bytes of so many packets."""
    return min(pkts * mss_bytes, MOST)


def share(amount: int, ppm: int) -> int:
    """Return a share of an amount, rounded down."""
    return amount * ppm // PPM


def brings(rate_bytes_per_s: int, t_us: int) -> int:
    """Return what a rate brings in a time [ubytes]."""
    return rate_bytes_per_s * min(t_us, MOST)


def lowest_rate(through_bytes: int, t_us: int) -> int:
    """Return the lowest rate that brings so much in a time, rounded up [bytes/s]; 0 for less than none."""
    return min(-(-max(0, through_bytes) * UBYTES // t_us), MOST_BYTES_PER_S)
