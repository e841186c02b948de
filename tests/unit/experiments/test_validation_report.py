"""Reports of validation have the errors and scenarios of their draws."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from experiments.validation import report as validation
from experiments.validation.command import app as validate
from experiments.validation.heldout import QUANTITIES, Case, Heldout
from tests.unit.experiments.html_page import Page

ABOUT = {
    "command": ["ccp", "bench", "flows", "--keep", "/somewhere/else"],
    "git": {"commit": "0123456789abcdef", "dirty": False},
    "date": "2026-11-23T00:00:00+00:00",
    "host": {"kernel": "6.18.0", "cpu": "a processor", "cores": 2},
}


def draw(date: str = "2026-11-25", off: float = 0.01) -> Heldout:
    cases, rows = [], []
    for number in range(8):
        name = f"s1-{number:03}"
        algorithms = ("cubic", "cubic") if number < 6 else ("cubic",)
        cases.append(Case(name, "loss" if number % 2 else "aqm", 10.0, algorithms, f"path {number}", {}))
        for datapath, factor in (("ebpf", 1.0), ("sim", 1 + off * number)):
            figures = {one.column: 100.0 * factor for one in QUANTITIES}
            figures["jain_index"] = 1.0
            rows.append({"case": name, "datapath": datapath, "round": 1, **figures})
    table = pd.DataFrame(rows).assign(late_us=0.0, late_p99_us=0.0, untaken_pkts=0.0)
    command = ["ccp", "validate", "--seed", "7"]
    return Heldout(cases, table, {**ABOUT, "date": f"{date}T00:00:00+00:00", "command": command})


def test_quantities_are_judged_by_the_median_error_of_the_newest_draw() -> None:
    report = validation.report_of({"draw-1": draw("2026-11-26", 0.001), "draw-2": draw("2026-11-25", 0.1)})
    [section] = report.sections
    rows = {row.key: row for row in section.rows}
    goodput = rows["goodput"]
    assert goodput.verdict == "holds"
    first, second = goodput.sides
    assert first is not None
    assert second is not None
    assert (first.verdict, second.verdict) == ("holds", "undecided")
    # Errors of 0, 0.1, ... 0.7 % in eight scenarios.
    assert math.isclose(first.measured[0].found.value, 0.35, abs_tol=1e-9)
    assert first.summary == "8 of 8 within the goal"
    assert second.summary == "1 of 8 within the goal"
    assert first.source is not None
    assert first.source.seeds == "7"
    fair = rows["fairness"].sides[0]
    assert fair is not None
    assert fair.measured[0].found.n == 6, "scenarios with several flows"


def test_scenarios_are_in_the_figures_and_in_the_csv() -> None:
    [section] = validation.report_of({"draw-1": draw(off=0.1)}).sections
    side = section.rows[0].sides[0]
    assert side is not None
    errors, both = side.charts
    assert [one.label for one in both.series] == ["aqm", "loss"]
    assert sorted(value for one in errors.series for value in one.y if value is not None) == pytest.approx(
        [0, 10, 15, 15, 15, 15, 15, 15]
    ), "errors beyond five goals are at the edge"
    lines = list(csv.DictReader(io.StringIO(side.tables[0].csv())))
    assert [float(one["error.goodput_bytes_per_s"]) for one in lines] == pytest.approx(
        [0.1 * n for n in range(8)]
    )
    assert lines[7]["kernel.goodput_bytes_per_s"] == "100.0"
    assert lines[0]["flows"] == "2 cubic"


def test_saved_draws_become_a_report(tmp_path: Path) -> None:
    draw().keep(tmp_path / "draw-1.json")
    file = tmp_path / "report.html"
    done = CliRunner().invoke(validate, ["--results", str(tmp_path), "--report", str(file)])
    assert done.exit_code == 0
    assert "outside the goals" in done.output
    assert len(Page(file.read_text()).all("tr", "row")) == len(QUANTITIES)
