from __future__ import annotations

import math

import pandas as pd
import pytest

from experiments.metrics import MetricError
from experiments.statistics import median_interval, over_repeats, share_interval


def test_missing_repeats_are_left_out_and_not_counted() -> None:
    assert median_interval([1, float("nan"), 2, 4]).value == median_interval([1, 2, 4]).value == 2
    assert median_interval([1, float("nan"), 2, 4]).n == 3


@pytest.mark.parametrize("nothing", [[], [float("nan")]])
def test_no_repeat_has_no_value(nothing: list[float]) -> None:
    estimate = median_interval(nothing)
    assert estimate.n == 0
    assert math.isnan(estimate.value)


@pytest.mark.parametrize(
    ("some", "options"),
    [
        ([1.0, float("inf")], {}),
        ([1.0, 2.0], {"level": 1.0}),
    ],
)
def test_what_cannot_be_estimated_is_refused(some: list[float], options: dict[str, object]) -> None:
    with pytest.raises(MetricError) as caught:
        median_interval(some, **options)  # type: ignore[arg-type]
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


def test_share_has_the_exact_interval() -> None:
    found = share_interval(9, 10)
    assert (found.value, found.n) == (0.9, 10)
    assert found.low == pytest.approx(0.5550, abs=1e-4)  # Clopper and Pearson
    assert found.high == pytest.approx(0.9975, abs=1e-4)
    assert share_interval(10, 10).high == 1


# As `scipy.stats.binomtest(hits, n).proportion_ci(level, "exact")` of scipy 1.15 has them.
@pytest.mark.parametrize(
    ("hits", "n", "level", "low", "high"),
    [
        (0, 10, 0.95, 0.0, 0.30849710781876294),
        (10, 10, 0.95, 0.6915028921812371, 1.0),
        (3, 10, 0.95, 0.06673951117773447, 0.652452850060008),
        (1, 2, 0.95, 0.01257911709367899, 0.987420882906321),
        (57, 60, 0.95, 0.8607567532789, 0.9895676703556517),
        (500, 2000, 0.99, 0.2254321331457128, 0.27577206387434916),
        (1, 20000, 0.95, 1.2658895218878237e-06, 0.00027855033219442634),
    ],
)
def test_intervals_of_shares_are_exact(hits: int, n: int, level: float, low: float, high: float) -> None:
    found = share_interval(hits, n, level=level)
    assert (found.low, found.high) == (pytest.approx(low, rel=1e-10), pytest.approx(high, rel=1e-10))


def test_share_of_nothing_is_not_known() -> None:
    assert math.isnan(share_interval(0, 0).value)
