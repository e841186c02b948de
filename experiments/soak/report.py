"""Reports of a soak test: a table, a file, an exit code."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from rich.table import Table

from experiments import records
from experiments.soak.run import Outcome

HELD: Final = 0
FAILED: Final = 1
UNDECIDED: Final = 3
"""Exit codes; 2 means that the test could not start."""

MEGA: Final = 1e6


def exit_code(outcome: Outcome) -> int:
    """Return the exit code for the verdicts."""
    verdicts = {trend.verdict for trend in outcome.trends.values()}
    if outcome.violations or "fails" in verdicts:
        return FAILED
    return UNDECIDED if "undecided" in verdicts or not verdicts else HELD


def show(outcome: Outcome, console: Console) -> None:
    """Print the table."""
    table = Table(
        "series", "n", "median", "per hour", "99 % interval", "limit", "", box=None, header_style="bold"
    )
    for name, trend in outcome.trends.items():
        unit = MEGA if name.endswith("_bytes") else 1.0
        numbers = [trend.level, trend.per_hour, trend.low, trend.high, trend.limit]
        level, slope, low, high, limit = (_number(value / unit) for value in numbers)
        label = name.replace("_bytes", " [MB]")
        table.add_row(label, str(trend.n), level, slope, f"{low} to {high}", limit, trend.verdict)
    console.print(table)
    reported = outcome.connections
    console.print(
        f"{outcome.seconds:.0f} s, {outcome.rounds} rounds, {len(outcome.disturbances)} disturbances, seed"
        f" {outcome.options.seed}, Linux {outcome.kernel}; connections: {reported.get('made', 0)} made,"
        f" {reported.get('turns', 0)} turns, {reported.get('failed', 0)} failed; maximum time after a round"
        f" until no flow used the fallback: {outcome.longest_fallback_s:.1f} s"
    )
    for violation in outcome.violations:
        console.print(f"violation: {violation}", markup=False)
    console.print({HELD: "passed", FAILED: "failed", UNDECIDED: "undecided"}[exit_code(outcome)])


def keep(outcome: Outcome, file: Path) -> None:
    """Write everything into a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    plain = {"version": 1, "verdict": exit_code(outcome), **outcome.as_dict()}
    # msgspec writes non-finite numbers as null.
    file.write_text(records.dumped(msgspec.json.decode(msgspec.json.encode(plain))))


def publish(result: Path, kept: Path, revision: str) -> None:
    """Write a summary of a result: its revision, no samples, counts of disturbances by kind."""
    document = {"revision": revision, **json.loads(result.read_text())}
    del document["series"]
    document["disturbances"] = Counter(one["kind"] for one in document["disturbances"])
    kept.write_text(records.dumped(document))


def _number(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
