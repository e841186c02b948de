"""What repeats of an experiment tell: an estimate, and how far it can be trusted."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from experiments.metrics import NAN, MetricError, need

Statistic = Literal["mean", "median"]

LEVEL: Final = 0.95
"""Of intervals, if nothing else is said."""

_STATISTICS: Final[dict[str, Callable[..., Any]]] = {"mean": np.mean, "median": np.median}
_RESAMPLES: Final = 9_999


@dataclass(frozen=True)
class Estimate:
    """A value with its confidence interval.

    Attributes:
        value: Mean or median; NaN without a single known value.
        low: Lower end of the interval; NaN with too few known values.
        high: Upper end, likewise.
        n: How many values are behind it; missing ones (NaN) are not counted.
    """

    value: float
    low: float
    high: float
    n: int


def bootstrap(
    values: ArrayLike, statistic: Statistic = "mean", *, level: float = 0.95, seed: int = 0
) -> Estimate:
    """Estimate a mean or median from repeats, with a bootstrap confidence interval.

    Args:
        values: One value for each repeat; NaN is a repeat that has none, and is left out.
        statistic: "mean" or "median".
        level: Confidence level, between 0 and 1.
        seed: Of the resampling: the same values give the same interval.

    Returns:
        The estimate, in the unit of the values. Equal values have an interval of no width: what was never
        seen to vary cannot be resampled. With fewer than about ten repeats the interval is too narrow rather
        than too wide, as all bootstraps are.

    Raises:
        MetricError: `metric.bad_value`, if a value is infinite, or level or statistic cannot be.

    Source: bias-corrected and accelerated bootstrap, Efron 1987, as `scipy.stats.bootstrap` has it; the
    percentile method where acceleration is not defined, as for some medians.
    """
    compute, known = _compute(statistic, level), _known(values)
    if known.size == 0:
        return Estimate(NAN, NAN, NAN, 0)
    value = float(compute(known))
    if known.size == 1:
        return Estimate(value, NAN, NAN, 1)
    if np.ptp(known) == 0:
        return Estimate(value, value, value, known.size)
    low, high = _interval(known, compute, level, seed)
    return Estimate(value, low, high, known.size)


def bootstrap_quotient(
    above: ArrayLike, below: ArrayLike, statistic: Statistic = "median", *, level: float = 0.95, seed: int = 0
) -> Estimate:
    """Estimate the quotient of two means or medians, with a bootstrap confidence interval.

    Args:
        above: One value for each repeat; NaN is left out.
        below: The same for what it is divided by; repeats need not correspond, nor be as many.
        statistic: "mean" or "median".
        level: Confidence level, between 0 and 1.
        seed: Of the resampling.

    Returns:
        The estimate; `n` is that of the smaller side. NaN where a side has no value, or the lower one is 0.
        The interval is the percentile one: both sides are resampled by themselves.

    Raises:
        MetricError: `metric.bad_value`, as `bootstrap`.
    """
    compute, sides = _compute(statistic, level), [_known(above), _known(below)]
    n = min(known.size for known in sides)
    if n == 0 or compute(sides[1]) == 0:
        return Estimate(NAN, NAN, NAN, n)
    value = float(compute(sides[0]) / compute(sides[1]))
    if n < 2:
        return Estimate(value, NAN, NAN, n)
    rng = np.random.default_rng(seed)
    top, bottom = (compute(rng.choice(known, (_RESAMPLES, known.size)), axis=1) for known in sides)
    quotients = top[bottom != 0] / bottom[bottom != 0]
    low, high = np.quantile(quotients, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(value, float(low), float(high), n)


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
    _compute("median", level)
    known = np.sort(_known(values))
    n = known.size
    if n < least_runs(level):
        return Estimate(float(np.median(known)) if n else NAN, NAN, NAN, n)
    cut, outside = 0, 0.5**n  # the probability that at most `cut` values are below the median
    while 2 * (more := outside + math.comb(n, cut + 1) * 0.5**n) <= 1 - level:
        cut, outside = cut + 1, more
    return Estimate(float(np.median(known)), float(known[cut]), float(known[n - 1 - cut]), n)


def quotient_interval(above: ArrayLike, below: ArrayLike, *, level: float = LEVEL) -> Estimate:
    """Estimate the quotient of two medians of repeats that do not correspond, without assumptions as above.

    Where repeats correspond, the interval of their quotients is narrower: `median_interval`.

    Args:
        above: One value for each repeat, none negative; NaN is left out.
        below: The same for what it is divided by; they need not be as many.
        level: Confidence level, between 0 and 1.

    Returns:
        The estimate; `n` is that of the smaller side. Its ends are quotients of the ends of both medians'
        intervals, each of which is wrong half as often as the level allows, so that both hold together.
        There is no interval if a side has too few values for that (7 for 95 %), nor one below that has 0.

    Raises:
        MetricError: `metric.bad_value`, as `median_interval`.
    """
    top, bottom = (median_interval(side, level=(1 + level) / 2) for side in (above, below))
    n = min(top.n, bottom.n)
    if not n or bottom.value == 0:
        return Estimate(NAN, NAN, NAN, n)
    if not bottom.low > 0:
        return Estimate(top.value / bottom.value, NAN, NAN, n)
    return Estimate(top.value / bottom.value, top.low / bottom.high, top.high / bottom.low, n)


def _compute(statistic: Statistic, level: float) -> Callable[..., Any]:
    """Return what computes a statistic; refuse one that is none, and a level that cannot be."""
    if not 0 < level < 1 or statistic not in _STATISTICS:
        raise MetricError(
            "metric.bad_value",
            "the level is between 0 and 1, the statistic mean or median",
            f"level={level}, statistic={statistic!r}",
        )
    return _STATISTICS[statistic]


def _known(values: ArrayLike) -> np.ndarray:
    """Return the values that are known."""
    known = np.asarray(values, dtype=np.float64).ravel()
    known = known[~np.isnan(known)]
    if np.isinf(known).any():
        raise MetricError("metric.bad_value", "infinity has no mean", f"values {known.tolist()}")
    return known


def _interval(known: np.ndarray, compute: Callable[..., Any], level: float, seed: int) -> tuple[float, float]:
    from scipy import stats  # takes a second to import

    def interval(method: str) -> tuple[float, float]:
        # Where acceleration is 0/0 the ends are NaN, which says it better than a warning.
        with (
            np.errstate(all="ignore"),
            warnings.catch_warnings(action="ignore", category=stats.DegenerateDataWarning),
        ):
            found = stats.bootstrap(
                (known,),
                compute,
                n_resamples=_RESAMPLES,
                confidence_level=level,
                method=method,
                rng=np.random.default_rng(seed),
                vectorized=True,
            ).confidence_interval
        return float(found.low), float(found.high)

    low, high = interval("BCa")
    return (low, high) if np.isfinite([low, high]).all() else interval("percentile")


def over_repeats(
    table: pd.DataFrame,
    value: str,
    by: Sequence[str],
    statistic: Statistic = "mean",
    *,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Estimate a column over all rows that agree in others.

    Args:
        table: A row for each repeat, such as `ResultSet.table()`.
        value: The column to estimate.
        by: The columns that tell experiments apart, at least one.
        statistic: "mean" or "median".
        level: Confidence level.
        seed: Of the resampling.

    Returns:
        A row for each combination, in order of appearance: the columns of `by`, then `value`, `low`, `high`
        and `n`, as of `Estimate`.

    Raises:
        MetricError: `metric.no_column`, or as `bootstrap`.
    """
    need(table, value, *by)
    rows = []
    for key, group in table.groupby(list(by), sort=False, dropna=False):
        estimate = bootstrap(
            group[value].to_numpy(dtype=np.float64, na_value=NAN), statistic, level=level, seed=seed
        )
        rows.append(
            {
                **dict(zip(by, key, strict=True)),
                "value": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "n": estimate.n,
            }
        )
    return pd.DataFrame(rows, columns=[*by, "value", "low", "high", "n"])
