"""Holds, fails or undecided: what the interval of a figure says of a claim about it.

A claim holds if the whole interval is within its bounds, fails if all of it is beyond one of them, and is
undecided otherwise, also without an interval. Benchmarks' goals and papers' claims are judged by it.
"""

from __future__ import annotations

import math
from typing import Final, Literal

from experiments.statistics import Estimate, least_runs

Verdict = Literal["holds", "fails", "undecided"]

MOST_RUNS: Final = 100_000
"""More runs than that are not worth a number: the bound is where the figure is."""


def verdict(found: Estimate, at_least: float | None, at_most: float | None) -> Verdict:
    """Return what an interval says of a claim.

    Args:
        found: The figure.
        at_least: Lower bound of the claim, itself within; None: there is none.
        at_most: Upper bound, likewise.
    """
    least, most = _bounds(at_least, at_most)
    if least <= found.low and found.high <= most:
        return "holds"
    return "fails" if found.high < least or found.low > most else "undecided"


def runs_needed(found: Estimate, at_least: float | None, at_most: float | None) -> int | None:
    """Return about how many runs would decide what is undecided; None if none would, or the value is unknown.

    Without an interval it is how many give one. Else the median is taken to stay, and the interval to become
    narrower with the root of the number of runs.
    """
    if math.isnan(found.value):
        return None
    if math.isnan(found.low):
        return max(least_runs(), found.n + 1)
    needed = found.n
    for bound in _bounds(at_least, at_most):
        if found.low <= bound <= found.high:
            away = abs(bound - found.value)
            side = found.high - found.value if bound > found.value else found.value - found.low
            if away * math.sqrt(MOST_RUNS) <= side * math.sqrt(found.n):
                return None
            needed = max(needed, math.ceil(found.n * (side / away) ** 2))
    return needed


def _bounds(at_least: float | None, at_most: float | None) -> tuple[float, float]:
    return -math.inf if at_least is None else at_least, math.inf if at_most is None else at_most
