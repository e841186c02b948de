"""Estimates from repeats of an experiment, with confidence intervals."""

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
"""Default level of intervals."""


@dataclass(frozen=True)
class Estimate:
    """A value with its confidence interval.

    Attributes:
        value: The median; NaN without a known value.
        low: Lower end of the interval; NaN with too few known values.
        high: Upper end, likewise.
        n: Number of known values; missing ones (NaN) do not count.
    """

    value: float
    low: float
    high: float
    n: int


def min_runs(level: float = LEVEL) -> int:
    """Return the minimum number of values for an interval of the median: 6 for 95 %, 8 for 99 %."""
    return 1 + math.ceil(-math.log2(1 - level))


def median_interval(values: ArrayLike, *, level: float = LEVEL) -> Estimate:
    """Estimate a median from few repeats, with an interval that assumes nothing about their distribution.

    Args:
        values: One value for each repeat; NaN is left out.
        level: Confidence level, between 0 and 1.

    Returns:
        The estimate. The ends of the interval are values themselves, equally far from the minimum and the
        maximum in rank, and as close together as the level allows. With fewer values than `min_runs` there
        is no interval: the range of five values covers 93.75 %, and methods that promise 95 % from five
        values assume a distribution (docs/verdicts.md shows how often such intervals are right).

        The interval covers the median of the values' distribution, if the repeats are independent and
        identically distributed. It does not cover the mean, nor other hours or machines.

    Raises:
        MetricError: `metric.bad_value`, if a value is infinite, or the level is invalid.

    Source: inversion of the sign test, W. R. Thompson 1936: the number of values below the median is
    binomial.
    """
    if not 0 < level < 1:
        raise MetricError("metric.bad_value", "the level must be between 0 and 1", f"level={level}")
    known = np.sort(_known(values))
    n = known.size
    if n < min_runs(level):
        return Estimate(float(np.median(known)) if n else NAN, NAN, NAN, n)
    cut, outside = 0, 0.5**n  # the probability that at most `cut` values are below the median
    while 2 * (more := outside + math.comb(n, cut + 1) * 0.5**n) <= 1 - level:
        cut, outside = cut + 1, more
    return Estimate(float(np.median(known)), float(known[cut]), float(known[n - 1 - cut]), n)


def share_interval(hits: int, n: int, *, level: float = LEVEL) -> Estimate:
    """Estimate a probability from a number of hits, with the exact interval.

    Args:
        hits: Number of hits.
        n: Number of trials; 0 gives no estimate.
        level: Confidence level.

    Returns:
        The estimate; its value is `hits / n`.

    Source: Clopper and Pearson, Biometrika 26(4), 1934.
    """
    if not n:
        return Estimate(NAN, NAN, NAN, 0)
    outside = (1 - level) / 2
    return Estimate(hits / n, _min(hits, n, outside), 1 - _min(n - hits, n, outside), n)


def _min(hits: int, n: int, outside: float) -> float:
    """Return the share at which `hits` or more of `n` have the probability `outside`."""
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
    """Return the probability of `hits` or more of `n`, each with probability `share`, inside (0, 1)."""
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
    known = np.asarray(values, dtype=np.float64).ravel()
    known = known[~np.isnan(known)]
    if np.isinf(known).any():
        raise MetricError("metric.bad_value", "infinite values have no interval", f"values {known.tolist()}")
    return known


def over_repeats(table: pd.DataFrame, value: str, by: Sequence[str], *, level: float = LEVEL) -> pd.DataFrame:
    """Estimate the median of a column over all rows that agree in other columns.

    Args:
        table: A row for each repeat, such as `ResultSet.table()`.
        value: The column to estimate.
        by: The columns that distinguish experiments, at least one.
        level: Confidence level.

    Returns:
        A row for each combination, in order of appearance: the columns of `by`, then `value`, `low`, `high`
        and `n`, as in `Estimate`.

    Raises:
        MetricError: `metric.no_column`, or as in `median_interval`.
    """
    need(table, value, *by)
    rows = []
    for key, group in table.groupby(list(by), sort=False, dropna=False):
        estimate = median_interval(group[value].to_numpy(dtype=np.float64, na_value=NAN), level=level)
        rows.append({**dict(zip(by, key, strict=True)), **vars(estimate)})
    return pd.DataFrame(rows, columns=[*by, "value", "low", "high", "n"])
