"""Whose queue is it? Whether what a peer sends by itself fills the path. Pure: no clock, no I/O.

Bytes in flight are arrival rate times RTT (Little's law), whoever else is on the path. So a queue that a
sender fills by itself differs from one that others fill by what arrives of it meanwhile:

* *Alone*, a queue stands only while the link is busy with this sender: all that the path can carry arrives,
  interval by interval.
* *With others*, they have a part of it: less arrives than when the sender had the path to itself, and now
  more, now less.

And if as much arrived while the queue was empty, a queue at this rate is not the sender's either.

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


class OwnLoad:
    """What a path carries of one peer."""

    def __init__(self, delta_ms: float) -> None:
        """Know nothing yet.

        Args:
            delta_ms: Delay above that of the empty path that is no congestion yet [ms].
        """
        self._delta_ms = delta_ms
        self._most = Greatest(CAPACITY_HORIZON_S)
        self._most_without_queue = Greatest(CAPACITY_HORIZON_S)
        self._rates: deque[float] = deque(maxlen=INTERVALS)
        self._without_queue: deque[float] = deque(maxlen=INTERVALS)

    def fills(
        self, rate_pkts_per_s: float | None, rtt_ms: float | None, empty_ms: float | None, passed_s: float
    ) -> bool:
        """Take an interval in, and return whether the peer's own packets filled the path in it.

        Args:
            rate_pkts_per_s: Packets with data that arrived [packets/s]; None: nobody counted.
            rtt_ms: Median RTT [ms]; None: not measured.
            empty_ms: RTT of the empty path [ms]; None: not known yet.
            passed_s: Time since the interval before [s].
        """
        rate = rate_pkts_per_s
        is_empty = (
            rtt_ms is not None
            and empty_ms is not None
            and rtt_ms - empty_ms <= EMPTY_RATIO * min(empty_ms, self._delta_ms)
        )
        self._most.add(rate, passed_s)
        self._most_without_queue.add(_lasting(self._without_queue, rate if is_empty else None), passed_s)
        lasting = _lasting(self._rates, rate)
        if not lasting or self._most.value is None:
            return False
        least = max(FULL_RATIO * self._most.value, (self._most_without_queue.value or 0.0) / FULL_RATIO)
        return lasting >= least


def _lasting(rates: deque[float], rate: float | None) -> float | None:
    """Add a rate to the last ones; return what all of them had, if there are enough in a row."""
    if rate is None:
        rates.clear()
        return None
    rates.append(rate)
    return min(rates) if len(rates) == rates.maxlen else None
