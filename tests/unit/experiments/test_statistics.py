from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.metrics import MetricError
from experiments.statistics import Statistic, bootstrap, bootstrap_quotient, over_repeats

values = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=2, max_size=8)


@settings(max_examples=30)
@given(values, st.sampled_from(["mean", "median"]))
def test_the_interval_lies_within_the_values_and_is_finite(some: list[float], statistic: Statistic) -> None:
    estimate = bootstrap(some, statistic)
    around = 1e-9 * max(map(abs, some))
    assert min(some) - around <= estimate.low <= estimate.high <= max(some) + around
    assert min(some) - around <= estimate.value <= max(some) + around
    assert estimate.n == len(some)


@pytest.mark.parametrize(("statistic", "true"), [("mean", 1.0), ("median", math.log(2))])
def test_the_interval_covers_the_truth_about_as_often_as_it_says(statistic: Statistic, true: float) -> None:
    # Repeats of a skewed distribution; 200 intervals at 90 % cover with a standard deviation of 2 %.
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        estimate = bootstrap(rng.exponential(size=30), statistic, level=0.9)
        covered += estimate.low <= true <= estimate.high
    assert 0.82 <= covered / 200 <= 0.97


def test_mean_and_median_are_told_apart() -> None:
    assert bootstrap([1, 2, 9], "mean").value == 4
    assert bootstrap([1, 2, 9], "median").value == 2


def test_a_higher_level_has_a_wider_interval() -> None:
    some = np.random.default_rng(2).normal(size=15)
    narrow, wide = bootstrap(some, level=0.5), bootstrap(some, level=0.99)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_the_same_values_have_the_same_interval() -> None:
    assert bootstrap([1, 2, 3, 4], seed=7) == bootstrap([1, 2, 3, 4], seed=7)


def test_missing_repeats_are_left_out_and_not_counted() -> None:
    assert bootstrap([1, float("nan"), 2, 4]) == bootstrap([1, 2, 4])


def test_one_repeat_has_no_interval() -> None:
    estimate = bootstrap([5.0])
    assert (estimate.value, estimate.n) == (5, 1)
    assert math.isnan(estimate.low)
    assert math.isnan(estimate.high)


@pytest.mark.parametrize("nothing", [[], [float("nan")]])
def test_no_repeat_has_no_value(nothing: list[float]) -> None:
    estimate = bootstrap(nothing)
    assert estimate.n == 0
    assert math.isnan(estimate.value)


def test_equal_repeats_have_an_interval_of_no_width() -> None:
    estimate = bootstrap([3.0, 3.0, 3.0])
    assert (estimate.low, estimate.value, estimate.high) == (3, 3, 3)


@pytest.mark.parametrize(
    ("some", "options"),
    [
        ([1.0, float("inf")], {}),
        ([1.0, 2.0], {"level": 1.0}),
        ([1.0, 2.0], {"statistic": "mode"}),
    ],
)
def test_what_cannot_be_estimated_is_refused(some: list[float], options: dict[str, object]) -> None:
    with pytest.raises(MetricError) as caught:
        bootstrap(some, **options)  # type: ignore[arg-type]
    assert caught.value.slug == "metric.bad_value"


def table() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "algorithm": ["b", "b", "a", "a", "b"],
            "loss": [0.1, 0.1, 0.1, 0.1, 0.2],
            "seed": [1, 2, 1, 2, 1],
            "goodput_bytes_per_s": [10.0, 20.0, 5.0, None, 7.0],
        }
    )


def test_repeats_are_what_agrees_in_the_named_columns() -> None:
    found = over_repeats(table(), "goodput_bytes_per_s", ["algorithm", "loss"])
    assert list(found.columns) == ["algorithm", "loss", "value", "low", "high", "n"]
    assert found[["algorithm", "loss", "value", "n"]].to_numpy().tolist() == [
        ["b", 0.1, 15.0, 2],
        ["a", 0.1, 5.0, 1],
        ["b", 0.2, 7.0, 1],
    ]


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(MetricError) as caught:
        over_repeats(table(), "goodput_bytes_per_s", ["algorithm", "buffer"])
    assert caught.value.slug == "metric.no_column"
    assert "`buffer`" in caught.value.message


# --- quotients ---


def test_a_quotient_is_that_of_the_medians() -> None:
    found = bootstrap_quotient([2, 4, 9], [1, 2, 3])
    assert (found.value, found.n) == (2, 3)
    assert 2 / 3 <= found.low < found.value < found.high <= 9
    assert bootstrap_quotient([2, 4, 9], [1, 2, 3], "mean").value == 2.5


def test_the_interval_of_a_quotient_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(150):
        found = bootstrap_quotient(
            rng.exponential(6, size=30), rng.exponential(2, size=30), "mean", level=0.9
        )
        covered += found.low <= 3 <= found.high
    assert 0.8 <= covered / 150 <= 0.98


@pytest.mark.parametrize(("above", "below"), [([], [1.0]), ([1.0], []), ([1.0, 2.0], [0.0, 0.0])])
def test_a_quotient_of_nothing_or_by_zero_is_none(above: list[float], below: list[float]) -> None:
    assert math.isnan(bootstrap_quotient(above, below).value)


def test_the_quotient_of_one_repeat_has_no_interval() -> None:
    found = bootstrap_quotient([6.0, 6.0, 6.0], [2.0])
    assert (found.value, found.n) == (3, 1)
    assert math.isnan(found.low)
