"""Holds, fails or undecided: the verdict on a claim from the interval of a figure.

A claim holds if the whole interval is within its bounds, fails if the whole interval is outside, and is
undecided otherwise or without an interval. Goals of benchmarks and claims of papers are judged in this way.
"""

from __future__ import annotations

import math
from typing import Final, Literal

from experiments.statistics import Estimate, min_runs

Verdict = Literal["holds", "fails", "undecided"]

MAX_RUNS: Final = 100_000
"""Maximum reported number of runs; above, the bound is too close to the figure."""


def verdict(found: Estimate, at_least: float | None, at_most: float | None) -> Verdict:
    """Return the verdict on a claim.

    Args:
        found: The figure.
        at_least: Lower bound of the claim, inclusive; None for none.
        at_most: Upper bound, likewise.
    """
    minimum, maximum = _bounds(at_least, at_most)
    if minimum <= found.low and found.high <= maximum:
        return "holds"
    return "fails" if found.high < minimum or found.low > maximum else "undecided"


def runs_needed(found: Estimate, at_least: float | None, at_most: float | None) -> int | None:
    """Estimate the number of runs that would decide a claim; None if unknown, or if no number would.

    Without an interval, the estimate is the minimum number of runs for an interval. Otherwise the estimate
    assumes that the median stays the same, and that the interval narrows with the square root of the number
    of runs.
    """
    if math.isnan(found.value):
        return None
    if math.isnan(found.low):
        return max(min_runs(), found.n + 1)
    needed = found.n
    for bound in _bounds(at_least, at_most):
        if found.low <= bound <= found.high:
            away = abs(bound - found.value)
            side = found.high - found.value if bound > found.value else found.value - found.low
            if away * math.sqrt(MAX_RUNS) <= side * math.sqrt(found.n):
                return None
            needed = max(needed, math.ceil(found.n * (side / away) ** 2))
    return needed


def _bounds(at_least: float | None, at_most: float | None) -> tuple[float, float]:
    return -math.inf if at_least is None else at_least, math.inf if at_most is None else at_most
