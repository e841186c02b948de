"""What a benchmark returns, how it is printed, and the statistics that all benchmarks share."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Metric:
    """One measured figure.

    Attributes:
        value: Median over the rounds.
        unit: Unit; "ratio" for a quotient of the two sides of a round.
        goal: What the project wants, with its direction, such as "<= 1.05"; None where nothing was promised.
        low: First quartile over the rounds (the value itself with one round).
        high: Third quartile.
    """

    value: float
    unit: str
    goal: str | None
    low: float
    high: float

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without one."""
        if self.goal is None:
            return None
        direction, bound = self.goal.split()
        return self.value <= float(bound) if direction == "<=" else self.value >= float(bound)


@dataclass(slots=True)
class BenchResult:
    """All figures of one run.

    Attributes:
        name: Name of the benchmark.
        host: Kernel, processor and cores of this machine.
        rounds: Paired rounds measured.
        metrics: Figures by their stable names.
    """

    name: str
    rounds: int
    host: dict[str, str | int] = field(default_factory=lambda: describe_host())
    metrics: dict[str, Metric] = field(default_factory=dict)

    def add(self, metric: str, values: Sequence[float], unit: str, goal: str | None = None) -> None:
        """Add a figure from its values, one a round.

        Args:
            metric: Stable name.
            values: At least one value.
            unit: Unit of the values.
            goal: "<= x" or ">= x".

        Raises:
            ValueError: If there is no value: a benchmark that measured nothing must not look as if it did.
        """
        if not values:
            raise ValueError(f"{self.name}: no value was measured for {metric}")
        if len(values) == 1:
            low = high = values[0]
        else:
            low, _, high = statistics.quantiles(values, n=4, method="inclusive")
        self.metrics[metric] = Metric(statistics.median(values), unit, goal, low, high)

    def to_json(self) -> str:
        """Return the run as a JSON object: name, host, rounds, metrics."""
        return json.dumps(asdict(self), indent=2)

    def print(self, console: Console) -> None:
        """Print the run as a table."""
        title = f"{self.name}: {self.rounds} rounds, {self.host['kernel']}, {self.host['cores']} cores"
        table = Table(title=title, box=SIMPLE)
        for column in ("metric", "median", "quartiles", "unit", "goal", ""):
            justify: Literal["left", "right"] = "right" if column in {"median", "quartiles"} else "left"
            # Names give way in a narrow terminal, figures never do.
            table.add_column(column, justify=justify, no_wrap=column != "metric", overflow="fold")
        for name, metric in self.metrics.items():
            verdict = {None: "", True: "[green]met", False: "[red]missed"}[metric.met]
            spread = f"{_short(metric.low)} - {_short(metric.high)}"
            table.add_row(name, _short(metric.value), spread, metric.unit, metric.goal or "", verdict)
        console.print(table)


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def describe_host() -> dict[str, str | int]:
    """Return what of this machine bears on a figure."""
    models = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": models[0] if models else "unknown",
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
    }
