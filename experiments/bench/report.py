"""The report of benchmarks: every figure against its goal, with the value of each round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from experiments.bench.errors import BenchError
from experiments.bench.every import BENCHMARKS
from experiments.bench.result import BenchResult, Metric, rounds_text
from experiments.report import Chart, Column, Evidence, Measured, Points, Report, Row, Section, Source, Table
from experiments.report.html import slug

KEPT: Final = Path(__file__).parents[2] / "docs/results/bench"

_ABOUT: Final = (
    "The cost of ccplane compared with the kernel, on one machine. Every figure is a median over rounds; a "
    "round measures all sides once, in random order. Ratios also apply to other machines; absolute figures "
    "do not."
)

_UNITS: Final = {"ratio": "", "us": "µs"}
"""Unit in results -> unit on the page, where it is another one."""


def read(folder: Path = KEPT) -> list[BenchResult]:
    """Return the results in a folder, in the order of the benchmarks.

    Raises:
        BenchError: `bench.cannot_read`.
    """
    found = [BenchResult.from_json(file.read_text(), str(file)) for file in folder.glob("*.json")]
    order = list(BENCHMARKS)
    return sorted(
        found, key=lambda one: (order.index(one.name) if one.name in order else len(order), one.name)
    )


def not_kept(what: str, folder: Path, there: Iterable[str], command: str) -> BenchError:
    """Return the error for a result that a folder does not have."""
    return BenchError(
        "bench.not_kept",
        f"no saved result of {what}",
        str(folder),
        f"the folder has: {', '.join(there) or 'nothing'}",
        command,
    )


def report_of(results: Sequence[BenchResult], about: Mapping[str, str]) -> Report:
    """Return the report of results.

    Args:
        results: The results.
        about: Name of a benchmark -> what it measures.
    """
    title = f"Benchmark: {results[0].name}" if len(results) == 1 else "Benchmarks"
    sections = [_section(one, about.get(one.name, "")) for one in results]
    return Report(title, sections, _ABOUT, "goals", {"holds": "met", "fails": "missed"})


def _section(result: BenchResult, about: str) -> Section:
    rounds = "; ".join(f"{title}: {rounds_text(tally)}" for title, tally in result.rounds.items())
    once = "" if result.name in BENCHMARKS else "Measured once; this version does not have the benchmark. "
    source = Source.of(result.about, runs=rounds, seeds=f"order of measurements: {result.plan.seed}")
    table = _table(result)
    rows = [_row(result.name, name, metric, source, table) for name, metric in result.metrics.items()]
    return Section(result.name, rows, ("measured",), f"{once}{about}".strip(), "figure")


def _row(benchmark: str, name: str, metric: Metric, source: Source, table: Table) -> Row:
    low, high = metric.bounds
    found = metric.estimate
    unit = _UNITS.get(metric.unit, metric.unit)
    measured = Measured(name, found, low, high, unit, "round")
    interval = (None, None) if found.low != found.low else (found.low, found.high)
    rounds = range(1, len(metric.values) + 1)
    chart = Chart(
        f"{name} in each round; the band is the interval of the median",
        "round",
        f"{name} [{unit}]" if unit else name,
        [Points(name, list(rounds), metric.values)],
        at_least=low,
        at_most=high,
        low=interval[0],
        high=interval[1],
    )
    evidence = Evidence(
        [measured], measured.verdict, "", source, [table], [chart], marked=[{"metric": name}], value="value"
    )
    needed = measured.runs_needed
    note = f"try {needed:,} rounds" if needed else "" if metric.goal else "no goal"
    return Row(slug(f"{benchmark} {name}"), name, measured.verdict, [evidence], note=note)


def _table(result: BenchResult) -> Table:
    columns = [
        Column("metric", "figure"),
        Column("round", "round"),
        Column("value", "value", is_value=True),
        Column("unit", "unit"),
        Column("goal", "goal"),
    ]
    rows = [
        (name, number, value, metric.unit, metric.goal)
        for name, metric in result.metrics.items()
        for number, value in enumerate(metric.values, 1)
    ]
    return Table(f"All rounds of {result.name}", f"bench-{slug(result.name)}", columns, rows, drawable=False)
