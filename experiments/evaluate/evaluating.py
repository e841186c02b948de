"""What both commands do: resolve the names, run, and write the files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from ccplane.base.names import close_names
from experiments.evaluate import behaviour, running
from experiments.evaluate.cases import Case, all_cases
from experiments.evaluate.controllers import Controller, references, resolve_all
from experiments.evaluate.errors import EvaluateError
from experiments.evaluate.evaluation import Evaluation
from experiments.runs.reports import RunReport, Screen


@dataclass(frozen=True)
class Order:
    """What the command line asks for.

    Attributes:
        algorithms: Controllers to evaluate.
        against: Controllers to compare them with, in addition to the standard's.
        quick: Whether to simulate only.
        repeats: Number of seeds.
        only: Keys of cases; empty for all.
        out: Folder of the runs.
        jobs: Simultaneous runs; None for one for each processor.
        on: Address of a Dask scheduler.
        run: Whether to do missing runs.
        sample: Share of the cases that also run on real sockets, drawn for each algorithm.
        seed: Seed of this draw.
    """

    algorithms: Sequence[str]
    against: Sequence[str]
    quick: bool
    repeats: int
    only: Sequence[str]
    out: Path
    jobs: int | None = None
    on: str | None = None
    run: bool = True
    sample: float = 1.0
    seed: int = 1


def evaluated(order: Order, report: RunReport | None = None) -> Evaluation:
    """Do the runs of an order, and return what they show.

    With all cases, what fails in the suite `general` of `ccp conform` is a finding.

    Raises:
        EvaluateError: `evaluate.needs_root`, `evaluate.no_case`, or as `controllers.resolve_all`.
        SweepError: As `experiments.sweep.sweep`.
    """
    subjects = resolve_all(order.algorithms, simulate=order.quick)
    others = references(subjects, resolve_all(order.against, simulate=order.quick) if order.against else ())
    cases = chosen(order.only, order.out)
    controllers = tuple(dict.fromkeys((*subjects, *others)))
    sides = sides_of(order, controllers)
    work = {
        running.SIMULATOR: [(case, controllers) for case in cases],
        running.SOCKETS: sampled(cases, subjects, others, order.sample, order.seed),
    }
    found: list[running.Measurements] = []
    for side in sides:
        try:
            found.append(
                running.measure(
                    work[side],
                    side,
                    order.out,
                    repeats=order.repeats,
                    jobs=_jobs(order, side),
                    on=order.on,
                    run=order.run,
                    report=report or Screen(),
                )
            )
        except EvaluateError:
            if order.run or (side == sides[-1] and not found):
                raise
    behaves = [] if order.only or running.SIMULATOR not in sides else behaviour.findings(subjects, order.out)
    return Evaluation.of(subjects, others, cases, order.repeats, found, behaves)


def chosen(only: Sequence[str], out: Path) -> tuple[Case, ...]:
    """Return the cases of some keys, or all.

    Raises:
        EvaluateError: `evaluate.no_case`.
    """
    cases = all_cases(running.traces_in(out).folder)
    known = [one.key for one in cases]
    for key in only:
        if key not in known:
            raise EvaluateError(
                "evaluate.no_case",
                f"there is no case `{key}`",
                f"--only {key}",
                fix=f"{close_names(key, known, 'case')}\n`ccp evaluate --list` lists all",
            )
    return tuple(one for one in cases if not only or one.key in only)


def sampled(
    cases: Sequence[Case],
    subjects: Sequence[Controller],
    others: Sequence[Controller],
    share: float,
    seed: int,
) -> list[tuple[Case, tuple[Controller, ...]]]:
    """Return a share of the cases, drawn for each subject, with the controllers that they are run for.

    The draw of an algorithm is the same whichever others are evaluated.

    Args:
        cases: The cases.
        subjects: Controllers that are evaluated.
        others: Controllers that they are compared with.
        share: Share of the cases, at least one of them.
        seed: Seed of the draw.
    """
    number = max(1, round(share * len(cases)))
    drawn: dict[str, list[Controller]] = {}
    for subject in subjects:
        lots = {case.key: Random(f"{seed} {subject.given} {case.key}").random() for case in cases}
        for key in sorted(lots, key=lots.__getitem__)[:number]:
            drawn.setdefault(key, []).append(subject)
    return [(case, tuple(dict.fromkeys((*drawn[case.key], *others)))) for case in cases if case.key in drawn]


def sides_of(order: Order, controllers: Sequence[Controller]) -> tuple[str, ...]:
    """Return where to run: the simulator, unless it lacks a controller, and without `--quick` real sockets.

    Raises:
        EvaluateError: `evaluate.needs_root`.
    """
    if order.quick:
        return (running.SIMULATOR,)
    if order.run and order.on is None and os.geteuid() != 0:
        raise EvaluateError(
            "evaluate.needs_root",
            "real sockets need root",
            fix="add --quick to use the simulator only, or run the command with sudo",
        )
    simulated = all(one.simulated for one in controllers)
    return (running.SIMULATOR, running.SOCKETS) if simulated else (running.SOCKETS,)


def _jobs(order: Order, side: str) -> int:
    if order.jobs is not None:
        return order.jobs
    return len(os.sched_getaffinity(0)) if side == running.SIMULATOR and order.on is None else 1
