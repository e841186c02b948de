"""Does a series grow? Verdicts on quantities that should be constant, from noisy samples.

A replaced process starts a new series at another level, so samples are compared only within the lifetime of a
process, and the results of all lifetimes are combined (the seasonal Kendall test with lifetimes as seasons;
Hirsch, Slack and Smith 1982). The slope is the median of all slopes within lifetimes (Sen 1968), with
Gilbert's interval (1987, section 16.4.2). The first samples of each process are left out, because its
allocators and caches are still filling.

The claim is that a series grows by less than a limit. The claim holds if the whole interval of the slope is
below the limit, fails if the whole interval is above, and is undecided otherwise.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from statistics import NormalDist, median
from typing import Final, Literal

Verdict = Literal["holds", "undecided", "fails"]

LEVEL: Final = 0.99
"""Confidence level of intervals; high, because twenty series are judged at the same time."""

WARM_UP: Final = 8
"""Samples to leave out after each start of a process, because a round takes half a minute, and allocators and
caches fill for up to four minutes.
"""

_HOUR_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Point:
    """A sample of a series.

    Attributes:
        at_s: Time since the start of the run [s].
        life: Identifies the process; samples of different processes are not compared.
        value: Measured value, in the series' unit.
    """

    at_s: float
    life: str
    value: float


@dataclass(frozen=True, slots=True)
class Trend:
    """The growth of a series.

    Attributes:
        verdict: Whether it grows by less than the limit.
        per_hour: Slope, in its unit per hour; NaN without a pair of samples.
        low: Lower end of the interval; -inf with too few samples.
        high: Upper end; inf with too few samples.
        limit: Maximum growth, in its unit per hour.
        level: Median of the samples.
        n: Number of compared samples.
    """

    verdict: Verdict
    per_hour: float
    low: float
    high: float
    limit: float
    level: float
    n: int


def judge(points: Sequence[Point], limit_per_hour: float, *, warm_up: int = WARM_UP) -> Trend:
    """Judge whether a series grows by less than a limit.

    Args:
        points: Its samples.
        limit_per_hour: Maximum growth, in its unit per hour.
        warm_up: Number of samples to leave out after each start of a process.
    """
    ordered = sorted(points, key=lambda point: (point.life, point.at_s))
    lives = [list(life) for _, life in groupby(ordered, key=lambda point: point.life)]
    kept = [life[warm_up:] for life in lives if len(life) > warm_up]
    values = [point.value for life in kept for point in life]
    slopes = sorted(slope for life in kept for slope in _slopes(life))
    level = median(values) if values else math.nan
    if not slopes:
        return Trend("undecided", math.nan, -math.inf, math.inf, limit_per_hour, level, len(values))
    low, high = _interval(slopes, sum(_variance([point.value for point in life]) for life in kept))
    verdict: Verdict = "undecided"
    if high < limit_per_hour:
        verdict = "holds"
    elif low > limit_per_hour:
        verdict = "fails"
    return Trend(verdict, median(slopes), low, high, limit_per_hour, level, len(values))


def _slopes(life: Sequence[Point]) -> list[float]:
    return [
        _HOUR_S * (later.value - earlier.value) / (later.at_s - earlier.at_s)
        for earlier, later in combinations(life, 2)
        if later.at_s > earlier.at_s
    ]


def _variance(values: Sequence[float]) -> float:
    """Return the variance of Kendall's S of one process's samples, corrected for ties."""
    n = len(values)
    tied = sum(t * (t - 1) * (2 * t + 5) for t in Counter(values).values())
    return (n * (n - 1) * (2 * n + 5) - tied) / 18


def _interval(slopes: Sequence[float], variance: float) -> tuple[float, float]:
    if variance == 0:  # constant so far
        return (slopes[0], slopes[-1]) if len(slopes) >= _enough() else (-math.inf, math.inf)
    wide = NormalDist().inv_cdf((1 + LEVEL) / 2) * math.sqrt(variance)
    below, above = math.floor((len(slopes) - wide) / 2) - 1, math.ceil((len(slopes) + wide) / 2)
    low = slopes[below] if below >= 0 else -math.inf
    high = slopes[above] if above < len(slopes) else math.inf
    return low, high


def _enough() -> int:
    """Return the minimum number of pairs for a verdict on constant values: those of five samples."""
    return math.comb(5, 2)
