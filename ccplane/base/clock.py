"""The kernel's CLOCK_MONOTONIC: the time of reports, flows, events and telemetry.

A process in a time namespace (time_namespaces(7)) sees another CLOCK_MONOTONIC, with an offset. Use these
functions for each time that is compared with the kernel's or another process's, and `time.monotonic` only for
durations within one process.
"""

from __future__ import annotations

import time
from functools import cache


@cache
def offset_ns() -> int:
    """Return this process's CLOCK_MONOTONIC minus the kernel's [ns]; 0 without the compiled part."""
    try:
        from ccplane.base import _native
    except ImportError:
        return 0
    return _native.clock_offset_ns()


def now_ns() -> int:
    """Return the kernel's time [ns]."""
    return time.monotonic_ns() - offset_ns()


def now_s() -> float:
    """Return the kernel's time [s]."""
    return now_ns() / 1e9


def now_us() -> int:
    """Return the kernel's time [us]."""
    return now_ns() // 1000
