"""Coverage of intervals from few repeats, simulated for known distributions of repeats.

The rule for claims is `statistics.median_interval`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from experiments.statistics import median_interval

Interval = tuple[float, float]
Draw = Callable[[np.random.Generator, int], np.ndarray]

_QUARTILE: Final = 0.6744897501960817
"""Quantile of the standard normal distribution."""


@dataclass(frozen=True)
class Shape:
    """A distribution of repeats, above 0.

    Attributes:
        draw: Draws a number of values.
        median: True median.
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
"""True ratio of the compared medians."""


def _ends(found: Any) -> Interval:
    return found.low, found.high


def _range(values: np.ndarray) -> Interval:
    return float(values.min()), float(values.max())


OF_ONE: Final[Mapping[str, Callable[[np.ndarray], Interval]]] = MappingProxyType(
    {
        "order statistics": lambda values: _ends(median_interval(values)),
        "least to greatest": _range,
    }
)
"""Intervals of a median."""


def of_one(method: str, shape: str, n: int, times: int, seed: int = 1) -> float:
    """Return the share of intervals of n repeats that cover the true median; NaN without intervals.

    Args:
        method: One of `OF_ONE`.
        shape: One of `SHAPES`.
        n: Repeats.
        times: Intervals.
        seed: Random seed.
    """
    rng, one = np.random.default_rng([seed, n]), SHAPES[shape]
    return _covered([OF_ONE[method](one.draw(rng, n)) for _ in range(times)], one.median)


def of_pairs(shape: str, n: int, times: int, seed: int = 1) -> float:
    """Return the share of intervals of a ratio of pairs that cover the true ratio, like `of_one`.

    Both sides of a pair share a random factor.
    """
    rng, one, found = np.random.default_rng([seed, n]), SHAPES[shape], []
    for _ in range(times):
        above, below = one.draw(rng, n) * QUOTIENT, one.draw(rng, n)
        common = np.exp(rng.normal(0, 1, n))
        found.append(_ends(median_interval((above * common) / (below * common))))
    return _covered(found, QUOTIENT)


def _covered(intervals: Sequence[Interval], true: float) -> float:
    known = [(low, high) for low, high in intervals if not math.isnan(low)]
    return sum(low <= true <= high for low, high in known) / len(known) if known else math.nan
