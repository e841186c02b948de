"""Whose queue is it? Whether what a peer sends by itself fills the path. Pure: no clock, no I/O.

Bytes in flight are arrival rate times RTT (Little's law), whoever else is on the path. So a queue that a
sender fills by itself differs from one that others fill by what arrives of it meanwhile:

* *Alone*, a queue stands only while the link is busy with this sender: all that the path can carry arrives,
  interval by interval.
* *With others*, they have a part of it: less arrives than when the sender had the path to itself, and now
  more, now less.

And if as much arrived while the queue was empty, a queue at this rate is not the sender's either.

What arrives is counted twice, as each count is wrong in a way of its own, and either may show that the path
is full: *packets*, in whatever order, but several as one where a host's network card or hypervisor hands them
over together; and *bytes* in order, which a loss holds back until it is repaired, to count them all at once.
So bytes are means of some intervals.

Limits: others who take the same part of a path all the time, from the first interval on, look like a slower
path. A sender's bursts within an interval look like others', since their rate is not that of the interval.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from telemetry.regime.greatest import Greatest

CAPACITY_HORIZON_S: Final = 600.0
"""How long the greatest rate stands for what a path can carry, if that becomes less [s]."""
FULL_RATIO: Final = 0.95
"""Of what the path can carry, so much is all of it: an interval's edges cut off packets."""
EMPTY_RATIO: Final = 0.1
"""A queue is empty up to this part of the empty path's RTT, or of delta, whichever is less."""
INTERVALS: Final = 5
"""So many intervals in a row make a rate that lasts; the detector's window has as many (N of section 4.3)."""
MEANS: Final = 10
"""The same of means of `INTERVALS` intervals."""


class OwnLoad:
    """What a path carries of one peer."""

    def __init__(self, delta_ms: float) -> None:
        """Know nothing yet.

        Args:
            delta_ms: Delay above that of the empty path that is no congestion yet [ms].
        """
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
        """Take an interval in, and return whether the peer's own packets filled the path in it.

        Args:
            rate_pkts_per_s: Packets with data that arrived [packets/s]; None: nobody counted.
            rate_bytes_per_s: Data that arrived in order [bytes/s]; None, likewise.
            rtt_ms: Median RTT [ms]; None: not measured.
            empty_ms: RTT of the empty path [ms]; None: not known yet.
            passed_s: Time since the interval before [s].
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
    """One count of what a path carries of one peer."""

    def __init__(self, mean_of: int, in_a_row: int) -> None:
        self._recent: deque[float] = deque(maxlen=mean_of)
        self._most = Greatest(CAPACITY_HORIZON_S)
        self._most_without_queue = Greatest(CAPACITY_HORIZON_S)
        self._rates: deque[float] = deque(maxlen=in_a_row)
        self._without_queue: deque[float] = deque(maxlen=in_a_row)

    def fills(self, latest: float | None, is_empty: bool, passed_s: float) -> bool:
        """Take an interval in, and return whether the path was full in it."""
        rate = self._mean(latest)
        self._most.add(rate, passed_s)
        self._most_without_queue.add(_lasting(self._without_queue, rate if is_empty else None), passed_s)
        lasting = _lasting(self._rates, rate)
        if not lasting or self._most.value is None:
            return False
        least = max(FULL_RATIO * self._most.value, (self._most_without_queue.value or 0.0) / FULL_RATIO)
        return lasting >= least

    def _mean(self, latest: float | None) -> float | None:
        if latest is None:
            self._recent.clear()
            return None
        self._recent.append(latest)
        full = len(self._recent) == self._recent.maxlen
        return sum(self._recent) / len(self._recent) if full else None


def _lasting(rates: deque[float], rate: float | None) -> float | None:
    """Add a rate to the last ones; return what all of them had, if there are enough in a row."""
    if rate is None:
        rates.clear()
        return None
    rates.append(rate)
    return min(rates) if len(rates) == rates.maxlen else None
