"""A report as data: sections with rows, each with a verdict and the evidence for it."""

from __future__ import annotations

import csv
import io
import math
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

from experiments import verdicts
from experiments.statistics import Estimate

Verdict = Literal["holds", "fails", "mixed", "undecided", "tuned", "stale", "not run", "not tested"]

VERDICTS: Final[tuple[Verdict, ...]] = (
    "holds",
    "fails",
    "mixed",
    "undecided",
    "tuned",
    "stale",
    "not run",
    "not tested",
)
"""Verdicts, in the order of the bar.

Mixed: some figures hold and some fail. Tuned: parameters were chosen on these runs. Stale: the result is
older than what made it, or cannot be made again.
"""

Cell = str | int | float | bool | None
"""Content of a table's cell; None if unknown."""


@dataclass(frozen=True)
class Measured:
    """A figure, and the bounds that it is judged by.

    Attributes:
        name: What is measured, as a noun phrase.
        found: The value with its interval.
        at_least: Lower bound, or None.
        at_most: Upper bound, or None.
        unit: Unit of value and bounds; empty without one.
        counted: What `found` counts, in the singular.
        note: What would decide it, or why nothing would, instead of a number of runs.
        given: The verdict, where it is not that of the bounds.
    """

    name: str
    found: Estimate
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""
    counted: str = "run"
    note: str = ""
    given: Verdict | None = None

    @property
    def bounds(self) -> tuple[float, ...]:
        """The bounds that there are, in order."""
        return tuple(sorted({one for one in (self.at_least, self.at_most) if one is not None}))

    @property
    def verdict(self) -> Verdict | None:
        """The verdict; None without a bound or without a value."""
        if self.given is not None:
            return self.given
        if not self.bounds or math.isnan(self.found.value):
            return None
        return verdicts.verdict(self.found, self.at_least, self.at_most)

    @property
    def runs_needed(self) -> int | None:
        """Number of runs that would decide; None if decided, if no number would, or with a note."""
        if self.verdict != "undecided" or self.note:
            return None
        return verdicts.runs_needed(self.found, self.at_least, self.at_most)

    @property
    def distance(self) -> float:
        """Distance of value or interval to the closest bound, relative to the bound; infinite without one."""
        ends = [one for one in (self.found.value, self.found.low, self.found.high) if not math.isnan(one)]
        found = [abs(end - bound) / (abs(bound) or 1.0) for end in ends for bound in self.bounds]
        return min(found, default=math.inf)

    @property
    def alike(self) -> bool:
        """Whether several runs had the same value."""
        return self.found.n > 1 and self.found.low == self.found.high

    @property
    def value_text(self) -> str:
        """The value; with as many digits as distinguish it from the bounds."""
        return "not measured" if math.isnan(self.found.value) else written(self.found.value, self.bounds)

    @property
    def interval_text(self) -> str:
        """The interval in brackets; empty without one, and if all runs are alike."""
        if math.isnan(self.found.low) or self.found.low == self.found.high:
            return ""
        low, high = (written(one, self.bounds) for one in (self.found.low, self.found.high))
        return f"[{low}, {high}]"

    @property
    def bound_text(self) -> str:
        """The bounds with signs; empty without any."""
        low, high = (None if one is None else _as_given(one) for one in (self.at_least, self.at_most))
        if low is not None and high is not None:
            return f"{low} to {high}" if low != high else f"= {low}"
        if low is not None:
            return f"≥ {low}"
        return "" if high is None else f"≤ {high}"

    @property
    def runs_text(self) -> str:
        """Number of runs."""
        n = self.found.n
        if not n:
            return "computed"
        return f"{n} {self.counted}{'s' if n > 1 else ''}{', all alike' if self.alike else ''}"


def written(value: float, apart_from: Iterable[float] = ()) -> str:
    """Return a number with three digits; with more if it would look like a number that it differs from."""
    digits = 3
    if value == 0:
        return "0"
    while digits < 7 and any(
        one != value and float(f"{one:.{digits}g}") == float(f"{value:.{digits}g}") for one in apart_from
    ):
        digits += 1
    size = abs(float(f"{value:.{digits}g}"))
    decimals = digits - 1 - math.floor(math.log10(size))
    if size >= 1e6:
        return f"{value / 1e6:,.{max(0, decimals + 6)}f}M".replace("-", "−")
    if size < 1e-4:
        return f"{value:.{digits}g}".replace("-", "−")
    return f"{value:,.{min(max(0, decimals), 8)}f}".replace("-", "−")


def _as_given(bound: float) -> str:
    text = (
        f"{bound / 1e6:g}M" if abs(bound) >= 1e6 else f"{bound:,.0f}" if bound == int(bound) else f"{bound:g}"
    )
    return text.replace("-", "−")


@dataclass(frozen=True)
class Source:
    """Where results come from.

    Attributes:
        command: The command that measured, with its options.
        date: Date of the measurement.
        revision: Revision of ccplane; whether it had changes.
        kernel: Version of the kernel, or "simulated".
        machine: Processor and number of cores.
        runs: How many runs there are, and how many are left out for which reason.
        seeds: Seeds of the runs.
        more: Further facts, by name.
    """

    command: str
    date: str
    revision: str
    kernel: str
    machine: str
    runs: str = ""
    seeds: str = ""
    more: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, about: Mapping[str, Any], **more: Any) -> Self:
        """Return the source of results from the data of `experiments.bench.result.describe_run`."""
        git, host = about["git"], about["host"]
        revision = f"{git['commit'][:12]}{' with changes' if git['dirty'] else ''}" if git else "unknown"
        known: dict[str, Any] = {
            "kernel": f"Linux {host['kernel']}",
            "machine": f"{host['cpu']}, {host['cores']} processors",
        }
        return cls(_command(about["command"]), about["date"][:10], revision, **known | more)

    @property
    def facts(self) -> dict[str, str]:
        """All facts except the command, without empty ones."""
        found = {
            "runs": self.runs,
            "seeds": self.seeds,
            "date": self.date,
            "revision": self.revision,
            "kernel": self.kernel,
            "machine": self.machine,
            **self.more,
        }
        return {name: text for name, text in found.items() if text}


def _command(words: Sequence[str]) -> str:
    """Return a command without the options that say where results go."""
    left = list(words)
    for option in ("--keep", "--report"):
        while option in left:
            at = left.index(option)
            del left[at : at + 2]
    return shlex.join(left)


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: Name in the CSV file.
        label: Heading.
        unit: Unit on the page; empty without one.
        scale: Factor from the data to that unit.
        is_value: Whether it is a measured value, which figures show, or else distinguishes rows.
        has_interval: Whether the columns NAME.low and NAME.high follow it.
    """

    name: str
    label: str
    unit: str = ""
    scale: float = 1.0
    is_value: bool = False
    has_interval: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Headings in the CSV file."""
        return (self.name, f"{self.name}.low", f"{self.name}.high") if self.has_interval else (self.name,)


@dataclass(frozen=True, eq=False)
class Table:
    """A table; compared by identity, and written once however many rows of the report refer to it.

    Attributes:
        title: Caption.
        file: Name of the CSV file, without suffix.
        columns: The columns.
        rows: Cells in the order of the columns' `names`, in the data's units.
        note: What the cells contain, below the table.
        drawable: Whether the page offers a figure of its values.
    """

    title: str
    file: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    drawable: bool = True

    def csv(self) -> str:
        """Return the table as CSV, in the data's units; unknown cells are empty."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([name for column in self.columns for name in column.names])
        writer.writerows([["" if _unknown(cell) else cell for cell in row] for row in self.rows])
        return out.getvalue()


def _unknown(cell: Cell) -> bool:
    return cell is None or cell != cell


@dataclass(frozen=True)
class Points:
    """A series of a chart.

    Attributes:
        label: Name in the legend.
        x: Positions.
        y: Values; None breaks a line.
        names: Name of each point, shown under the pointer; empty for none.
        line: Whether lines connect the points.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float | None]
    names: Sequence[str] = ()
    line: bool = False


@dataclass(frozen=True)
class Chart:
    """An interactive figure.

    Attributes:
        title: Caption.
        x_label: Label of the horizontal axis, with its unit.
        y_label: Likewise.
        series: What is drawn.
        x_log: Whether the axis is logarithmic.
        y_log: Likewise.
        at_least: Lower bound of good values of y, drawn as a line.
        at_most: Upper bound, likewise.
        low: Lower end of an interval of y, drawn as a band.
        high: Upper end, likewise.
        diagonal_ratio: Draw y = x, with a band of this relative width on either side; None: do not.
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Points]
    x_log: bool = False
    y_log: bool = False
    at_least: float | None = None
    at_most: float | None = None
    low: float | None = None
    high: float | None = None
    diagonal_ratio: float | None = None


@dataclass(frozen=True)
class Picture:
    """A drawn figure.

    Attributes:
        title: Caption, also the text for readers who do not see it.
        svg: The figure.
    """

    title: str
    svg: bytes


@dataclass(frozen=True)
class Evidence:
    """Measurements of a row on one side, such as real sockets.

    Attributes:
        measured: Figures with bounds.
        verdict: Verdict on this side; None if there is nothing to judge.
        summary: What the row shows if nothing is measured.
        source: Where it comes from.
        tables: Tables.
        charts: Interactive figures.
        pictures: Drawn figures.
        marked: Conditions (column -> value) of the table's rows that the row of the report is about.
        value: Name of the column that figures show first.
    """

    measured: Sequence[Measured] = ()
    verdict: Verdict | None = None
    summary: str = ""
    source: Source | None = None
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()
    pictures: Sequence[Picture] = ()
    marked: Sequence[Mapping[str, Any]] = ()
    value: str = ""

    @property
    def deciding(self) -> Measured | None:
        """The figure that decides: one that fails, else undecided, else the closest to its bound.

        Where the verdict is that it holds although figures are undecided, it is the closest that holds.
        """
        known = [one for one in self.measured if not math.isnan(one.found.value)]
        if self.verdict == "holds":
            known = [one for one in known if one.verdict == "holds"] or known
        for verdict in ("fails", "undecided"):
            if found := [one for one in known if one.verdict == verdict]:
                return found[0]
        return min(known, key=lambda one: one.distance, default=None)


@dataclass(frozen=True)
class Row:
    """A claim, a metric, or anything else with a verdict.

    Attributes:
        key: Unique in the report; the address of the row (`#key`).
        title: The claim.
        verdict: The verdict; None if there is nothing to judge.
        sides: Evidence for each side of the section; None where there is none.
        source: Where the claim is made, such as "Figure 3".
        about: How it is tested.
        why: Why it fails or is not tested.
        note: What would decide it, such as a number of runs.
        command: Command that measures it, possibly again; empty if there is none.
        drawing: Command that draws it; empty if there is none.
    """

    key: str
    title: str
    verdict: Verdict | None
    sides: Sequence[Evidence | None] = ()
    source: str = ""
    about: str = ""
    why: str = ""
    note: str = ""
    command: str = ""
    drawing: str = ""


@dataclass(frozen=True)
class Section:
    """Rows of one kind.

    Attributes:
        title: Heading.
        rows: The rows.
        sides: Headings of the rows' sides.
        about: Text below the heading.
        heading: Heading of the rows' titles.
        tables: Tables that belong to no row.
        pictures: Drawn figures that belong to no row.
        counted: Whether the verdicts of its rows are in the bar at the top.
    """

    title: str
    rows: Sequence[Row] = ()
    sides: Sequence[str] = ()
    about: str = ""
    heading: str = "claim"
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    counted: bool = True


@dataclass(frozen=True)
class Report:
    """A report.

    Attributes:
        title: Heading.
        sections: The sections.
        about: Text below the heading.
        subject: What is counted in the bar: a word in the plural.
        words: Word of a verdict on the page, where it is another one.
        tinted: Where figures are on the tinted side of their bounds, as a clause; empty: where claims hold.
        widened: What intervals also include, as the end of "the interval of a median"; empty for nothing.
    """

    title: str
    sections: Sequence[Section]
    about: str = ""
    subject: str = "claims"
    words: Mapping[str, str] = field(default_factory=dict)
    tinted: str = ""
    widened: str = ""

    def word(self, verdict: str) -> str:
        """Return the word of a verdict on the page."""
        return self.words.get(verdict, verdict)

    @property
    def counts(self) -> dict[Verdict, int]:
        """Number of rows with each verdict, without those that no row has."""
        found = Counter(row.verdict for one in self.sections if one.counted for row in one.rows)
        return {verdict: found[verdict] for verdict in VERDICTS if found[verdict]}

    def tables(self) -> dict[Table, str]:
        """Return all tables with an id for each."""
        found: dict[Table, str] = {}
        for section in self.sections:
            of_rows = (side for row in section.rows for side in row.sides if side is not None)
            for table in [*section.tables, *(table for side in of_rows for table in side.tables)]:
                found.setdefault(table, f"table-{len(found) + 1}")
        return found
