"""Reports of benchmarks have the figures of their results; every page of results has a report."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from typer.testing import CliRunner

from experiments.bench import cli, every
from experiments.bench import report as benchmarks
from experiments.bench.errors import BenchError
from experiments.bench.result import BenchResult, Metric
from experiments.bench.rounds import Plan, Tally
from experiments.report import Evidence, rendered
from experiments.validation.command import app as validate
from scripts.reports import overview, written
from tests.unit.experiments.html_page import Page

ABOUT = {
    "command": ["ccp", "bench", "flows", "--keep", "/somewhere/else"],
    "git": {"commit": "0123456789abcdef", "dirty": False},
    "date": "2026-11-23T00:00:00+00:00",
    "host": {"kernel": "6.18.0", "cpu": "a processor", "cores": 2},
}


def result(name: str = "flows") -> BenchResult:
    found = BenchResult(name, Plan(), {}, {name: Tally(6, 1, {"steal": 1})}, about=ABOUT)
    found.add("cpu_ratio", [1.0, 1.0, 1.01, 1.0, 1.0, 1.0], "ratio", "<= 1.02")
    found.add("late_us", [50.0, 51.0, 52.0, 53.0, 54.0, 55.0], "us", "<= 40")
    found.add("share", [0.5] * 6, "ratio", "0.4 - 0.45")
    found.add("memory", [1e3, 2e3], "bytes")
    return found


def side_of(key: str) -> Evidence:
    [section] = benchmarks.report_of([result()], {}).sections
    [found] = [row for row in section.rows if row.key == key]
    [side] = found.sides
    assert side is not None
    return side


def test_a_figure_of_a_benchmark_is_a_row_with_its_goal() -> None:
    report = benchmarks.report_of([result()], {"flows": "Compare many flows."})
    [section] = report.sections
    assert (report.title, section.about) == ("Benchmark: flows", "Compare many flows.")
    verdicts = {row.title: (row.verdict, row.note) for row in section.rows}
    assert verdicts == {
        "cpu_ratio": ("holds", ""),
        "late_us": ("fails", ""),
        "share": ("fails", ""),
        "memory": (None, "no goal"),
    }
    [late] = side_of("flows-late-us").measured
    assert (late.value_text, late.unit, late.bound_text, late.runs_text) == ("52.5", "µs", "≤ 40", "6 rounds")
    words = rendered(report)
    assert "missed" in words
    assert "1 disturbed (steal 1)" in words


@pytest.mark.parametrize(
    ("goal", "bounds"),
    [("<= 1.05", (None, 1.05)), (">= 3", (3, None)), ("0.9 - 1.1", (0.9, 1.1)), (None, (None, None))],
)
def test_goals_have_bounds(goal: str | None, bounds: tuple[float | None, float | None]) -> None:
    assert Metric((1.0,), "ratio", goal).bounds == bounds


def test_each_round_is_in_the_figure_and_in_the_csv() -> None:
    side = side_of("flows-late-us")
    [chart], [table] = side.charts, side.tables
    assert list(chart.series[0].y) == [50.0, 51.0, 52.0, 53.0, 54.0, 55.0]
    assert (chart.at_most, chart.low, chart.high) == (40, 50, 55)
    lines = list(csv.DictReader(io.StringIO(table.csv())))
    assert [float(one["value"]) for one in lines if one["metric"] == "late_us"] == list(chart.series[0].y)
    assert len(lines) == 20
    assert side.marked == [{"metric": "late_us"}]
    assert (side_of("flows-memory").charts[0].low, side_of("flows-memory").charts[0].high) == (None, None)


def test_saved_results_are_printed_or_become_a_report(tmp_path: Path) -> None:
    for name in ("flows", "echo"):
        result(name).keep(tmp_path)
    shown = CliRunner().invoke(cli.app, ["show", "flows", "--results", str(tmp_path)])
    assert "late_us" in shown.output
    assert "flows: 6.18.0" in shown.output
    assert "echo" not in shown.output
    file = tmp_path / "out/report.html"
    done = CliRunner().invoke(cli.app, ["show", "--results", str(tmp_path), "--report", str(file)])
    assert done.output.strip() == str(file)
    page = Page(file.read_text())
    assert len(page.all("tr", "row")) == 8
    assert "Measured once" in "".join(page.words), "this version has no benchmark `echo`"


def test_results_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    for name in ([], ["latency"]):
        with pytest.raises(BenchError) as caught:
            CliRunner().invoke(cli.app, ["show", *name, "--results", str(tmp_path)], catch_exceptions=False)
        assert caught.value.slug == "bench.not_kept"
    with pytest.raises(BenchError) as caught:
        CliRunner().invoke(validate, ["--results", str(tmp_path)], catch_exceptions=False)
    assert caught.value.slug == "bench.not_kept"


def test_all_benchmarks_have_one_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_console: object, keep: Path | None) -> list[str]:
        assert keep is not None
        result().keep(keep)
        return ["bus"]

    monkeypatch.setattr(every, "run", run)
    file = tmp_path / "report.html"
    done = CliRunner().invoke(cli.app, ["all", "--report", str(file)])
    assert done.exit_code == 1
    assert len(Page(file.read_text()).all("tr", "row")) == 4


def test_the_site_has_a_report_for_each_page_with_unique_addresses(tmp_path: Path) -> None:
    files = written(tmp_path)
    pages = {file.stem for file in (Path(__file__).parents[3] / "docs/papers").glob("*.md")}
    assert {file.stem for file in files} >= pages | {"benchmarks", "evaluate", "validation"}
    for file in files:
        page = Page(file.read_text())
        ids = [of["id"] for _, of in page.elements if "id" in of]
        assert len(ids) == len(set(ids)), file.name
        assert page.all("tr", "row")


def test_figures_of_a_page_are_in_its_report(tmp_path: Path) -> None:
    (tmp_path / "r-tcp-b.svg").write_text("<svg><title>Small &amp; large</title></svg>")
    (tmp_path / "r-tcp-a.svg").write_text("<svg/>")
    (tmp_path / "r-tcp-verdicts.svg").write_text("<svg/>")
    (tmp_path / "hyvar-a.svg").write_text("<svg/>")
    assert [one.title for one in overview("r-tcp", tmp_path)] == ["r-tcp-a", "Small & large"]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_measured_benchmark_becomes_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.setattr(cli.sim, "run", lambda _plan: result("sim"))
    file = tmp_path / "report.html"
    done = CliRunner().invoke(cli.app, ["sim", "--report", str(file), *options])
    assert done.exit_code == 0
    assert str(file) in (done.stderr if options else done.stdout)
    assert str(file) not in (done.stdout if options else done.stderr), "JSON stays JSON"
    assert len(Page(file.read_text()).all("tr", "row")) == 4
