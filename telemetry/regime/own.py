"""Detects whether a peer fills the path by itself. Pure: no clock, no I/O.

Bytes in flight are arrival rate times RTT (Little's law), regardless of other traffic. So the arrival rate
shows whether a sender fills a queue by itself or together with others:

* *Alone*: a queue persists only while this sender keeps the link busy, so the full capacity arrives, interval
  by interval.
* *With others*: other senders use a part of the capacity. Less arrives than when the sender had the path
  alone, and the rate fluctuates.

If the same rate arrived while the queue was empty, a queue at this rate is not the sender's either.

Arrivals are counted in two ways, because each has its own errors, and either may show that the path is full.
*Packets* in any order: a network card or hypervisor may merge several into one. *Bytes* in order: a loss
delays them until it is repaired, and then they arrive in a burst, so bytes are averaged over several
intervals.

Limits: other senders that take a constant part of the path from the first interval on look like a slower
path. Bursts of the sender within an interval look like traffic of other senders, because the burst's rate is
not that of the interval.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from telemetry.regime.windowed_max import WindowedMax

CAPACITY_HORIZON_S: Final = 600.0
"""Time for which the maximum rate counts as the path's capacity, if the capacity decreases [s]."""
FULL_RATIO: Final = 0.95
"""Share of the capacity that counts as full, because packets at the edges of an interval are cut off."""
EMPTY_RATIO: Final = 0.1
"""Maximum queueing delay for a queue to count as empty, as a share of the empty path's RTT or of delta,
whichever is less."""
INTERVALS: Final = 5
"""Consecutive intervals that make a lasting rate; equal to the detector's window (N of section 4.3)."""
MEANS: Final = 10
"""Consecutive values of the moving average over `INTERVALS` intervals that make a lasting rate."""


class OwnLoad:
    """The load of one peer on its path."""

    def __init__(self, delta_ms: float) -> None:
        """Start without data."""
        self._delta_ms = delta_ms
        self._pkts = _Load(mean_of=1, in_a_row=INTERVALS)
        self._bytes = _Load(mean_of=INTERVALS, in_a_row=MEANS)

    def fills(
        self,
        rate_pkts_per_s: float | None,
        rate_bytes_per_s: float | None,
        rtt_ms: float | None,
        empty_ms: float | None,
        passed_s: float,
    ) -> bool:
        """Add an interval, and return whether the peer's own packets filled the path in it.

        Args:
            rate_pkts_per_s: Data packets that arrived [packets/s]; None if not counted.
            rate_bytes_per_s: Data that arrived in order [bytes/s]; None likewise.
            rtt_ms: Median RTT [ms]; None if not measured.
            empty_ms: RTT of the empty path [ms]; None if unknown.
            passed_s: Time since the previous interval [s].
        """
        is_empty = (
            rtt_ms is not None
            and empty_ms is not None
            and rtt_ms - empty_ms <= EMPTY_RATIO * min(empty_ms, self._delta_ms)
        )
        by_pkts = self._pkts.fills(rate_pkts_per_s, is_empty, passed_s)
        by_bytes = self._bytes.fills(rate_bytes_per_s, is_empty, passed_s)
        return by_pkts or by_bytes


class _Load:
    """One of the two counts of a peer's load."""

    def __init__(self, mean_of: int, in_a_row: int) -> None:
        self._recent: deque[float] = deque(maxlen=mean_of)
        self._max = WindowedMax(CAPACITY_HORIZON_S)
        self._max_without_queue = WindowedMax(CAPACITY_HORIZON_S)
        self._rates: deque[float] = deque(maxlen=in_a_row)
        self._without_queue: deque[float] = deque(maxlen=in_a_row)

    def fills(self, latest: float | None, is_empty: bool, passed_s: float) -> bool:
        rate = self._mean(latest)
        self._max.add(rate, passed_s)
        self._max_without_queue.add(_lasting(self._without_queue, rate if is_empty else None), passed_s)
        lasting = _lasting(self._rates, rate)
        if not lasting or self._max.value is None:
            return False
        minimum = max(FULL_RATIO * self._max.value, (self._max_without_queue.value or 0.0) / FULL_RATIO)
        return lasting >= minimum

    def _mean(self, latest: float | None) -> float | None:
        if latest is None:
            self._recent.clear()
            return None
        self._recent.append(latest)
        full = len(self._recent) == self._recent.maxlen
        return sum(self._recent) / len(self._recent) if full else None


def _lasting(rates: deque[float], rate: float | None) -> float | None:
    """Add a rate to the last ones; return their common minimum, if there are enough in a row."""
    if rate is None:
        rates.clear()
        return None
    rates.append(rate)
    return min(rates) if len(rates) == rates.maxlen else None
