"""Sweeps: many runs of one scenario with axes of variation.

    from experiments.sweep import Grid, sweep

    results = sweep(Grid.load("experiments/scenarios/buffers.yaml"), out="out/buffers", jobs=2)
    print(results.table().groupby("links.bottleneck.forward.buffer.bdp")["goodput_bytes_per_s"].median())

Each run has its own directory in `out`, named by the hash of everything it depends on. Existing runs are not
repeated: an interrupted sweep resumes where it was, and an extended grid only does its new runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from pathlib import Path
from typing import Any, Final

from ccplane.base.errors import CcpError, LoadError
from experiments.errors import SweepError
from experiments.results import FORMAT, SWEEP, ResultSet, is_complete
from experiments.run import recorder_of, run
from experiments.runs import files, places
from experiments.runs.check import SIM
from experiments.runs.cluster import Cluster, address_of
from experiments.runs.grid import Grid
from experiments.runs.own_network import own_network
from experiments.runs.planned import PlannedRun
from experiments.runs.reports import RunReport
from experiments.runs.session import Progress
from experiments.runs.workers import Workers
from experiments.scenario import Scenario
from experiments.writing import cannot_write

__all__ = ["Grid", "PlannedRun", "planned", "sweep"]

KEY_DIGITS: Final = 16
_HOPELESS: Final = frozenset(
    {"lab.not_permitted", "lab.no_tun", "lab.no_qdisc", "lab.no_command", "lab.no_video", "run.datapath"}
)
"""Errors that all runs on this machine would share."""
_HOPELESS_IN_A_ROW: Final = 3


def planned(grid: Grid, repeats: int | None = None) -> list[PlannedRun]:
    """Return all runs of a grid, round by round; each round has all points, and starts with a different one.

    So a slow phase of the machine affects all points alike.

    Args:
        grid: The grid.
        repeats: Number of runs per point; None for the grid's number.

    Raises:
        ScenarioError: The error, if a point is invalid.
        Several: All errors, if there are several.
    """
    runs = []
    points = grid.points()
    content = functools.cache(files.content)  # hashing all sources takes longer than a simulated run
    for repeat in range(grid.repeats if repeats is None else repeats):
        first = repeat % len(points)
        for point in points[first:] + points[:first]:
            scenario = point.scenario.replace(seed=point.scenario.seed + repeat)
            if grid.own_networks:
                scenario = own_network(scenario)
            runs.append(
                PlannedRun(files.content_hash(scenario, content)[:KEY_DIGITS], point.axes, repeat, scenario)
            )
    return runs


def estimate_s(runs: list[PlannedRun], jobs: int) -> float | None:
    """Return the approximate duration of runs; runs that take turns are added up [s].

    None if some are simulated: their duration depends on their amount of traffic.
    """
    if any(one.scenario.datapath == SIM for one in runs):
        return None
    with_agent_s = sum(one.estimate_s for one in runs if one.takes_turns)
    return max(with_agent_s, sum(one.estimate_s for one in runs) / jobs)


def sweep(
    grid: Grid,
    *,
    out: str | Path,
    repeats: int | None = None,
    jobs: int = 1,
    executor: Executor | None = None,
    on: str | None = None,
    report: RunReport | None = None,
) -> ResultSet:
    """Do all runs of a grid that are not done yet.

    Args:
        grid: The grid.
        out: Directory for the results; an earlier sweep of the same name is resumed.
        repeats: Number of runs per point; None for the grid's number.
        jobs: Number of parallel runs, in processes of this machine. Runs with ccplane's algorithms take
            turns.
        executor: Does the runs instead; has the interface of `concurrent.futures`. It must see `out` under
            the same path.
        on: `dask://HOST:PORT`: the workers of this Dask scheduler do the runs, on any machine.
        report: Receives the progress; None for no reports.

    Returns:
        The results, without failed runs; `ResultSet.failed` gives the reasons.

    Raises:
        ScenarioError: If a point of the grid is invalid; nothing was run then.
        SweepError: `sweep.other`, `sweep.busy`, `sweep.workers`, or `sweep.aborted` if all runs fail alike;
            `sweep.two_places` or `sweep.bad_place`, and those of `experiments.runs.cluster`.
        ResultError: If the results cannot be written.
    """
    out, report = Path(out), report or RunReport()
    address = None if on is None else _elsewhere(on, jobs, executor)
    runs = planned(grid, repeats)
    for one in runs:
        recorder_of(one.scenario)
    with _own(out, grid.title):
        _write_plan(out, grid, runs)
        missing = list({one.key: one for one in runs if not is_complete(out / one.key)}.values())
        here = executor is None and address is None
        with contextlib.ExitStack() as stack:
            cluster = None
            if address is not None and missing:
                cluster = stack.enter_context(Cluster(address))
                cluster.check(missing)
            here = executor is None and address is None
            report.begin(grid.title, runs, missing, estimate_s(missing, jobs) if here else None)
            try:
                if cluster is not None:
                    _on_cluster(missing, out, report, cluster)
                elif here and jobs == 1:
                    _one_by_one(missing, out, report)
                elif here:
                    _on_workers(missing, out, report, jobs)
                elif executor is not None:
                    _on_executor(missing, out, report, executor)
            finally:
                results = ResultSet.load(out)
                report.end(results)
    return results


def _one_by_one(missing: list[PlannedRun], out: Path, report: RunReport) -> None:
    judge = _Judge()
    for one in missing:
        report.started(one)
        error = _do(one.scenario, out / one.key, functools.partial(report.during, one))
        report.done(one, error)
        judge.take(error)


def _on_workers(missing: list[PlannedRun], out: Path, report: RunReport, jobs: int) -> None:
    with Workers(jobs) as workers:
        try:
            _on_executor(missing, out, report, workers)
        except BrokenExecutor as error:
            raise SweepError(
                "sweep.workers",
                "a worker process died",
                why=str(error),
                fix="see the lines above; a script that sweeps with jobs needs `if __name__ == '__main__':`, "
                "because the worker processes import it",
            ) from error
        except BaseException:
            workers.stop()
            raise


def _on_executor(missing: list[PlannedRun], out: Path, report: RunReport, executor: Executor) -> None:
    judge = _Judge()
    place = str(out.absolute())
    futures: dict[Future[dict[str, str] | None], PlannedRun] = {}
    try:
        for one in missing:
            report.started(one)
            futures[executor.submit(do_remotely, one.scenario.plain(), f"{place}/{one.key}")] = one
        pending = set(futures)
        while pending:
            finished, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in finished:
                reported = future.result()
                error = None if reported is None else CcpError(**reported)
                report.done(futures[future], error)
                judge.take(error)
    except BaseException:
        for future in futures:
            future.cancel()
        raise


def _on_cluster(missing: list[PlannedRun], out: Path, report: RunReport, cluster: Cluster) -> None:
    from experiments.runs import away

    judge = _Judge()
    for one in missing:
        report.started(one)
    for one, outcome in cluster.outcomes(missing):
        error = away.put(outcome, out / one.key)
        report.done(one, error)
        judge.take(error)


def _elsewhere(on: str, jobs: int, executor: Executor | None) -> str:
    """Return the address of the scheduler whose workers do the runs.

    Raises:
        SweepError: `sweep.two_places`, `sweep.bad_place`.
    """
    if jobs != 1 or executor is not None:
        raise SweepError(
            "sweep.two_places",
            "runs cannot be done both here and on a cluster",
            f"--on {on}",
            "`jobs` and `executor` are for runs on this machine, not on a cluster",
            "omit --jobs: the cluster runs as many at a time as its workers have threads",
        )
    return address_of(on)


def do_remotely(scenario: dict[str, Any], out: str) -> dict[str, str] | None:
    """Do one run in an executor's process.

    Returns:
        None, or the parts of the error that stopped the run.
    """
    error = _do(Scenario.parse(scenario), Path(out), None)
    return None if error is None else error.as_dict()


def _do(scenario: Scenario, out: Path, progress: Progress | None) -> CcpError | None:
    try:
        run(scenario, out, progress=progress)
    except CcpError as error:
        return error
    return None


class _Judge:
    """Aborts a sweep whose runs cannot succeed."""

    def __init__(self) -> None:
        self._slugs: list[str] = []
        self._any_done = False

    def take(self, error: CcpError | None) -> None:
        if error is None:
            self._any_done = True
            return
        self._slugs.append(error.slug)
        hopeless = error.slug in _HOPELESS or isinstance(error, LoadError)
        alike = len(self._slugs) >= _HOPELESS_IN_A_ROW and len(set(self._slugs)) == 1
        if hopeless or (alike and not self._any_done):
            raise SweepError(
                "sweep.aborted",
                "the sweep was aborted",
                error.where,
                f"the runs of the sweep cannot succeed: {error.message}"
                + (f" ({error.why})" if error.why else ""),
                error.fix,
            ) from error


@contextlib.contextmanager
def _own(out: Path, title: str) -> Iterator[None]:
    """Lock a sweep's directory during a `with` block."""
    try:
        made = not out.exists()
        out.mkdir(parents=True, exist_ok=True)
        if made:
            places.give_away(out)
        directory = os.open(out, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise cannot_write(out, error) from error
    try:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SweepError(
                "sweep.busy",
                f"another sweep is running in {out}",
                str(out),
                fix="wait until that sweep ends, or choose another directory with --out",
            ) from None
        if (out / SWEEP).exists():
            there = ResultSet.load(out).name
        elif any(out.iterdir()):
            there = "something other than a sweep"
        else:
            there = title
        if there != title:
            raise SweepError(
                "sweep.other",
                f"{out} holds the runs of `{there}`, not of `{title}`",
                str(out),
                fix="choose another directory with --out",
            )
        yield
    finally:
        os.close(directory)


def _write_plan(out: Path, grid: Grid, runs: list[PlannedRun]) -> None:
    plan = {
        "format": FORMAT,
        "name": grid.title,
        "axes": list(grid.axes),
        "runs": [
            {"key": one.key, "axes": one.axes, "repeat": one.repeat, "seed": one.scenario.seed}
            for one in runs
        ],
    }
    try:
        partly = out / f".{SWEEP}"
        partly.write_text(json.dumps(plan, indent=1))
        places.give_away(partly)
        partly.replace(out / SWEEP)
    except OSError as error:
        raise cannot_write(out / SWEEP, error) from error
