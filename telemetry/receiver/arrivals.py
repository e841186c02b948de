"""Segments as they arrive, by connection: CE marks, retransmissions, one-way delays. Pure: no clock, no I/O.

The kernel's counts (`telemetry.receiver.kernel_probe`) become values of a window here.

One-way delay is arrival by the receiver's clock minus departure by the sender's clock, from TCP's timestamp
option (RFC 7323). The clocks' offset is unknown, so only the variation matters: the delay above the minimum
of the same connection (PDV of RFC 5481).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from telemetry.receiver.tcp import Ends

Delays = Mapping[int, int]
"""Delay above the minimum [us] -> number of segments, with the kernel's resolution."""

_PERCENT: Final = 99
_SLOPE: Final = 3.0
"""Maximum apparent ratio of the speeds of two clocks; beyond, the assumed tick is wrong."""
_SLOPE_KNOWN_US: Final = 500_000
"""Minimum time for that comparison [us]; in less time, a growing queue looks like a slow clock."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """Arrivals on one connection since the last reading.

    Attributes:
        cookie: Unique number of the socket.
        ends: Its addresses and ports.
        segs: Segments, with and without payload.
        ce: Segments with ECN's CE mark.
        delays: Delays of segments with a usable timestamp.
        resent: Retransmitted segments; None without timestamps, which identify them.
    """

    cookie: int
    ends: Ends
    segs: int
    ce: int
    delays: Delays
    resent: int | None


@dataclass(slots=True)
class Arrivals:
    """Arrivals over some time, on one connection or on many.

    Attributes:
        segs: Segments.
        ce: Segments with ECN's CE mark.
        delays: Delays, each above the minimum of its connection.
        resent: Retransmitted segments; None if no connection has timestamps.
    """

    segs: int = 0
    ce: int = 0
    delays: dict[int, int] = field(default_factory=dict)
    resent: int | None = None

    def add(self, more: Arrived | Arrivals) -> None:
        """Add further arrivals."""
        self.segs += more.segs
        self.ce += more.ce
        if more.resent is not None:
            self.resent = (self.resent or 0) + more.resent
        for delay_us, segs in more.delays.items():
            self.delays[delay_us] = self.delays.get(delay_us, 0) + segs


class ArrivalWindow:
    """Arrivals of the last intervals."""

    def __init__(self, intervals: int) -> None:
        """Create a window of `intervals` intervals, at least 1."""
        self._now = Arrivals()
        self._closed: deque[Arrivals] = deque(maxlen=intervals)

    def add(self, arrived: Arrived) -> None:
        """Add arrivals to the current interval."""
        self._now.add(arrived)

    def close(self) -> Arrivals:
        """End an interval; return the arrivals of the window that ends with it."""
        self._closed.append(self._now)
        self._now = Arrivals()
        if len(self._closed) == 1:
            return self._closed[0]
        window = Arrivals()
        for interval in self._closed:
            window.add(interval)
        return window


def understood(elapsed_us: int, ticks: int, tick_us: int) -> bool:
    """Return whether a sender's timestamps advance like a clock with this tick.

    Args:
        elapsed_us: Time between two segments by the receiver's clock [us].
        ticks: Advance of the sender's timestamps in that time.
        tick_us: Assumed length of a tick [us]; 0 if unknown.
    """
    if not tick_us:
        return False
    if elapsed_us < _SLOPE_KNOWN_US:
        return True
    return elapsed_us / _SLOPE < ticks * tick_us < elapsed_us * _SLOPE


def variation_us(delays: Delays) -> int | None:
    """Return the nearest-rank 99th percentile of delays above their minimum [us]; None for no delays."""
    left = math.ceil(sum(delays.values()) * _PERCENT / 100)
    for delay_us in sorted(delays):
        left -= delays[delay_us]
        if left <= 0:
            return delay_us
    return None
