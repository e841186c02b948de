"""Segments as they arrive, by connection: CE marks, retransmissions, one-way delays. Pure: no clock, no I/O.

`telemetry.receiver.kernel_probe` reads what the kernel counted; here it becomes what a window saw.

One-way delay is arrival by our clock minus departure by the sender's, the timestamp option of TCP (RFC 7323).
As their offset is unknown, only its variation means something: the delay above the least one of the same
connection (PDV of RFC 5481).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from telemetry.receiver.tcp import Ends

Delays = Mapping[int, int]
"""Delay above the minimum [us] -> how many segments had it, as exactly as the kernel counts."""

_PERCENT: Final = 99
_SLOPE: Final = 3.0
"""A sender's clock that seems to run so many times as fast or slow as ours does not count what we think."""
_SLOPE_KNOWN_US: Final = 500_000
"""Before so long [us], a queue that builds up can look like a slow clock."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """What came in on one connection since the last reading.

    Attributes:
        cookie: Number that the kernel gives no other socket.
        ends: Its addresses and ports.
        segs: Segments, with and without payload.
        ce: Of these, with ECN's CE mark.
        delays: Of segments with a timestamp that we understand.
        resent: Segments that were sent again; None without timestamps, which tell.
    """

    cookie: int
    ends: Ends
    segs: int
    ce: int
    delays: Delays
    resent: int | None


@dataclass(slots=True)
class Arrivals:
    """What came in over some time, of one connection or of many.

    Attributes:
        segs: Segments.
        ce: Of these, with ECN's CE mark.
        delays: Of these, each above the minimum of its connection.
        resent: Segments that were sent again; None if not one connection has timestamps.
    """

    segs: int = 0
    ce: int = 0
    delays: dict[int, int] = field(default_factory=dict)
    resent: int | None = None

    def add(self, more: Arrived | Arrivals) -> None:
        """Add what came in, too."""
        self.segs += more.segs
        self.ce += more.ce
        if more.resent is not None:
            self.resent = (self.resent or 0) + more.resent
        for delay_us, segs in more.delays.items():
            self.delays[delay_us] = self.delays.get(delay_us, 0) + segs


class ArrivalWindow:
    """Arrivals of the last intervals."""

    def __init__(self, intervals: int) -> None:
        """Begin with a window of so many intervals, at least 1."""
        self._now = Arrivals()
        self._closed: deque[Arrivals] = deque(maxlen=intervals)

    def add(self, arrived: Arrived) -> None:
        """Take what came in in this interval."""
        self._now.add(arrived)

    def close(self) -> Arrivals:
        """End an interval; return what came in over the window that ends with it."""
        self._closed.append(self._now)
        self._now = Arrivals()
        if len(self._closed) == 1:
            return self._closed[0]
        window = Arrivals()
        for interval in self._closed:
            window.add(interval)
        return window


def understood(elapsed_us: int, ticks: int, tick_us: int) -> bool:
    """Return whether a sender's timestamps advance as they would with ticks of that length.

    Args:
        elapsed_us: Time between two segments by our clock [us].
        ticks: How far the sender's timestamps went meanwhile.
        tick_us: What one is taken for [us]; 0 if that is not known yet.
    """
    if not tick_us:
        return False
    if elapsed_us < _SLOPE_KNOWN_US:
        return True
    return elapsed_us / _SLOPE < ticks * tick_us < elapsed_us * _SLOPE


def variation_us(delays: Delays) -> int | None:
    """Return the nearest-rank 99th percentile of delays above their minimum [us]; None of none."""
    left = math.ceil(sum(delays.values()) * _PERCENT / 100)
    for delay_us in sorted(delays):
        left -= delays[delay_us]
        if left <= 0:
            return delay_us
    return None
