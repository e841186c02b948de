from __future__ import annotations

import math

import pytest

from experiments.metrics import NAN
from experiments.statistics import Estimate, median_interval, min_runs
from experiments.verdicts import MAX_RUNS, runs_needed, verdict
from tests.unit.experiments.coverage import SHAPES, of_one, of_pairs

TIMES = 1000
SLACK = 3 * math.sqrt(0.95 * 0.05 / TIMES)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [6, 10, 20])
def test_the_median_is_covered_as_often_as_is_said(shape: str, n: int) -> None:
    assert of_one("order statistics", shape, n, TIMES) > 0.95 - SLACK


def test_five_runs_have_no_interval_because_none_is_honest_for_all() -> None:
    assert min_runs() == 6
    assert math.isnan(of_one("order statistics", "normal", 5, 10))
    assert math.isnan(median_interval([1, 2, 3, 4, 5]).low)
    assert median_interval([1, 2, 3, 4, 5]).value == 3
    assert of_one("least to greatest", "normal", 5, 4000) == pytest.approx(0.9375, abs=0.012)


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("n", [6, 10, 20])
def test_pairs_cover_the_quotient(shapes: str, n: int) -> None:
    assert of_pairs(shapes, n, TIMES) > 0.95 - SLACK


@pytest.mark.parametrize(
    ("low", "high", "at_least", "at_most", "said"),
    [
        (3.0, 5.0, 3.0, None, "holds"),
        (2.9, 5.0, 3.0, None, "undecided"),
        (1.0, 2.9, 3.0, None, "fails"),
        (1.0, 3.0, 3.0, None, "undecided"),
        (0.98, 1.02, 0.97, 1.03, "holds"),
        (0.96, 1.02, 0.97, 1.03, "undecided"),
        (0.9, 1.1, 0.97, 1.03, "undecided"),
        (1.04, 1.1, 0.97, 1.03, "fails"),
        (0.9, 0.96, 0.97, 1.03, "fails"),
        (NAN, NAN, 3.0, None, "undecided"),
    ],
)
def test_the_whole_interval_decides(
    low: float, high: float, at_least: float | None, at_most: float | None, said: str
) -> None:
    assert verdict(Estimate((low + high) / 2, low, high, 10), at_least, at_most) == said


def test_how_many_runs_would_decide() -> None:
    # The interval is twice as wide as the distance to the bound, so it must be halved.
    assert runs_needed(Estimate(1.1, 0.9, 1.3, 10), 1.0, None) == 40
    assert runs_needed(Estimate(1.0, 0.9, 1.2, 10), 0.95, 1.05) == 160
    assert runs_needed(Estimate(1.0, 0.9, 1.1, 10), 1.0, None) is None
    assert runs_needed(Estimate(1.0 + 1e-9, 0.9, 1.1, 10), 1.0, None) is None, f"more than {MAX_RUNS}"
    assert runs_needed(Estimate(2.0, NAN, NAN, 2), 1.0, None) == 6
    assert runs_needed(Estimate(2.0, NAN, NAN, 6), 1.0, None) == 7
    assert runs_needed(Estimate(NAN, NAN, NAN, 0), 1.0, None) is None
