"""Tables with intervals, and claims that are checked."""

from __future__ import annotations

import io
import math

import pandas as pd
import pytest
from rich.console import Console

from experiments.metrics import NAN, MetricError
from experiments.papers.tables import Check, Table
from experiments.statistics import Estimate

RUNS = pd.DataFrame(
    {
        "loss_ratio": [0.005] * 3 + [0.0],
        "algorithm": ["cubic"] * 3 + ["kernel/cubic"],
        "goodput_bytes_per_s": [1e6, 2e6, 6e6, 12e6],
    }
)


def table(**changes: object) -> Table:
    return Table.of(RUNS.assign(**changes), "what", ["loss_ratio", "algorithm"], ["goodput_bytes_per_s"])


def test_a_table_has_an_estimate_for_each_combination() -> None:
    rows = table().rows
    assert list(rows["loss_ratio"]) == [0.005, 0.0]
    assert list(rows["goodput_bytes_per_s"]) == [2e6, 12e6]
    assert list(rows["n"]) == [3, 1]
    assert rows["goodput_bytes_per_s.low"][0] <= 2e6 <= rows["goodput_bytes_per_s.high"][0]
    assert math.isnan(rows["goodput_bytes_per_s.low"][1])


def test_it_is_written_in_the_units_of_figures() -> None:
    text = io.StringIO()
    Console(file=text, width=120).print(table().screen())
    assert "16.0 [8.0, 48.0]" in text.getvalue()
    assert "Mbit/s" in text.getvalue()
    assert "kernel CUBIC" in text.getvalue()
    assert " 0.5 " in text.getvalue()


def test_what_is_not_known_is_no_number() -> None:
    unknown = table(goodput_bytes_per_s=NAN)
    assert unknown.records()["rows"][0]["goodput_bytes_per_s"] is None
    text = io.StringIO()
    Console(file=text, width=120).print(unknown.screen())
    assert "?" in text.getvalue()


def test_a_column_that_is_missing_is_told() -> None:
    with pytest.raises(MetricError) as caught:
        Table.of(RUNS, "what", ["loss_ratio"], ["goodput"])
    assert caught.value.slug == "metric.no_column"


@pytest.mark.parametrize(
    ("value", "low", "high", "holds", "word"),
    [
        (3.0, 3.0, None, True, "holds"),
        (2.9, 3.0, None, False, "FAILS"),
        (0.97, 0.97, 1.03, True, "holds"),
        (1.04, 0.97, 1.03, False, "FAILS"),
        (NAN, 3.0, None, None, "not measured"),
    ],
)
def test_a_claim_holds_within_its_ends(
    value: float, low: float | None, high: float | None, holds: bool | None, word: str
) -> None:
    check = Check("it is so", Estimate(value, 1.0, 5.0, 5), low, high)
    assert check.holds is holds
    assert word in str(check)
    assert check.records()["holds"] is holds


def test_a_claim_says_its_interval_and_its_runs() -> None:
    assert "3.200 [1.000, 5.000], 5 runs" in str(Check("it is so", Estimate(3.2, 1.0, 5.0, 5), 3.0))
    assert "[" not in str(Check("it is so", Estimate(3.2, NAN, NAN, 1), 3.0))
