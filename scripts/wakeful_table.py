"""Writes the table of ways to be awake into docs/architecture.md, from docs/results (`make docs-tables`).

`ccp bench wakeful --state STATE --keep docs/results/wakeful/STATE` makes the results of a state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.bench.latency import STATES
from experiments.bench.result import BenchResult, Metric, interval, short
from experiments.bench.wakeful import OFF
from scripts.bench_tables import BEGIN, END, ROOT
from scripts.marks import filled

DOCUMENT: Final = ROOT / "docs/architecture.md"
RESULTS: Final = ROOT / "docs/results/wakeful"
FIGURES: Final = {
    "throughput_ratio": "throughput",
    "cpu_per_gb_ratio": "CPU per GB",
    "written_p50_us": "written p50",
    "written_p99_us": "p99",
    "applied_p50_us": "applied p50",
    "applied_p99_us": "p99",
}
"""Figure -> its column."""


def results() -> list[BenchResult]:
    """Return the results that are kept, in the order of the states.

    Raises:
        BenchError: `bench.cannot_read`, if a file is no result.
    """
    files = [RESULTS / state / "wakeful.json" for state in STATES]
    return [BenchResult.from_json(file.read_text(), str(file)) for file in files if file.exists()]


def table(found: Sequence[BenchResult]) -> str:
    """Return what ways bring and cost, by state; medians, with their intervals."""
    if not found:
        return "No results are kept yet."
    lines = [
        f"| state | way | {' | '.join(FIGURES.values())} |",
        "| --- | --- |" + " ---: |" * len(FIGURES),
    ]
    for one in found:
        for state in one.options["states"]:
            for way in one.options["ways"]:
                cells = [_cell(one.metrics.get(f"{name}.{state}.{way}")) for name in FIGURES]
                if way == OFF:
                    cells[:2] = "1", "1"  # by definition
                lines.append(f"| {state} | `{way}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(metric: Metric | None) -> str:
    if metric is None:
        return ""
    within = interval(metric)
    return f"{short(metric.value)} ({within})" if within else short(metric.value)


def written(text: str, found: Sequence[BenchResult]) -> str:
    """Return a document with the table between its markers."""
    return filled(text, f"{BEGIN}\n", END, table(found))


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text(), results()))
