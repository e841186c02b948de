"""Which reductions were wrong, by telemetry that comes later: too few, or one too many.

A loss and what telemetry says of it come to the sender on different ways, and either may be first. A loss
that a summary tells of was lost in the summary's interval as the sink saw it; the data was sent a one-way
delay before, and the ACK that shows the loss comes a one-way delay later. So, with the smoothed RTT for both:

* Losses in an interval that began more than an RTT behind the last reduction are of data sent after it: if
  they are overflow, a reduction is due. Others belong to that reduction.
* A reduction for a loss was for one that the sink saw in the two RTTs before. If summaries of that time, up
  to one that ends behind the reduction, tell of wireless losses and of no overflow, it is taken back.

Times are CLOCK_MONOTONIC of this host. Those of a summary are its arrival less its age, so late by the least
time that messages take to come here, which is a millisecond or two.

Source: none. Deviation: none.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import Final

from ccp_algs.int_summary import OVERFLOW, WIRELESS

KEPT: Final = 256
"""Summaries that are kept: two RTTs of more than a second at the default interval of 10 ms."""


@dataclasses.dataclass(frozen=True)
class Reduction:
    """A reduction of the window.

    Attributes:
        number: Its number, from 1; 0: there was none.
        at_us: When [us].
        srtt_us: Smoothed RTT then [us].
    """

    number: int = 0
    at_us: int = 0
    srtt_us: int = 0


@dataclasses.dataclass(frozen=True)
class _Heard:
    start_us: int
    end_us: int
    verdict: int


class Hindsight:
    """Remembers what was heard and what was done."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._heard: deque[_Heard] = deque(maxlen=KEPT)
        self._last = Reduction()
        self._before = Reduction()
        self._doubtful = False

    def reduced(self, reduction: Reduction, *, doubtful: bool) -> None:
        """Note a reduction that was made.

        Args:
            reduction: The reduction.
            doubtful: It was for a loss and nothing else, and may have been wrong.
        """
        self._before, self._last, self._doubtful = self._last, reduction, doubtful

    def undone(self) -> None:
        """Note that the last reduction was undone, whoever found it wrong."""
        self._last, self._doubtful = self._before, False

    def heard(self, start_us: int, end_us: int, verdict: int) -> None:
        """Note a summary's interval [us], and what it says of losses."""
        self._heard.append(_Heard(start_us, end_us, verdict))

    def is_due(self, srtt_us: int) -> bool:
        """Return whether the last summary tells of congestion that no reduction has answered."""
        last = self._heard[-1]
        return last.verdict == OVERFLOW and (
            self._last.number == 0 or last.start_us - srtt_us > self._last.at_us
        )

    def excused(self) -> int:
        """Return the number of the last reduction if it turns out to be wrong, else 0; once for each."""
        if not self._doubtful or self._heard[-1].end_us < self._last.at_us:
            return 0
        at_us, srtt_us = self._last.at_us, self._last.srtt_us
        of_then = {
            one.verdict for one in self._heard if at_us - 2 * srtt_us < one.end_us and one.start_us < at_us
        }
        self._doubtful = self._heard[-1].start_us < at_us and not of_then & {WIRELESS, OVERFLOW}
        return self._last.number if WIRELESS in of_then and OVERFLOW not in of_then else 0
