"""Doing the runs of the comparison: round by round, each kept, none done twice."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pandas as pd

from ccplane.base import _native
from experiments import runs
from experiments.results import Result, is_complete
from experiments.runs import reading
from experiments.runs.reports import Report
from experiments.scenario import Scenario
from experiments.sweep import Grid, planned, sweep
from experiments.validation.cases import CASES, QUICK, in_round
from experiments.validation.comparison import KERNEL, SIMULATOR, row_of

DATAPATHS: Final = (KERNEL, SIMULATOR)
_CASE: Final = "case"
_BUILD_DIGITS: Final = 12


@dataclass(frozen=True)
class Extent:
    """What is run.

    Attributes:
        cases: Names of scenarios.
        rounds: How often each is run on each datapath.
        datapaths: On which.
        known: Name -> scenario of its first round.
    """

    cases: Sequence[str]
    rounds: int
    datapaths: Sequence[str] = DATAPATHS
    known: Mapping[str, Scenario] = field(default_factory=lambda: CASES)

    @property
    def n_runs(self) -> int:
        """How many runs it has."""
        return len(self.cases) * self.rounds * len(self.datapaths)

    @classmethod
    def of(cls, *, quick: bool, cases: Sequence[str], rounds: int | None, datapaths: Sequence[str]) -> Extent:
        """Return what options ask for: without cases all of them, or a few if `quick`."""
        chosen = tuple(cases) or (QUICK if quick else tuple(CASES))
        return cls(chosen, rounds or (2 if quick else 5), tuple(datapaths) or DATAPATHS)


def collect(
    extent: Extent, out: Path, *, jobs: int = 1, run: bool = True, report: Report | None = None
) -> pd.DataFrame:
    """Do the runs that are not done yet, and return what all come to.

    Args:
        extent: What is run.
        out: Directory of the results. Those of the simulator are kept by its build: a new one runs again.
        jobs: How many runs at once; those with ccplane's algorithms take turns.
        run: Whether to run what is missing.
        report: Told how it goes.

    Returns:
        A row for each run, as of `comparison.row_of`, in the order of the scenarios. Failed runs are missing.

    Raises:
        SweepError: As `experiments.sweep.sweep`.
        ResultError: If results cannot be read or written.
    """
    rows: list[dict[str, Any]] = []
    for number in range(1, extent.rounds + 1):
        for datapath in extent.datapaths:
            grid = _grid(extent, number, datapath)
            done = _results(grid, _place(out, datapath, number), jobs, run, report)
            rows += [row_of(one) | {"round": number} for one in done]
    order = {name: place for place, name in enumerate(extent.cases)}
    columns = ["case", "datapath", "round"]
    table = pd.DataFrame(rows) if rows else pd.DataFrame(columns=[*columns, "late_us"])
    return table.sort_values(columns, key=lambda one: one.map(order) if one.name == _CASE else one)


def _grid(extent: Extent, number: int, datapath: str) -> Grid:
    """Return the scenarios of one round on one datapath, as points of one axis."""
    points = {name: _fields(in_round(extent.known[name], number)) for name in extent.cases}
    base = extent.known[extent.cases[0]].replace(datapath=datapath)
    return Grid(base, {_CASE: points}, f"{datapath}, round {number}")


def _fields(scenario: Scenario) -> Mapping[str, Any]:
    fields = reading.full(scenario)
    return {name: fields[name] for name in ("name", "topology", "flows", "duration_s", "seed")}


def _place(out: Path, datapath: str, number: int) -> Path:
    return out / (f"{SIMULATOR}-{_build()}" if datapath == SIMULATOR else datapath) / f"round-{number}"


def _build() -> str:
    """Return what changes with the simulator: the extension, and what runs scenarios on it."""
    digest = hashlib.sha256(Path(_native.__file__).read_bytes())
    for file in sorted(Path(runs.__file__).parent.glob("sim*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:_BUILD_DIGITS]


def _results(grid: Grid, place: Path, jobs: int, run: bool, report: Report | None) -> list[Result]:
    if run:
        sweep(grid, out=place, jobs=jobs, report=report)
    return [Result.load(place / one.key) for one in planned(grid) if is_complete(place / one.key)]
