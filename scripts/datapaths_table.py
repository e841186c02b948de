"""Writes a table of algorithms on all datapaths into docs/datapaths.md (`make docs-tables`).

`ccp bench datapaths ... --keep docs/results/datapaths/ALGORITHM-PATH` makes the results of an algorithm over
a path.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from experiments.bench.datapaths import UNITS, WAYS
from experiments.bench.result import BenchResult
from scripts import agents_table
from scripts.agents_table import kept, median, ratio
from scripts.bench_tables import BEGIN, END, ROOT
from scripts.marks import filled

DOCUMENT: Final = ROOT / "docs/datapaths.md"
RESULTS: Final = ROOT / "docs/results/datapaths"
FIGURES: Final = {name: column for name, column in agents_table.FIGURES.items() if name in UNITS}
"""Figure -> its column."""
RATIOS: Final = {"goodput_mbit_per_s_ratio": "goodput, by the kernel's", "rtt_p95_ms_ratio": "RTT p95"}
"""Likewise."""


def results() -> list[BenchResult]:
    """Return the results that are kept, by path and algorithm; raises as `kept`."""
    return kept(RESULTS, "datapaths", "algorithm")


def table(found: Sequence[BenchResult]) -> str:
    """Return a line for each algorithm and datapath; medians, and ratios with their intervals."""
    if not found:
        return "No results are kept yet."
    columns = [*FIGURES.values(), *RATIOS.values()]
    lines = [
        f"| path | algorithm | datapath | {' | '.join(columns)} |",
        "| --- | --- | --- |" + " ---: |" * len(columns),
    ]
    for one in found:
        for way in WAYS:
            cells = [median(one.metrics.get(f"{figure}.{way}")) for figure in FIGURES]
            cells += [ratio(one.metrics.get(f"{name}.{way}")) for name in RATIOS]
            lines.append(
                f"| {one.options['path']} | `{one.options['algorithm']}` | `{way}` | {' | '.join(cells)} |"
            )
    return "\n".join(lines)


def written(text: str, found: Sequence[BenchResult]) -> str:
    """Return a document with the table between its markers."""
    return filled(text, f"{BEGIN}\n", END, table(found))


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text(), results()))
