"""How often intervals of few repeats are right: simulated, for repeats whose distribution is known.

The rule for claims (`statistics.median_interval`, `statistics.quotient_interval`) beside what else is usual.
docs/verdicts.md shows what came out; `python -m scripts.coverage_table --measure` does it again.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from experiments.statistics import LEVEL, median_interval, quotient_interval

Interval = tuple[float, float]
Draw = Callable[[np.random.Generator, int], np.ndarray]

_QUARTILE: Final = 0.6744897501960817
"""Of the standard normal distribution."""


@dataclass(frozen=True)
class Shape:
    """A distribution of repeats, above 0.

    Attributes:
        draw: Draws so many values.
        median: Its true one.
    """

    draw: Draw
    median: float


SHAPES: Final[Mapping[str, Shape]] = MappingProxyType(
    {
        "normal": Shape(lambda rng, n: rng.normal(1, 0.1, n), 1.0),
        "lognormal": Shape(lambda rng, n: np.exp(rng.normal(0, 1, n)), 1.0),
        "exponential": Shape(lambda rng, n: rng.exponential(1, n), math.log(2)),
        # Two thirds near 1, the others near 2: the median is the upper quartile of the first.
        "bimodal": Shape(
            lambda rng, n: np.where(rng.random(n) < 2 / 3, rng.normal(1, 0.05, n), rng.normal(2, 0.05, n)),
            1 + 0.05 * _QUARTILE,
        ),
    }
)

QUOTIENT: Final = 2.0
"""True quotient of the medians of what is compared."""


def _ends(found: Any) -> Interval:
    return found.low, found.high


_RESAMPLES: Final = 9_999


def _range(values: np.ndarray) -> Interval:
    return float(values.min()), float(values.max())


def _t_on_logs(values: np.ndarray) -> Interval:
    from scipy import stats

    logs = np.log(values)
    half = stats.t.ppf((1 + LEVEL) / 2, len(logs) - 1) * logs.std(ddof=1) / math.sqrt(len(logs))
    return math.exp(logs.mean() - half), math.exp(logs.mean() + half)


def _rank_sum_on_logs(above: np.ndarray, below: np.ndarray) -> Interval:
    """Hodges and Lehmann's interval of a shift, by the normal approximation of the rank sum."""
    from scipy import stats

    shifts = np.sort(np.subtract.outer(np.log(above), np.log(below)).ravel())
    m, n = len(above), len(below)
    spread = math.sqrt(m * n * (m + n + 1) / 12)
    cut = max(0, math.floor(m * n / 2 - stats.norm.ppf((1 + LEVEL) / 2) * spread))
    return math.exp(shifts[cut]), math.exp(shifts[-1 - cut])


def _bca(values: np.ndarray) -> Interval:
    """Bias-corrected and accelerated bootstrap (Efron 1987), percentiles where that has no acceleration."""
    from scipy import stats

    found = []
    for method in ("BCa", "percentile"):
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            found = list(
                stats.bootstrap(
                    (values,),
                    np.median,
                    n_resamples=_RESAMPLES,
                    confidence_level=LEVEL,
                    method=method,
                    rng=np.random.default_rng(0),
                    vectorized=True,
                ).confidence_interval
            )
        if np.isfinite(found).all():
            break
    return float(found[0]), float(found[1])


def _percentile(above: np.ndarray, below: np.ndarray) -> Interval:
    """Percentiles of quotients: both sides are resampled by themselves."""
    rng = np.random.default_rng(0)
    top, bottom = (np.median(rng.choice(side, (_RESAMPLES, side.size)), axis=1) for side in (above, below))
    low, high = np.quantile(top / bottom, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


OF_ONE: Final[Mapping[str, Callable[[np.ndarray], Interval]]] = MappingProxyType(
    {
        "order statistics": lambda values: _ends(median_interval(values)),
        "least to greatest": _range,
        "t on logarithms": _t_on_logs,
        "bootstrap (BCa)": _bca,
    }
)
"""Intervals of a median."""

OF_TWO: Final[Mapping[str, Callable[[np.ndarray, np.ndarray], Interval]]] = MappingProxyType(
    {
        "order statistics of both": lambda above, below: _ends(quotient_interval(above, below)),
        "order statistics of pairs": lambda above, below: _ends(median_interval(above / below)),
        "rank sum on logarithms": _rank_sum_on_logs,
        "bootstrap (percentile)": _percentile,
    }
)
"""Intervals of a quotient."""

APART: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {**{name: (name, name) for name in SHAPES}, "normal by exponential": ("normal", "exponential")}
)
"""What is divided by what."""


def of_one(method: str, shape: str, n: int, times: int, seed: int = 1) -> float:
    """Return which part of the intervals of so many repeats cover the true median; NaN if there is none.

    Args:
        method: Of `OF_ONE`.
        shape: Of `SHAPES`.
        n: Repeats.
        times: Intervals.
        seed: Of the repeats.
    """
    rng, one = np.random.default_rng([seed, n]), SHAPES[shape]
    return _covered([OF_ONE[method](one.draw(rng, n)) for _ in range(times)], one.median)


def of_two(method: str, shapes: str, n: int, times: int, seed: int = 1) -> float:
    """Return which part of the intervals cover the true quotient, as `of_one`; repeats of both sides as many.

    Args:
        method: Of `OF_TWO`. For that of pairs both sides of a pair have a random factor in common.
        shapes: Of `APART`.
        n: Repeats.
        times: Intervals.
        seed: Of the repeats.
    """
    rng, (top, bottom) = np.random.default_rng([seed, n]), (SHAPES[name] for name in APART[shapes])
    found = []
    for _ in range(times):
        above, below = top.draw(rng, n) * QUOTIENT / top.median, bottom.draw(rng, n) / bottom.median
        common = np.exp(rng.normal(0, 1, n)) if method.endswith("pairs") else np.ones(n)
        found.append(OF_TWO[method](above * common, below * common))
    return _covered(found, QUOTIENT)


def _covered(intervals: Sequence[Interval], true: float) -> float:
    known = [(low, high) for low, high in intervals if not math.isnan(low)]
    return sum(low <= true <= high for low, high in known) / len(known) if known else math.nan
