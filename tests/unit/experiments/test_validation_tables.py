"""The tables of docs/validation.md are those of the kept results."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from experiments.bench.ns3_peer import CASES
from experiments.bench.result import BenchResult
from experiments.bench.rounds import Plan, Tally
from experiments.papers.kept import Kept
from experiments.papers.tables import Table
from experiments.statistics import Estimate
from scripts.validation_tables import (
    DOCUMENT,
    END,
    begin,
    beside_tables,
    nearer_of,
    tenth_table,
    written,
)


def test_the_document_has_the_tables_of_the_kept_results() -> None:
    text = DOCUMENT.read_text()
    assert all(text.count(begin(name)) == 1 for name in ("drawn", "ns-3", "tenth"))
    assert text.count(END) == 3
    assert written(text) == text, "run `make docs-tables`"


def test_a_part_is_a_row_with_deviations_that_have_a_sign_and_a_spread() -> None:
    rows = pd.DataFrame(
        {
            "quantity": ["goodput"],
            "deviation_pct": [1.25],
            "deviation_size_pct": [2.0],
            "deviation_size_p90_pct": [3.5],
        }
    )
    table = Table("", ["quantity"], ("deviation_pct", "deviation_size_pct", "deviation_size_p90_pct"), rows)
    about = {"date": "2026-11-26T04:00:00+00:00", "git": {"commit": "0123456789abcdef", "dirty": False}}
    kept = Kept("hyvar", "paths-tenth", 20, 20, {"others had the processors": 2}, (table,), (), about)
    assert tenth_table([kept]).splitlines()[-1] == (
        "| hyvar | `paths` | 2026-11-26, `0123456789ab` | 20 | 2 | +1.2 (3.5) |"
    )


def test_a_line_says_who_is_nearer_to_the_kernel() -> None:
    about = {
        "command": [],
        "git": None,
        "date": "2026-11-25T00:00:00+00:00",
        "host": {"kernel": "6.18.0", "cpu": "a processor", "cores": 2},
    }
    result = BenchResult("sim-ns3", Plan(), rounds={"sim-ns3": Tally(6, 1)}, about=about)
    for side, value in (("kernel", 90.0), ("ccplane", 91.0), ("ns3", 80.0)):
        result.add(f"goodput.cubic-100.{side}", [value] * 6, "Mbit/s")
    for side, value in (("ccplane", 100.0), ("ns3", 4.0)):
        for name in CASES:
            result.add(f"simulated_ratio.{name}.{side}", [value], "ratio")
    lines = beside_tables(result).splitlines()
    assert "| `cubic-100` | goodput, Mbit/s | 90 (90 - 90) | 91 (91 - 91) | 80 (80 - 80) | ccplane |" in lines
    assert "| `reno-20` | goodput, Mbit/s |  |  |  |  |" in lines
    assert "| `cubic-100` | 100 | 4 | 25 |" in lines
    assert lines[0].endswith("6 rounds; 1 runs of the kernel do not count.")


@pytest.mark.parametrize(
    ("kernel", "ours", "other", "nearer"),
    [
        ((10, 10), (11, 11), (20, 20), "ccplane"),
        ((15, 15.4), (11, 11), (20, 20), "ccplane"),
        ((15, 15.6), (11, 11), (20, 20), "undecided"),
        ((16, 30), (11, 11), (20, 20), "ns-3"),
        ((16, 30), (20, 20), (11, 11), "ccplane"),
        ((10, 10), (11, 15), (14, 20), "undecided"),
        ((math.nan, math.nan), (11, 11), (20, 20), "too few runs"),
    ],
)
def test_who_is_nearer_is_so_within_the_whole_intervals(
    kernel: tuple[float, float], ours: tuple[float, float], other: tuple[float, float], nearer: str
) -> None:
    found = [Estimate(low, low, high, 5) for low, high in (kernel, ours, other)]
    assert nearer_of(*found) == nearer
