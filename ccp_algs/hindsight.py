"""Find reductions that later telemetry shows to be missing or wrong.

A loss and the telemetry about it reach the sender on different paths, and either may arrive first. A loss in
a summary happened in the summary's interval, on the sink's clock; the data was sent a one-way delay earlier,
and the ACK that shows the loss arrives a one-way delay later. Therefore, with the smoothed RTT for both
delays:

* Losses in an interval that began more than an RTT after the last reduction concern data sent after that
  reduction. If a full queue caused these losses, a new reduction is due. Earlier losses belong to the last
  reduction.
* If a reduction answered a loss, the sink saw this loss in the two RTTs before the reduction. If the
  summaries of that time, up to one that ends after the reduction, show wireless losses and no overflow, the
  reduction is undone.

Times are CLOCK_MONOTONIC of this host. The time of a summary is the time of its arrival less its age. This
time is late by the minimum delivery time of messages, a millisecond or two.

Source: none. Deviation: none.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import Final

from ccp_algs.int_summary import OVERFLOW, WIRELESS

KEPT: Final = 256
"""Number of summaries kept: they cover two RTTs of more than a second at the default interval of 10 ms."""


@dataclasses.dataclass(frozen=True)
class Reduction:
    """A reduction of the window.

    Attributes:
        number: Its number, from 1; 0: none yet.
        at_us: Its time [us].
        srtt_us: Smoothed RTT at that time [us].
    """

    number: int = 0
    at_us: int = 0
    srtt_us: int = 0


@dataclasses.dataclass(frozen=True)
class _Received:
    start_us: int
    end_us: int
    verdict: int


class Hindsight:
    """Remembers the received summaries and the last reduction."""

    def __init__(self) -> None:
        """Start empty."""
        self._received: deque[_Received] = deque(maxlen=KEPT)
        self._last = Reduction()
        self._before = Reduction()
        self._doubtful = False

    def reduced(self, reduction: Reduction, *, doubtful: bool) -> None:
        """Record a reduction.

        Args:
            reduction: The reduction.
            doubtful: It was only for a loss, and may have been wrong.
        """
        self._before, self._last, self._doubtful = self._last, reduction, doubtful

    def undone(self) -> None:
        """Record that the last reduction was undone, by any mechanism."""
        self._last, self._doubtful = self._before, False

    def received(self, start_us: int, end_us: int, verdict: int) -> None:
        """Record a summary's interval [us] and its verdict on losses."""
        self._received.append(_Received(start_us, end_us, verdict))

    def is_due(self, srtt_us: int) -> bool:
        """Return whether the last summary shows congestion that no reduction has answered."""
        last = self._received[-1]
        return last.verdict == OVERFLOW and (
            self._last.number == 0 or last.start_us - srtt_us > self._last.at_us
        )

    def excused(self) -> int:
        """Return the number of the last reduction if it proves wrong, else 0; returns each number once."""
        if not self._doubtful or self._received[-1].end_us < self._last.at_us:
            return 0
        at_us, srtt_us = self._last.at_us, self._last.srtt_us
        of_then = {
            one.verdict for one in self._received if at_us - 2 * srtt_us < one.end_us and one.start_us < at_us
        }
        self._doubtful = self._received[-1].start_us < at_us and not of_then & {WIRELESS, OVERFLOW}
        return self._last.number if WIRELESS in of_then and OVERFLOW not in of_then else 0
