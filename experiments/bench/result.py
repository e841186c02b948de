"""Results of benchmarks: figures with intervals and verdicts, printed and kept."""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Self

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from experiments import records, verdicts
from experiments.bench.errors import BenchError
from experiments.bench.rounds import MIN_ROUNDS, Plan, Tally
from experiments.runs.metadata import git_revision
from experiments.statistics import Estimate, median_interval
from experiments.writing import write_text

Verdict = Literal["met", "missed", "undecided"]

_OF_GOALS: Final[Mapping[verdicts.Verdict, Verdict]] = {
    "holds": "met",
    "fails": "missed",
    "undecided": "undecided",
}

FORMAT: Final = 1
"""Format of kept results."""
KEEP_FIX: Final = "give a writable folder to --keep"
"""What to do if a result cannot be written."""
_COLORS: Final = {"met": "green", "missed": "red", "undecided": "yellow"}


@dataclass(frozen=True, slots=True)
class Metric:
    """One measured figure.

    Attributes:
        values: One for each round that counts, in order.
        unit: Unit; "ratio" for ratios within a round.
        goal: Bound such as "<= 1.05", or bounds "0.95 - 1.05"; None without a goal.
    """

    values: tuple[float, ...]
    unit: str
    goal: str | None = None

    @property
    def estimate(self) -> Estimate:
        """Median over the rounds with its 95 % interval, whose ends are NaN with fewer than six rounds."""
        return median_interval(self.values)

    @property
    def value(self) -> float:
        """Median over the rounds."""
        return self.estimate.value

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Lower and upper bound of the goal; None for none."""
        if self.goal is None:
            return None, None
        direction, bound = self.goal.split(maxsplit=1)
        if direction not in {"<=", ">="}:
            return float(direction), float(bound.removeprefix("- "))
        return (None, float(bound)) if direction == "<=" else (float(bound), None)

    @property
    def verdict(self) -> Verdict | None:
        """Whether the whole interval meets or misses the goal; None without a goal or an interval."""
        if self.goal is None or len(self.values) < MIN_ROUNDS:
            return None
        return _OF_GOALS[verdicts.verdict(self.estimate, *self.bounds)]

    @property
    def rounds_needed(self) -> int | None:
        """Estimated rounds until a verdict, if the median stays; None if decided, or if never decided."""
        if self.verdict != "undecided":
            return None
        return verdicts.runs_needed(self.estimate, *self.bounds)

    def as_dict(self) -> dict[str, Any]:
        """Return the figure for JSON; unknown values are null."""
        found = self.estimate
        known = len(self.values) >= MIN_ROUNDS
        return {
            "value": found.value,
            "low": found.low if known else None,
            "high": found.high if known else None,
            "unit": self.unit,
            "goal": self.goal,
            "verdict": self.verdict,
            "rounds_needed": self.rounds_needed,
            "values": list(self.values),
        }


@dataclass(slots=True)
class BenchResult:
    """All figures of a run.

    Attributes:
        name: Name of the benchmark.
        plan: Its plan.
        options: Further options, such as the number of flows.
        rounds: What was measured together -> numbers of rounds.
        metrics: Figures by their stable names.
        about: Command line, git revision, date and machine.
    """

    name: str
    plan: Plan
    options: Mapping[str, Any] = field(default_factory=dict)
    rounds: dict[str, Tally] = field(default_factory=dict)
    metrics: dict[str, Metric] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=lambda: describe_run())

    def add(self, metric: str, values: Sequence[float], unit: str, goal: str | None = None) -> None:
        """Add a figure from its values, one per round.

        Args:
            metric: Stable name.
            values: At least one value.
            unit: Unit of the values.
            goal: "<= x", ">= x" or "x - y".

        Raises:
            ValueError: If there is no value.
        """
        if not values:
            raise ValueError(f"{self.name}: no value was measured for {metric}")
        self.metrics[metric] = Metric(tuple(map(float, values)), unit, goal)

    @property
    def made(self) -> str:
        """Date, revision and machine as text."""
        return about_text(self.about)

    @property
    def exit_code(self) -> int:
        """Exit code of the command."""
        return 0

    def to_json(self) -> str:
        """Return the run as a JSON object."""
        return records.dumped(
            {
                "format": FORMAT,
                "name": self.name,
                **self.about,
                "plan": asdict(self.plan),
                "options": dict(self.options),
                "rounds": {title: asdict(tally) for title, tally in self.rounds.items()},
                "metrics": {name: metric.as_dict() for name, metric in self.metrics.items()},
            }
        )

    @classmethod
    def from_json(cls, text: str, where: str) -> Self:
        """Return a kept run.

        Raises:
            BenchError: `bench.cannot_read`.
        """
        try:
            reported = json.loads(text)
            if reported["format"] != FORMAT:
                raise ValueError(f"its format is {reported['format']}, not {FORMAT}")
            return cls(
                name=reported["name"],
                plan=Plan(**reported["plan"]),
                options=reported["options"],
                rounds={title: Tally(**tally) for title, tally in reported["rounds"].items()},
                metrics={
                    name: Metric(tuple(one["values"]), one["unit"], one["goal"])
                    for name, one in reported["metrics"].items()
                },
                about={name: reported[name] for name in ("command", "git", "date", "host")},
            )
        except (ValueError, KeyError, TypeError) as error:
            raise BenchError(
                "bench.cannot_read",
                "the file does not contain the result of a benchmark",
                where,
                f"{type(error).__name__}: {error}",
                "create the file again with `ccp bench NAME --keep FOLDER`",
            ) from error

    def keep(self, folder: Path) -> Path:
        """Write the run to NAME.json in a folder, which is created if it is missing, and return the file.

        Raises:
            ResultError: `result.cannot_write`.
        """
        return write_text(folder / f"{self.name}.json", self.to_json(), KEEP_FIX)

    def print(self, console: Console) -> None:
        """Print the run as a table."""
        host = self.about["host"]
        table = Table(title=f"{self.name}: {host['kernel']}, {host['cores']} cores", box=SIMPLE)
        for column in ("metric", "median", "95 % interval", "unit", "goal", ""):
            justify: Literal["left", "right"] = "right" if column in {"median", "95 % interval"} else "left"
            # Only names wrap in a narrow terminal.
            table.add_column(column, justify=justify, no_wrap=column != "metric", overflow="fold")
        for name, metric in self.metrics.items():
            verdict = verdict_text(metric)
            color = _COLORS.get(metric.verdict or "")
            table.add_row(
                name,
                short(metric.value),
                interval(metric),
                metric.unit,
                metric.goal or "",
                f"[{color}]{verdict}" if color else verdict,
            )
        console.print(table)
        for title, tally in self.rounds.items():
            console.print(f"{title}: {rounds_text(tally)}", highlight=False)


def about_text(about: Mapping[str, Any]) -> str:
    """Return date, revision and machine of a result of `describe_run` as text."""
    git, host = about["git"], about["host"]
    changed = " with changes" if git and git["dirty"] else ""
    revision = f"`{git['commit'][:12]}`{changed}" if git else "unknown revision"
    machine = f"Linux {host['kernel']}, {host['cpu']}, {host['cores']} processors"
    return f"{about['date'][:10]}, {revision}, {machine}."


def interval(metric: Metric) -> str:
    """Return the interval of a figure for a table; empty without one."""
    found = metric.estimate
    return "" if math.isnan(found.low) else f"{short(found.low)} - {short(found.high)}"


def verdict_text(metric: Metric) -> str:
    """Return the verdict for a table, with the rounds that would decide it."""
    if metric.verdict == "undecided" and metric.rounds_needed is not None:
        return f"undecided (try {short(metric.rounds_needed)} rounds)"
    return metric.verdict or ""


def rounds_text(tally: Tally) -> str:
    """Return how many rounds count, and how many were disturbed, as text."""
    reported = f"{tally.counted} rounds"
    if tally.disturbed:
        causes = ", ".join(f"{cause} {count}" for cause, count in tally.causes.items() if count)
        reported += f", {tally.disturbed} disturbed ({causes})"
    if tally.stopped == "disturbed":
        reported += ", too many to continue"
    return f"{reported}; other processes used at most {tally.taken_ratio:.0%} of the machine"


def short(value: float) -> str:
    """Return a figure with three digits, or as an integer from 1000 on."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def describe_run() -> dict[str, Any]:
    """Return command, revision, date and machine."""
    return {
        "command": ["ccp", *sys.argv[1:]],
        "git": git_revision(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "host": describe_host(),
    }


def describe_host() -> dict[str, str | int]:
    """Return kernel, processors and Python version of this machine."""
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
