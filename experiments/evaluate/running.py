"""Runs the cases for some controllers, and returns what was measured, by case, measure and seed."""

from __future__ import annotations

import contextlib
import resource
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from experiments import left_out, processes
from experiments.evaluate.cases import Case
from experiments.evaluate.controllers import Controller
from experiments.evaluate.errors import EvaluateError
from experiments.evaluate.findings import Finding
from experiments.evaluate.measures import Run
from experiments.evaluate.paths import Traces
from experiments.metrics import NAN
from experiments.results import Result, is_complete
from experiments.runs import reading
from experiments.runs.build import this_build
from experiments.runs.reports import RunReport
from experiments.scenario import Scenario
from experiments.sweep import Grid, PlannedRun, planned, sweep

SIMULATOR: Final = "sim"
SOCKETS: Final = "ebpf"
TITLE: Final = "evaluate"
"""Name of the sweep: evaluations of several controllers share a folder, and with it the runs of CUBIC."""
_POINT: Final = "run"
_BUILD_DIGITS: Final = 12

Key = tuple[str, str, str]
"""Case, measure, controller's algorithm."""
Work = Sequence[tuple[Case, Sequence[Controller]]]
"""Cases, each with the controllers that it is run for."""


@dataclass
class Measurements:
    """What was measured on one side.

    Attributes:
        side: `SIMULATOR` or `SOCKETS`.
        values: A value for each seed; NaN for failed runs.
        runs: Number of runs, shared ones counted once.
        now: Of these, runs that were done now.
        missing: Runs that failed or were not done.
        disturbed: Runs that do not count, because other work disturbed them (`experiments.left_out`).
        wall_s: Time that they took [s].
        cpu_s: Processor time that they took on this machine [s].
        findings: What went wrong in runs.
        folders: Case and controller's algorithm -> the folder of a run to draw, that of the first seed.
    """

    side: str
    values: dict[Key, list[float]] = field(default_factory=dict)
    runs: int = 0
    now: int = 0
    missing: int = 0
    disturbed: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    folders: dict[tuple[str, str], Path] = field(default_factory=dict)


def measure(
    work: Work,
    side: str,
    out: Path,
    *,
    repeats: int,
    jobs: int = 1,
    on: str | None = None,
    run: bool = True,
    report: RunReport | None = None,
) -> Measurements:
    """Do the missing runs on one side, and measure all; runs that were disturbed are missing.

    Args:
        work: The cases, with those that are evaluated and those that they are compared with.
        side: `SIMULATOR` or `SOCKETS`.
        out: Folder of the results; those of the simulator depend on its build.
        repeats: Number of seeds.
        jobs: Number of simultaneous runs.
        on: Address of a Dask scheduler; None for this machine.
        run: Whether to do missing runs.
        report: Receives progress.

    Raises:
        EvaluateError: `evaluate.no_runs`.
        SweepError: As `experiments.sweep.sweep`.
    """
    place = place_of(out, side)
    traces_in(out).write()
    grid = _grid(work, side, repeats)
    found = Measurements(side)
    plan = planned(grid)
    keys = {one.key for one in plan}
    if run and side == SOCKETS:
        _delete_disturbed(place / key for key in keys)
    missing = {key for key in keys if not is_complete(place / key)}
    before_s, cpu_before_s = time.monotonic(), _cpu_s()
    if run and missing:
        here = side == SOCKETS and on is None
        with processes.going_first() if here else contextlib.nullcontext():
            sweep(grid, out=place, jobs=jobs, on=on, report=report)
    found.wall_s, found.cpu_s = time.monotonic() - before_s, _cpu_s() - cpu_before_s
    found.runs = sum(is_complete(place / key) for key in keys)
    found.missing = len(keys) - found.runs
    found.now = sum(is_complete(place / key) for key in missing)
    if not found.runs:
        raise EvaluateError(
            "evaluate.no_runs",
            "there is no run to evaluate",
            str(place),
            "all runs failed" if run else "the folder has none, and --no-run was given",
            "see the failures above" if run else "leave --no-run out",
        )
    _read(work, plan, place, repeats, found)
    return found


def _delete_disturbed(directories: Iterable[Path]) -> None:
    for directory in directories:
        if is_complete(directory) and left_out.why(Result.load(directory)) is not None:
            shutil.rmtree(directory)


def traces_in(out: Path) -> Traces:
    """Return the trace files of an evaluation's folder."""
    return Traces(out / "traces")


def place_of(out: Path, side: str) -> Path:
    """Return the folder of a side's results."""
    return out / (f"{side}-{this_build().native_sha256[:_BUILD_DIGITS]}" if side == SIMULATOR else side)


def _grid(work: Work, side: str, repeats: int) -> Grid:
    points = {}
    first: Scenario | None = None
    for name, scenario in _scenarios(work):
        first = first or scenario
        points[name] = _fields(scenario)
    assert first is not None, "there are cases"
    return Grid(first.replace(datapath=side), {_POINT: points}, TITLE, repeats, own_networks=True)


def _scenarios(work: Work) -> Iterator[tuple[str, Scenario]]:
    for case, controllers in work:
        for lineup, made in case.lineups.items():
            for controller in controllers:
                # Without the controller's name: line-ups without it are run once for all controllers.
                scenario = made(controller.algorithm).replace(name=f"{case.key} {lineup}".strip())
                yield _name(case, lineup, controller), scenario


def _name(case: Case, lineup: str, controller: Controller) -> str:
    return " ".join(one for one in (controller.given, case.key, lineup) if one)


def _fields(scenario: Scenario) -> Mapping[str, Any]:
    fields = reading.full(scenario)
    return {name: fields[name] for name in ("name", "topology", "flows", "duration_s", "events")}


def _read(work: Work, plan: Sequence[PlannedRun], place: Path, repeats: int, found: Measurements) -> None:
    runs_by_name = {(one.axes[_POINT], one.repeat): one for one in plan}
    for case, controllers in work:
        opened: dict[str, Run | None] = {}
        for controller in controllers:
            for repeat in range(repeats):
                runs = {}
                for lineup in case.lineups:
                    one = runs_by_name[_name(case, lineup, controller), repeat]
                    if one.key not in opened:
                        opened[one.key] = _open(place / one.key, one.scenario, case, controller, found)
                    if (read := opened[one.key]) is not None:
                        runs[lineup] = read
                        if not lineup:
                            found.folders.setdefault((case.key, controller.algorithm), place / one.key)
                for what in case.measures:
                    value = what.of(runs) if len(runs) == len(case.lineups) else NAN
                    found.values.setdefault((case.key, what.key, controller.algorithm), []).append(value)


def _open(
    directory: Path, scenario: Scenario, case: Case, controller: Controller, found: Measurements
) -> Run | None:
    if not is_complete(directory):
        return None
    result = Result.load(directory)
    if left_out.why(result) is not None:
        found.disturbed += 1
        return None
    if failed := (result.metadata.get("agent") or {}).get("flows_failed"):
        found.findings.append(
            Finding(
                controller.algorithm,
                "exception",
                f"the algorithm raised an exception on {failed} of its connections, which the fallback then "
                "controlled",
                case.key,
                scenario.seed,
                str(directory / "scenario.yaml"),
            )
        )
    return Run(result, scenario)


def _cpu_s() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)
