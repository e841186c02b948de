"""Rounds of benchmarks: what disturbs them, when they are enough, and what their intervals are worth."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from experiments.bench.disturbance import CLOCKS_APART_S, TAKEN_APART, TAKEN_MOST, Seen, Watch, disturbances
from experiments.bench.errors import BenchError
from experiments.bench.rounds import LEAST_ROUNDS, Plan, Rounds, measure_rounds, precise
from experiments.netlab import CpuSeconds
from experiments.statistics import median_interval

Draw = Callable[[np.random.Generator, int], np.ndarray]

SHAPES: dict[str, tuple[Draw, float]] = {
    "normal": (lambda rng, n: rng.normal(1, 0.1, n), 1.0),
    "skewed": (lambda rng, n: np.exp(rng.normal(0, 1, n)), 1.0),
    # Two thirds in a fast hour around 1, the others around 2: the median is the 3/4 quantile of the first.
    "bimodal": (
        lambda rng, n: np.where(rng.random(n) < 2 / 3, rng.normal(1, 0.01, n), rng.normal(2, 0.01, n)),
        1 + 0.01 * 0.6744898,
    ),
}


def seen(stolen: float = 0.0, foreign: float = 0.0, clocks_apart_s: float = 0.0) -> Seen:
    """Ten seconds of two processors, of which others had these shares."""
    return Seen(CpuSeconds(5.0, 10.0, stolen * 20), foreign * 20, clocks_apart_s, 2)


# --- intervals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [5, 10, 20])
def test_the_interval_covers_the_median_whatever_the_distribution(shape: str, n: int) -> None:
    draw, true = SHAPES[shape]
    rng = np.random.default_rng(n)
    intervals = [median_interval(draw(rng, n)) for _ in range(2000)]
    covered = np.mean([one.low <= true <= one.high for one in intervals])
    assert covered > 0.93 - 3 * np.sqrt(0.93 * 0.07 / 2000)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("precision", [0.02, 0.05, 0.2])
def test_to_stop_when_the_interval_is_narrow_leaves_it_honest(shape: str, precision: float) -> None:
    draw, true = SHAPES[shape]
    rng = np.random.default_rng(1)
    looks = Plan(LEAST_ROUNDS, 40).looks()
    covered = 0
    for _ in range(1000):
        values = draw(rng, looks[-1])
        n = next((n for n in looks if precise(values[:n].tolist(), precision)), looks[-1])
        found = median_interval(values[:n])
        covered += found.low <= true <= found.high
    assert covered / 1000 > 0.93 - 3 * np.sqrt(0.93 * 0.07 / 1000)
