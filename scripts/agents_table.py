"""Writes the table of agents made with portus into docs/ccp-wire.md, from docs/results (`make docs-tables`).

`ccp bench agents ... --keep docs/results/agents/NAME-PATH` makes the results of an agent over a path.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from experiments.bench.agents import ON_LIBCCP
from experiments.bench.result import BenchResult, Metric, interval, short
from scripts.bench_tables import BEGIN, END, ROOT
from scripts.marks import filled

DOCUMENT: Final = ROOT / "docs/ccp-wire.md"
RESULTS: Final = ROOT / "docs/results/agents"
FIGURES: Final = {
    "goodput_mbit_per_s": "goodput [Mbit/s]",
    "rtt_p50_ms": "RTT p50 [ms]",
    "rtt_p95_ms": "p95 [ms]",
    "retransmits": "retransmits",
    "cpu_s_per_gb": "CPU [s/GB]",
}
"""Figure -> its column."""
RATIOS: Final = {
    "goodput_mbit_per_s_ratio": "goodput, by the yardstick's",
    "rtt_p50_ms_ratio": "RTT p50",
    "rtt_p95_ms_ratio": "p95",
}
"""Likewise."""
KERNEL: Final = "cubic"
"""Congestion control by which CPU times are."""


def results() -> list[BenchResult]:
    """Return the results that are kept, by path and agent; raises as `kept`."""
    return kept(RESULTS, "agents", "agents")


def kept(folder: Path, name: str, subject: str) -> list[BenchResult]:
    """Return the results of a benchmark that are kept in a folder, each in one of its own, by path.

    Args:
        folder: Where.
        name: Of the benchmark.
        subject: The option by which they are within a path.

    Raises:
        BenchError: `bench.cannot_read`, if a file is no result.
    """
    files = sorted(folder.glob(f"*/{name}.json"))
    found = [BenchResult.from_json(file.read_text(), str(file)) for file in files]
    return sorted(found, key=lambda one: (one.options["path"], one.options[subject]))


def table(found: Sequence[BenchResult]) -> str:
    """Return a line for each agent and each of its counterparts; medians, and ratios with their intervals."""
    if not found:
        return "No results are kept yet."
    columns = [*FIGURES.values(), *RATIOS.values(), f"CPU, by the kernel's `{KERNEL}`"]
    lines = [
        f"| path | congestion control | {' | '.join(columns)} |",
        "| --- | --- |" + " ---: |" * len(columns),
    ]
    for one in found:
        for name in (*one.options["agents"], *one.options["beside"]):
            cells = [median(one.metrics.get(f"{figure}.{name}")) for figure in FIGURES]
            cells += [ratio(one.metrics.get(f"{figure}.{name}")) for figure in RATIOS]
            cells.append(_cpu_ratio(one, name))
            lines.append(f"| {one.options['path']} | {_shown(name, one)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _shown(name: str, result: BenchResult) -> str:
    if name in result.options["agents"]:
        return f"agent `{name}`"
    agent = name.removesuffix(ON_LIBCCP)
    return f"agent `{agent}` on libccp" if agent != name else f"`{name}`"


def _cpu_ratio(result: BenchResult, name: str) -> str:
    found, kernel = (result.metrics.get(f"cpu_s_per_gb.{one}") for one in (name, KERNEL))
    if name == KERNEL or found is None or kernel is None:
        return ""
    pairs = zip(found.values, kernel.values, strict=True)
    ratio = Metric(tuple(a / b for a, b in pairs), "ratio")
    return f"{short(ratio.value)} ({interval(ratio)})"


def median(metric: Metric | None) -> str:
    """Return a median for a cell; nothing where there is none."""
    return "" if metric is None else short(metric.value)


def ratio(metric: Metric | None) -> str:
    """Return a ratio for a cell, with its interval and verdict; nothing where there is none."""
    return "" if metric is None else f"{short(metric.value)} ({interval(metric)}), {metric.verdict}"


def written(text: str, found: Sequence[BenchResult]) -> str:
    """Return a document with the table between its markers."""
    return filled(text, f"{BEGIN}\n", END, table(found))


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text(), results()))
