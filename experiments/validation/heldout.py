"""Distribution of the simulator's errors on randomly drawn scenarios.

A case's error compares one simulated run with one run of the kernel. The same code compares another run of
the kernel with that run.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

import msgspec
import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from experiments import records
from experiments.bench.errors import BenchError
from experiments.bench.result import KEEP_FIX, describe_run
from experiments.metrics import NAN
from experiments.statistics import share_interval
from experiments.validation import rules
from experiments.validation.drawing import Drawn
from experiments.validation.running import KERNEL, SIMULATOR
from experiments.writing import write_text

FORMAT: Final = 1
"""Format of kept results."""

MIN_RETRANS_PKTS: Final = 25.0
"""Minimum denominator of the error of retransmissions: 20 % of this number are 5 packets."""
RATE_BOUNDS_MBIT: Final = (10.0, 100.0)
FAST: Final = f" above {RATE_BOUNDS_MBIT[1]:g} Mbit/s"
"""Suffix of kinds of paths with fast bottlenecks, which have larger errors."""

Figures = Mapping[str, float]
"""A run's round, and its value of each of `QUANTITIES`."""


@dataclass(frozen=True)
class Quantity:
    """A compared quantity.

    Attributes:
        column: Column of a run's row.
        description: Label.
        goal: Maximum error: a ratio; for the index, a difference.
        scale: Factor from the error to the printed error.
        unit: Unit of the printed error.
        value_scale: Factor from the value to the printed value.
        value_unit: Unit of the printed value.
    """

    column: str
    description: str
    goal: float
    scale: float = 100.0
    unit: str = " %"
    value_scale: float = 1.0
    value_unit: str = ""

    def error(self, value: float, kernel: float) -> float:
        """Return the error of a value; NaN if the value or the kernel's value is unknown."""
        away = abs(value - kernel)
        if self.column == "jain_index":
            return away
        if self.column == "retrans_pkts":
            return away / max(kernel, MIN_RETRANS_PKTS)
        return away / kernel if kernel else NAN

    def value(self, value: float) -> str:
        """Return a value as text, without its unit."""
        scaled = value * self.value_scale
        return f"{scaled:.0f}" if self.column == "retrans_pkts" else f"{scaled:.3g}"

    def written(self, error: float) -> str:
        """Return an error as text."""
        return f"{error * self.scale:.{2 if self.scale == 1 else 1}f}{self.unit}"


QUANTITIES: Final = (
    Quantity("goodput_bytes_per_s", "goodput", 0.03, value_scale=8e-6, value_unit=" Mbit/s"),
    Quantity("rtt_p50_us", "RTT p50", 0.05, value_scale=1e-3, value_unit=" ms"),
    Quantity("rtt_p95_us", "RTT p95", 0.05, value_scale=1e-3, value_unit=" ms"),
    Quantity("retrans_pkts", "retransmitted", 0.20),
    Quantity("jain_index", "fairness", 0.05, 1.0, ""),
)


SORTS: Final = ("all", "path", "rate", "flows", "algorithm")
"""What groups of cases have in common, in the order of the table."""


class Case(msgspec.Struct, frozen=True):
    """A randomly drawn scenario in results.

    Attributes:
        name: Name of the scenario.
        kind: Kind of its path.
        rate_mbit: Rate of its bottleneck [Mbit/s].
        algorithms: Algorithms, one for each flow.
        description: The path as text.
        scenario: The scenario as plain data.
    """

    name: str
    kind: str
    rate_mbit: float
    algorithms: tuple[str, ...]
    description: str
    scenario: dict[str, Any]

    @property
    def path(self) -> str:
        """Kind of its path, with `FAST` if its bottleneck is."""
        return self.kind + (FAST if self.rate_mbit > RATE_BOUNDS_MBIT[1] else "")

    @property
    def groups(self) -> tuple[tuple[str, str], ...]:
        """Groups in the table, each with what it is about: one of `SORTS`."""
        low, high = RATE_BOUNDS_MBIT
        rate = f"below {low:g}" if self.rate_mbit < low else f"{low:g} to {high:g}"
        return (
            ("all", "all"),
            ("path", self.kind),
            ("rate", f"above {high:g} Mbit/s" if self.rate_mbit > high else f"{rate} Mbit/s"),
            ("flows", "one flow" if len(self.algorithms) == 1 else "2 to 4 flows"),
            *(("algorithm", name) for name in sorted(set(self.algorithms))),
        )


@dataclass(frozen=True)
class Spread:
    """Distribution of the errors of a quantity over cases.

    Attributes:
        median: Median error.
        p90: 90th percentile.
        within: Number of errors within the goal.
        n: Number of errors.
    """

    median: float
    p90: float
    within: int
    n: int

    @classmethod
    def of(cls, errors: Iterable[float], goal: float) -> Self:
        """Return the distribution of errors that are not NaN."""
        known = np.array([one for one in errors if not math.isnan(one)])
        if not known.size:
            return cls(NAN, NAN, 0, 0)
        median, p90 = np.quantile(known, (0.5, 0.9))
        return cls(float(median), float(p90), int((known <= goal).sum()), known.size)

    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval of the share within the goal (Clopper and Pearson)."""
        found = share_interval(self.within, self.n)
        return found.low, found.high


@dataclass
class Heldout:
    """Results of randomly drawn scenarios.

    Attributes:
        cases: The scenarios.
        rows: The row of `running.row_of` for each run.
        about: Command line, git revision, date and machine.
    """

    cases: Sequence[Case]
    rows: pd.DataFrame
    about: dict[str, Any]

    @classmethod
    def of(cls, drawn: Sequence[Drawn], rows: pd.DataFrame) -> Self:
        """Return the result of runs that were done now."""
        cases = [
            Case(one.name, one.kind, one.rate_mbit, one.algorithms, one.description, one.scenario.plain())
            for one in drawn
        ]
        return cls(cases, rows, describe_run())

    @classmethod
    def merged(cls, draws: Iterable[Heldout]) -> Self:
        """Return several draws as one, with the description of the first."""
        each = list(draws)
        return cls(
            [case for one in each for case in one.cases],
            pd.concat([one.rows for one in each], ignore_index=True),
            each[0].about,
        )

    def left_out(self) -> dict[str, int]:
        """Return the number of excluded runs of the kernel, for each of `rules.REASONS`."""
        return rules.judged(self.rows)[1]

    def errors(self) -> dict[str, dict[str, float]]:
        """Return the simulator's errors, case -> column -> error, for cases with valid runs."""
        return _errors(self.pairs())

    def kernels_own(self) -> dict[str, dict[str, float]]:
        """Return the errors of another run of the kernel, for cases with two valid runs."""
        return _errors((name, own[0], own[1]) for name, own in self._counting(KERNEL).items() if len(own) > 1)

    def median_errors(self) -> dict[str, dict[str, float]]:
        """Return the errors of the simulator's median over the rounds, relative to the kernel's median."""
        kernel, simulated = self._counting(KERNEL), self._counting(SIMULATOR)
        return _errors(
            (one.name, _median(kernel[one.name]), _median(simulated[one.name]))
            for one in self.cases
            if one.name in kernel and one.name in simulated
        )

    def spreads(self, group: str, errors: dict[str, dict[str, float]]) -> list[Spread]:
        """Return the errors' distribution over a group of cases, for each of `QUANTITIES`.

        Fairness counts for cases with several flows.
        """
        own = [one for one in self.cases if group in {name for _, name in one.groups} and one.name in errors]
        return [
            Spread.of(
                (
                    errors[one.name][what.column]
                    for one in own
                    if what.column != "jain_index" or len(one.algorithms) > 1
                ),
                what.goal,
            )
            for what in QUANTITIES
        ]

    def groups(self) -> dict[str, int]:
        """Return the groups of cases with errors, and their sizes, in the order of `SORTS`."""
        judged = self.errors()
        counted = Counter(group for one in self.cases if one.name in judged for group in one.groups)
        ordered = sorted(counted, key=lambda one: (SORTS.index(one[0]), one[1]))
        return {group[1]: counted[group] for group in ordered}

    def cells(self) -> list[list[str]]:
        """Return the table: group, number of cases, and median, p90 and share within the goal."""
        errors, own = self.errors(), self.kernels_own()
        lines = [
            [group, str(count), *map(_cell, QUANTITIES, self.spreads(group, errors))]
            for group, count in self.groups().items()
        ]
        repeated = [*map(_cell, QUANTITIES, self.spreads("all", own))]
        return [*lines, ["kernel against itself", str(len(own)), *repeated]]

    def missed(self) -> list[list[str]]:
        """Return cases outside a goal: name, path, algorithms, the kernel's runs / the simulator's run."""
        errors, description = self.errors(), {one.name: one for one in self.cases}
        runs = self._counting(KERNEL)
        lines = []
        for name, _, simulator in self.pairs():
            missed = [
                f"{one.description} {' and '.join(one.value(run[one.column]) for run in runs[name])} / "
                f"{one.value(simulator[one.column])}{one.value_unit}"
                for one in QUANTITIES
                if errors[name][one.column] > one.goal
            ]
            if missed:
                case = description[name]
                lines.append(
                    [name, case.description, ", ".join(_counted(case.algorithms)), "; ".join(missed)]
                )
        return lines

    def pairs(self) -> Iterator[tuple[str, Figures, Figures]]:
        """Yield case, the kernel's first valid run and the simulator's run of the same round."""
        simulated = self._counting(SIMULATOR)
        for name, (first, *_) in self._counting(KERNEL).items():
            for run in simulated.get(name, ()):
                if run["round"] == first["round"]:
                    yield name, first, run

    def _counting(self, datapath: str) -> dict[str, list[Figures]]:
        """Return the valid runs of each case that has some, in the order of the cases and rounds."""
        rows = rules.judged(self.rows[self.rows["datapath"] == datapath])[0]
        found: dict[str, list[Figures]] = {one.name: [] for one in self.cases}
        for row in rows.sort_values("round").to_dict("records"):
            figures = {one: float(row[one]) for one in ("round", *(what.column for what in QUANTITIES))}
            found[row["case"]].append(figures)
        return {name: runs for name, runs in found.items() if runs}

    # Results

    def to_json(self) -> str:
        """Return the result as a JSON object."""
        runs = json.loads(self.rows.to_json(orient="records"))
        spreads = {
            group: {
                what.column: asdict(spread)
                for what, spread in zip(QUANTITIES, self.spreads(group, self.errors()), strict=True)
                if spread.n
            }
            for group in self.groups()
        }
        description = {"format": FORMAT, **self.about, "left_out": self.left_out(), "spreads": spreads}
        return records.dumped({**description, "cases": msgspec.to_builtins(self.cases), "runs": runs})

    @classmethod
    def from_json(cls, text: str, where: str) -> Self:
        """Return a kept result.

        Raises:
            BenchError: `bench.cannot_read`.
        """
        try:
            description = json.loads(text)
            if description["format"] != FORMAT:
                raise ValueError(f"its format is {description['format']}, not {FORMAT}")
            rows = pd.DataFrame(description["runs"])
            figures = [one.column for one in QUANTITIES]
            return cls(
                msgspec.convert(description["cases"], list[Case]),
                rows.astype(dict.fromkeys(figures, float)),
                {name: description[name] for name in ("command", "git", "date", "host")},
            )
        except (ValueError, KeyError, TypeError) as error:
            raise BenchError(
                "bench.cannot_read",
                "the file does not contain results of randomly drawn scenarios",
                where,
                f"{type(error).__name__}: {error}",
                "create the file again with `ccp validate --draw N --seed S --keep FOLDER`",
            ) from error

    def keep(self, file: Path) -> None:
        """Write the result to a file, whose folder is created if it is missing.

        Raises:
            ResultError: `result.cannot_write`.
        """
        write_text(file, self.to_json(), KEEP_FIX)

    def print(self, console: Console) -> None:
        """Print the scenarios, the errors, and the cases outside the goals."""
        console.print(
            _table(
                "drawn",
                ["case", "path", "flows"],
                [[one.name, one.description, ", ".join(_counted(one.algorithms))] for one in self.cases],
            )
        )
        console.print(_table("errors: median / p90, within the goal", HEADINGS, self.cells()))
        console.print(
            _table("outside the goals", ["case", "path", "flows", "kernel / simulator"], self.missed())
        )
        console.print(self.reported_left_out(), highlight=False)

    def reported_left_out(self) -> str:
        """Return the number of excluded runs and cases, and the reasons, as text."""
        kernel = int((self.rows["datapath"] == KERNEL).sum())
        left_out = self.left_out()
        why = "; ".join(f"{count} because {rules.REASONS[name]}" for name, count in left_out.items() if count)
        count = sum(left_out.values())
        description = (
            f"{count} of {kernel} runs of the kernel {'does' if count == 1 else 'do'} not count: {why}"
        )
        if not count:
            description = f"All {kernel} runs of the kernel count"
        cases = len(self.cases)
        missing = cases - len(self.errors())
        without = f"{missing} of {cases} cases have no run that counts"
        return f"{description}. {without if missing else f'All {cases} cases have runs that count'}."


def _errors(pairs: Iterable[tuple[str, Figures, Figures]]) -> dict[str, dict[str, float]]:
    return {
        name: {one.column: one.error(other[one.column], kernel[one.column]) for one in QUANTITIES}
        for name, kernel, other in pairs
    }


def _median(runs: Sequence[Figures]) -> Figures:
    return {what.column: float(np.median([one[what.column] for one in runs])) for what in QUANTITIES}


HEADINGS: Final = ["cases", "n", *(f"{one.description} ({one.written(one.goal)})" for one in QUANTITIES)]


def _cell(what: Quantity, spread: Spread) -> str:
    if not spread.n:
        return ""
    low, high = spread.interval()
    return (
        f"{what.written(spread.median)} / {what.written(spread.p90)}, "
        f"{spread.within} of {spread.n} ({100 * low:.0f} to {100 * high:.0f} %)"
    )


def _counted(names: Sequence[str]) -> list[str]:
    return [f"{count} {name}" if count > 1 else name for name, count in Counter(names).items()]


def _table(title: str, headings: Sequence[str], lines: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title)
    for heading in headings:
        table.add_column(heading)
    for line in lines:
        table.add_row(*line)
    return table
