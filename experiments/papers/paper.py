"""A paper's experiments: parts, each with one or more sweeps and their findings.

from experiments.papers.flex_cubic.paper import PAPER
from experiments.papers.paper import Size, findings, read_part, run_part

part, size, out = PAPER.parts["grid"], Size(quick=True), "out/papers/flex-cubic"
run_part(part, size, out)
print(findings(part, read_part(part, size, out)).checks)
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pandas as pd

from ccplane.base.errors import UsageError
from experiments import left_out as left_out_rule
from experiments.papers.comparisons import Claim, Comparison
from experiments.papers.estimates import IN_RUN
from experiments.papers.tables import Check, Table, figures_of
from experiments.plots import Plot, save_as
from experiments.results import SWEEP, Result, ResultSet, is_complete
from experiments.runs.reports import RunReport
from experiments.sweep import Grid, estimate_s, planned, sweep
from experiments.writing import cannot_write

FIGURES: Final = "figures"
"""Directory of the figures, in the directory of a paper's results."""


@dataclass(frozen=True)
class Size:
    """How much is run, and where.

    Attributes:
        quick: A few points instead of all.
        repeats: Runs per point; None: the paper's default.
        duration_s: How long each run sends [s]; None: the paper's default.
        datapath: As in scenarios.
        traces: Files of recorded Mahimahi traces, for papers with cellular paths.
    """

    quick: bool = False
    repeats: int | None = None
    duration_s: float | None = None
    datapath: str = "ebpf"
    traces: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Prefix of the grids' names: `quick` or `full`."""
        return "quick" if self.quick else "full"

    def times(self, quick: int, full: int) -> int:
        """Return the runs per point, with these defaults."""
        return self.repeats or (quick if self.quick else full)

    def seconds(self, quick: float, full: float) -> float:
        """Return how long a run sends, with these defaults [s]."""
        return self.duration_s or (quick if self.quick else full)


@dataclass(frozen=True)
class Findings:
    """Tables, figures and checks of a part of a paper's experiments.

    Attributes:
        tables: Estimates with confidence intervals.
        figures: By name of their files.
        checks: Checks of claims.
    """

    tables: Sequence[Table] = ()
    figures: Mapping[str, Plot] = field(default_factory=dict)
    checks: Sequence[Check] = ()


@dataclass(frozen=True)
class Runs:
    """The finished runs of a paper's part.

    Attributes:
        results: Result of each run.
        table: A row for each run: `run`, `repeat`, `seed`, the axes, and the part's `row`. Or the rows of the
            part's measurement.
        planned: Number of planned runs; a measurement is one.
        measured: Whether the measurement is done.
        left_out: Reason why finished runs do not count (`experiments.left_out`) -> their number.
    """

    results: Sequence[Result]
    table: pd.DataFrame
    planned: int
    measured: bool = False
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def done(self) -> int:
        """Number of finished runs."""
        return len(self.results) + sum(self.left_out.values()) + self.measured

    @property
    def first_of_variants(self) -> dict[str, Result]:
        """The first run of each variant."""
        first: dict[str, Result] = {}
        for one in self.results:
            first.setdefault(str(one.axes["variant"]), one)
        return first

    def rows(self, of: Callable[[Result], pd.DataFrame]) -> pd.DataFrame:
        """Return the rows that a function returns for each run, with its `seed` and `IN_RUN`."""
        each = [
            of(one).assign(**{"seed": one.metadata["seed"], IN_RUN: number})
            for number, one in enumerate(self.results)
        ]
        return pd.concat(each, ignore_index=True)


@dataclass(frozen=True)
class Measurement:
    """A measurement without a scenario, kept as one file.

    Attributes:
        rows: Measures, and returns rows of a table.
        estimate_s: Estimated time [s].
    """

    rows: Callable[[Size], Sequence[dict[str, Any]]]
    estimate_s: Callable[[Size], float]


@dataclass(frozen=True)
class Part:
    """A part of a paper's experiments.

    Attributes:
        name: Name on the command line.
        about: What it shows, in a line.
        grids: The grids of a size, with unique names, which are also those of their directories.
        findings: Evaluates finished runs, of which there may be fewer than planned, but at least one.
        row: Conditions and figures of a run, for the table of runs.
        video: Whether it plays video, and so runs only with `--video`.
        measurement: A measurement in addition to the grids.
        comparisons: Comparisons of the paper's claims.
        compared: Returns the table that comparisons use; None: the table of runs.
        own_networks: Whether each repeat has its own network (`experiments.runs.own_network`).
    """

    name: str
    about: str
    grids: Callable[[Size], Sequence[Grid]]
    findings: Callable[[Runs], Findings]
    row: Callable[[Result], dict[str, Any]] = figures_of
    video: bool = False
    measurement: Measurement | None = None
    comparisons: Sequence[Comparison] = ()
    compared: Callable[[Runs], pd.DataFrame] | None = None
    own_networks: bool = True


@dataclass(frozen=True)
class Paper:
    """A paper.

    Attributes:
        name: Name on the command line, and of the directory of its results.
        title: Title of the paper.
        parts: By name, in the order in which they are run.
        claims: The paper's claims, in its order.
    """

    name: str
    title: str
    parts: Mapping[str, Part]
    claims: Sequence[Claim]

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        parts: Sequence[Part],
        claims: Sequence[Claim],
        *,
        own_networks: bool = True,
    ) -> Paper:
        """Return a paper whose parts have the comparisons of its claims; arguments are the attributes."""
        compared = {
            part.name: tuple(test for claim in claims if claim.part == part.name for test in claim.tests)
            for part in parts
        }
        complete = {
            part.name: replace(part, comparisons=compared[part.name], own_networks=own_networks)
            for part in parts
        }
        return cls(name, title, complete, claims)


def grids_of(part: Part, size: Size) -> list[Grid]:
    """Return the grids of a paper's part, on the datapath of the size.

    Raises:
        UsageError: `paper.only_here`, if the part needs this machine's kernel.
    """
    if part.measurement is not None and size.datapath != "ebpf":
        raise UsageError(
            "paper.only_here",
            f"the part {part.name} cannot be run on the datapath {size.datapath}",
            f"--part {part.name}",
            "this part measures this machine and has no scenario",
            "choose other parts with --part",
        )
    return [
        replace(grid, base=grid.base.replace(datapath=size.datapath), own_networks=part.own_networks)
        for grid in part.grids(size)
    ]


def nothing_to_run(_size: Size) -> Sequence[Grid]:
    """Return no grids, for a part without a network."""
    return ()


def directory_of(out: str | Path, part: Part, grid: Grid) -> Path:
    """Return the directory of a grid's runs, in the directory of a paper's results."""
    return Path(out) / part.name / grid.title


def _measured(part: Part, size: Size, out: str | Path) -> Path:
    return Path(out) / part.name / f"{size.name}.json"


@dataclass(frozen=True)
class Extent:
    """Number and duration of the runs of a paper's part.

    Attributes:
        planned: Number of runs.
        missing: Number of runs that are not done.
        estimate_s: Estimated time for the missing runs [s]; None in the simulator.
    """

    planned: int
    missing: int
    estimate_s: float | None


def extent(part: Part, size: Size, out: str | Path, jobs: int = 1) -> Extent:
    """Return how many runs a part has, and the estimated time of the missing ones with `jobs` parallel runs.

    Raises:
        ScenarioError: If a point is not valid.
    """
    n_planned, n_missing = 0, 0
    took_s: list[float | None] = []
    for grid in grids_of(part, size):
        runs = {one.key: one for one in planned(grid)}
        there = directory_of(out, part, grid)
        missing = [one for key, one in runs.items() if not is_complete(there / key)]
        n_planned, n_missing = n_planned + len(runs), n_missing + len(missing)
        took_s.append(estimate_s(missing, jobs))
    if part.measurement is not None:
        n_planned += 1
        if not _measured(part, size, out).exists():
            n_missing += 1
            took_s.append(part.measurement.estimate_s(size))
    known_s = [one for one in took_s if one is not None]
    return Extent(n_planned, n_missing, sum(known_s) if len(known_s) == len(took_s) else None)


def run_part(
    part: Part,
    size: Size,
    out: str | Path,
    *,
    jobs: int = 1,
    on: str | None = None,
    report: RunReport | None = None,
) -> None:
    """Do all missing runs of a paper's part.

    Args:
        part: The part.
        size: How much is run.
        out: Directory of the paper's results.
        jobs: Number of parallel runs; those with ccplane's algorithms take turns.
        on: Where to run instead, as `experiments.sweep.sweep`; a measurement always runs on this machine.
        report: Receives progress.

    Raises:
        SweepError: As `experiments.sweep.sweep`.
        ScenarioError: If a point is not valid; nothing of its grid was run then.
        ResultError: If results cannot be read or written.
    """
    for grid in grids_of(part, size):
        sweep(grid, out=directory_of(out, part, grid), jobs=jobs, on=on, report=report)
    file = _measured(part, size, out)
    if part.measurement is not None and not file.exists():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)  # fails before a long measurement, not after
            text = json.dumps(list(part.measurement.rows(size)), indent=2)
            file.write_text(text)
        except OSError as error:
            raise cannot_write(file, error) from error


def read_part(part: Part, size: Size, out: str | Path) -> Runs:
    """Return the finished, valid runs of one part of a paper; run nothing.

    Raises:
        ResultError: If results cannot be read.
    """
    results: list[Result] = []
    left_out: Counter[str] = Counter()
    n_planned = 0
    for grid in grids_of(part, size):
        there = directory_of(out, part, grid)
        if (there / SWEEP).exists():
            found = ResultSet.load(there)
            reasons = [left_out_rule.why(one) for one in found]
            results += [one for one, reason in zip(found, reasons, strict=True) if reason is None]
            left_out.update(reason for reason in reasons if reason is not None)
            n_planned += len(found.planned)
        else:
            n_planned += len(planned(grid))
    if part.measurement is None:
        return Runs(results, table_of(results, part.row), n_planned, left_out=dict(left_out))
    file = _measured(part, size, out)
    rows = json.loads(file.read_text()) if file.exists() else []
    return Runs(results, pd.DataFrame(rows), n_planned + 1, file.exists(), dict(left_out))


def table_of(results: Iterable[Result], row: Callable[[Result], dict[str, Any]] = figures_of) -> pd.DataFrame:
    """Return a table with a row for each run: `run`, `repeat`, `seed`, the axes, and the columns of `row`."""
    return pd.DataFrame(
        [
            {
                "run": one.directory.name if one.directory else "",
                "repeat": one.repeat,
                "seed": one.metadata["seed"],
                **one.axes,
                **row(one),
            }
            for one in results
        ]
    )


def findings(part: Part, runs: Runs) -> Findings:
    """Return the tables, figures and checks of runs; nothing while no planned run is valid."""
    if runs.planned and not len(runs.results) + runs.measured:
        return Findings()
    found = part.findings(runs)
    table = runs.table if part.compared is None else part.compared(runs)
    return replace(found, checks=[*found.checks, *(one.check(table) for one in part.comparisons)])


def draw(found: Findings, out: str | Path, formats: Sequence[str] = ("png",)) -> list[Path]:
    """Write the figures to `figures` in the directory of the paper's results, and return the files.

    Raises:
        MetricError: `plot.format`.
        ResultError: `result.cannot_write`.
    """
    files: list[Path] = []
    for name, figure in found.figures.items():
        try:
            files += save_as(figure, Path(out) / FIGURES, name, formats)
        except OSError as error:
            raise cannot_write(Path(out) / FIGURES, error) from error
    return files
