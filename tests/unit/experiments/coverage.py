"""How often intervals of few repeats are right: simulated, for repeats whose distribution is known.

The rule for claims is `statistics.median_interval` and `statistics.quotient_interval`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from experiments.statistics import median_interval, quotient_interval

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


def _range(values: np.ndarray) -> Interval:
    return float(values.min()), float(values.max())


OF_ONE: Final[Mapping[str, Callable[[np.ndarray], Interval]]] = MappingProxyType(
    {
        "order statistics": lambda values: _ends(median_interval(values)),
        "least to greatest": _range,
    }
)
"""Intervals of a median."""

OF_TWO: Final[Mapping[str, Callable[[np.ndarray, np.ndarray], Interval]]] = MappingProxyType(
    {
        "order statistics of both": lambda above, below: _ends(quotient_interval(above, below)),
        "order statistics of pairs": lambda above, below: _ends(median_interval(above / below)),
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
