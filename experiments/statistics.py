"""What repeats of an experiment tell: an estimate, and how far it can be trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from experiments.metrics import NAN, MetricError, need

LEVEL: Final = 0.95
"""Of intervals, if nothing else is said."""


@dataclass(frozen=True)
class Estimate:
    """A value with its confidence interval.

    Attributes:
        value: The median; NaN without a single known value.
        low: Lower end of the interval; NaN with too few known values.
        high: Upper end, likewise.
        n: How many values are behind it; missing ones (NaN) are not counted.
    """

    value: float
    low: float
    high: float
    n: int


def least_runs(level: float = LEVEL) -> int:
    """Return with how many values a median has an interval of a level: 6 with 95 %, 8 with 99 %."""
    return 1 + math.ceil(-math.log2(1 - level))


def median_interval(values: ArrayLike, *, level: float = LEVEL) -> Estimate:
    """Estimate a median from few repeats, with an interval that needs no assumption about their distribution.

    Args:
        values: One value for each repeat; NaN is left out.
        level: Confidence level, between 0 and 1.

    Returns:
        The estimate. The ends are values themselves: those nearest to each other, at equal distance from the
        least and the greatest, between which the median lies with the level. There is no interval with
        fewer values than `least_runs`: all of five values have 93.75 %, and what promises 95 % of five
        assumes a distribution (docs/verdicts.md has how often such intervals are right).

        It covers the median of the values' distribution, which must be the same for all repeats, and these
        independent. It says nothing about the mean, and nothing about other hours or machines.

    Raises:
        MetricError: `metric.bad_value`, if a value is infinite, or the level cannot be.

    Source: the sign test turned round, W. R. Thompson 1936: how many values are below the median is binomial.
    """
    if not 0 < level < 1:
        raise MetricError("metric.bad_value", "the level is between 0 and 1", f"level={level}")
    known = np.sort(_known(values))
    n = known.size
    if n < least_runs(level):
        return Estimate(float(np.median(known)) if n else NAN, NAN, NAN, n)
    cut, outside = 0, 0.5**n  # the probability that at most `cut` values are below the median
    while 2 * (more := outside + math.comb(n, cut + 1) * 0.5**n) <= 1 - level:
        cut, outside = cut + 1, more
    return Estimate(float(np.median(known)), float(known[cut]), float(known[n - 1 - cut]), n)


def share_interval(hits: int, n: int, *, level: float = LEVEL) -> Estimate:
    """Estimate a share from how often something was so, with the exact interval.

    Args:
        hits: How often it was.
        n: Of how many; with none, nothing is known.
        level: Confidence level.

    Returns:
        The estimate; its value is `hits / n`.

    Source: Clopper and Pearson, Biometrika 26(4), 1934.
    """
    if not n:
        return Estimate(NAN, NAN, NAN, 0)
    outside = (1 - level) / 2
    return Estimate(hits / n, _least(hits, n, outside), 1 - _least(n - hits, n, outside), n)


def _least(hits: int, n: int, outside: float) -> float:
    """Return the share with which so many hits or more are as likely as `outside`."""
    if hits == 0:
        return 0.0
    if hits == n:
        return float(outside ** (1 / n))
    below, above = 0.0, 1.0
    while below < (middle := (below + above) / 2) < above:
        if _at_least(hits, n, middle) < outside:
            below = middle
        else:
            above = middle
    return middle


def _at_least(hits: int, n: int, share: float) -> float:
    """Return how likely so many hits or more are, of n, where each is as likely as `share`, inside (0, 1)."""
    logs = (
        math.lgamma(n + 1)
        - math.lgamma(k + 1)
        - math.lgamma(n - k + 1)
        + k * math.log(share)
        + (n - k) * math.log1p(-share)
        for k in range(hits, n + 1)
    )
    return math.fsum(map(math.exp, logs))


def _known(values: ArrayLike) -> np.ndarray:
    """Return the values that are known."""
    known = np.asarray(values, dtype=np.float64).ravel()
    known = known[~np.isnan(known)]
    if np.isinf(known).any():
        raise MetricError("metric.bad_value", "infinity has no interval", f"values {known.tolist()}")
    return known


def over_repeats(table: pd.DataFrame, value: str, by: Sequence[str], *, level: float = LEVEL) -> pd.DataFrame:
    """Estimate a column's median over all rows that agree in others.

    Args:
        table: A row for each repeat, such as `ResultSet.table()`.
        value: The column to estimate.
        by: The columns that tell experiments apart, at least one.
        level: Confidence level.

    Returns:
        A row for each combination, in order of appearance: the columns of `by`, then `value`, `low`, `high`
        and `n`, as of `Estimate`.

    Raises:
        MetricError: `metric.no_column`, or as `median_interval`.
    """
    need(table, value, *by)
    rows = []
    for key, group in table.groupby(list(by), sort=False, dropna=False):
        estimate = median_interval(group[value].to_numpy(dtype=np.float64, na_value=NAN), level=level)
        rows.append({**dict(zip(by, key, strict=True)), **vars(estimate)})
    return pd.DataFrame(rows, columns=[*by, "value", "low", "high", "n"])
