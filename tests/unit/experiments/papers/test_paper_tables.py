"""Tables with intervals, and claims that are checked."""

from __future__ import annotations

import io
import math

import pandas as pd
import pytest
from rich.console import Console

from experiments.metrics import NAN, MetricError
from experiments.papers.estimates import IN_RUN
from experiments.papers.tables import Check, Table
from experiments.statistics import Estimate

RUNS = pd.DataFrame(
    {
        "loss_ratio": [0.005] * 6 + [0.0],
        "algorithm": ["cubic"] * 6 + ["kernel/cubic"],
        "goodput_bytes_per_s": [1e6, 1.5e6, 2e6, 2e6, 3e6, 6e6, 12e6],
    }
)


def table(**changes: object) -> Table:
    return Table.of(RUNS.assign(**changes), "what", ["loss_ratio", "algorithm"], ["goodput_bytes_per_s"])


def printed(made: Table) -> str:
    text = io.StringIO()
    Console(file=text, width=120).print(made.screen())
    return text.getvalue()


def test_a_table_has_an_estimate_for_each_combination() -> None:
    rows = table().rows
    assert rows[["loss_ratio", "goodput_bytes_per_s", "n"]].to_numpy().tolist() == [
        [0.005, 2e6, 6],
        [0, 12e6, 1],
    ]
    assert rows["goodput_bytes_per_s.low"][0] <= 2e6 <= rows["goodput_bytes_per_s.high"][0]
    assert math.isnan(rows["goodput_bytes_per_s.low"][1])


def test_it_is_written_in_the_units_of_figures() -> None:
    said = printed(table())
    assert all(part in said for part in ("16.0 [8.0, 48.0]", "Mbit/s", "kernel CUBIC", " 0.5 "))


def test_what_is_not_known_is_no_number() -> None:
    unknown = table(goodput_bytes_per_s=NAN)
    assert unknown.records()["rows"][0]["goodput_bytes_per_s"] is None
    assert "?" in printed(unknown)


def test_a_column_that_is_missing_is_reported() -> None:
    with pytest.raises(MetricError) as caught:
        Table.of(RUNS, "what", ["loss_ratio"], ["goodput"])
    assert caught.value.slug == "metric.no_column"


@pytest.mark.parametrize(
    ("found", "low", "high", "verdict", "reported"),
    [
        (Estimate(3.2, 3, 5, 10), 3, None, "holds", "holds: it is at least 3: 3.200 [3.000, 5.000], 10 runs"),
        (
            Estimate(3.2, 2.8, 5.0, 10),
            3.0,
            None,
            "undecided",
            "undecided (try 40 runs): it is at least 3: 3.200",
        ),
        (Estimate(2.8, 2.0, 2.9, 10), 3.0, None, "fails", "FAILS: it is at least 3: 2.800"),
        (Estimate(1.0, 0.97, 1.03, 10), 0.97, 1.03, "holds", "holds: it is 0.97 to 1.03: 1.000"),
        (
            Estimate(3.2, NAN, NAN, 5),
            3,
            None,
            "undecided",
            "undecided (too few, try 6 runs): it is at least 3: 3",
        ),
        (Estimate(1.0, 1, 1, 10), 1, None, "holds", "holds: it is at least 1: 1.000, 10 runs, all alike"),
        (Estimate(70.0, 70.0, 70.0, 0), 65, 75, "holds", "holds: it is 65 to 75: 70.000, computed"),
        (Estimate(NAN, NAN, NAN, 0), 3.0, None, None, "open: it is at least 3: not measured"),
    ],
)
def test_the_interval_decides_a_claim_and_not_the_value(
    found: Estimate, low: float | None, high: float | None, verdict: str | None, reported: str
) -> None:
    check = Check("it", found, low, high, "so")
    assert check.verdict == verdict
    assert str(check).startswith(reported)
    assert check.records()["verdict"] == verdict
    assert str(Check.from_records(check.records())) == str(check)


def test_flows_of_a_run_are_one_value() -> None:
    rows = pd.DataFrame(
        {IN_RUN: [0, 0, 1, 1], "algorithm": "cubic", "goodput_bytes_per_s": [1e6, 3e6, 4e6, 6e6]}
    )
    (row,) = Table.of(rows, "what", ["algorithm"], ["goodput_bytes_per_s"]).rows.to_dict("records")
    assert (row["goodput_bytes_per_s"], row["n"]) == (3.5e6, 2)
