"""Writes the table of docs/panel.md, from docs/results (`make docs-tables`).

`python -m scripts.panel_measure` makes the result.
"""

from __future__ import annotations

from typing import Final

from experiments.bench.result import BenchResult, interval, short
from scripts.bench_tables import BEGIN, END, ROOT
from scripts.marks import filled

DOCUMENT: Final = ROOT / "docs/panel.md"
RESULT: Final = ROOT / "docs/results/panel/panel.json"
FIGURES: Final = {
    "updates": "updates painted a second",
    "messages": "messages a second",
    "sent": "arrays sent [bytes/s]",
    "kernel_cpu": "notebook's kernel [% of a processor]",
    "agent_cpu": "agent [% of a processor]",
}
"""Figure -> its row."""
STATES: Final = {
    "without_a_panel": "no panel",
    "totals": "a total is drawn",
    "reports": "a report field is drawn",
}
"""State -> its column."""


def result() -> BenchResult:
    """Return the result that is kept.

    Raises:
        BenchError: `bench.cannot_read`, if the file is no result.
    """
    return BenchResult.from_json(RESULT.read_text(), str(RESULT))


def table(found: BenchResult) -> str:
    """Return what was measured: medians over rounds, with their intervals."""
    about, host = found.about, found.about["host"]
    rounds = min(tally.counted for tally in found.rounds.values())
    lines = [
        f"{found.options['flows']} flows, {rounds} rounds of {found.options['seconds']:g} s (half of that "
        f"without a panel), {about['date'][:10]}, Linux {host['kernel']}, {host['cpu']}, "
        f"{host['cores']} processors; browser, flows and agent share them with other work.",
        "",
        f"| | {' | '.join(STATES.values())} |",
        "| --- |" + " ---: |" * len(STATES),
    ]
    for name, label in FIGURES.items():
        cells = []
        for state in STATES:
            metric = found.metrics.get(f"{name}.{state}")
            cells.append("" if metric is None else f"{short(metric.value)} ({interval(metric)})")
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def written(text: str, found: BenchResult) -> str:
    """Return a document with the table between its markers."""
    return filled(text, f"{BEGIN}\n", END, table(found))


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text(), result()))
