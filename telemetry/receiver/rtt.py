"""Round-trip times of a window: order statistics and jitter. Pure: no clock, no I/O."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class RttSummary:
    """Statistics of the RTTs of a window [us].

    Attributes:
        min_us: Minimum.
        p50_us: Median.
        p95_us: 95th percentile.
        p99_us: 99th percentile.
        max_us: Maximum.
        jitter_us: Mean absolute difference of consecutive RTTs; None with a single RTT.
        samples: Number of RTTs.
    """

    min_us: int
    p50_us: int
    p95_us: int
    p99_us: int
    max_us: int
    jitter_us: int | None
    samples: int


class RttWindow:
    """RTTs by the time of their answers."""

    def __init__(self) -> None:
        self._rtts: deque[tuple[int, int]] = deque()

    def add(self, t_us: int, rtt_us: int) -> None:
        """Add an RTT [us] of an answer at `t_us` [us]; times must not decrease."""
        self._rtts.append((t_us, rtt_us))

    def close(self, after_us: int, until_us: int) -> RttSummary | None:
        """Return the statistics of the window (after_us, until_us], None without RTTs, and forget older RTTs.

        Args:
            after_us: Start of the window, exclusive [us].
            until_us: End of the window, inclusive [us].
        """
        while self._rtts and self._rtts[0][0] <= after_us:
            self._rtts.popleft()
        return summarise([rtt_us for t_us, rtt_us in self._rtts if t_us <= until_us])


def summarise(rtts_us: Sequence[int]) -> RttSummary | None:
    """Return the statistics of RTTs in order of time [us]; None for no RTTs.

    Percentiles are nearest-rank: the smallest RTT such that at least that share of RTTs does not exceed it.
    So each is a measured RTT, and with fewer than 100 samples the 99th percentile is the maximum.
    """
    if not rtts_us:
        return None
    ordered = sorted(rtts_us)
    steps = [abs(b - a) for a, b in pairwise(rtts_us)]
    return RttSummary(
        min_us=ordered[0],
        p50_us=percentile(ordered, 50),
        p95_us=percentile(ordered, 95),
        p99_us=percentile(ordered, 99),
        max_us=ordered[-1],
        jitter_us=round(sum(steps) / len(steps)) if steps else None,
        samples=len(ordered),
    )


def percentile(ordered: Sequence[int], percent: int) -> int:
    """Return the nearest-rank percentile of ascending values; there must be at least one."""
    return ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1]
