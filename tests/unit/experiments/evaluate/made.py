"""Evaluations made from values, without runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from experiments.evaluate.cases import Case, all_cases
from experiments.evaluate.controllers import Controller, resolve
from experiments.evaluate.evaluation import Evaluation, Spent, Values
from experiments.evaluate.findings import Finding
from experiments.evaluate.running import SIMULATOR

REPEATS = 9
CUBIC = resolve("kernel/cubic")
BBR = resolve("kernel/bbr")
RENO = resolve("kernel/reno")
CASES = {one.key: one for one in all_cases(Path("/nowhere"))}
ALONE = CASES["alone-tenth"]
ABOUT = {
    "command": ["ccp", "evaluate", "kernel/bbr", "--quick"],
    "git": {"commit": "0123456789abcdef", "dirty": False},
    "date": "2026-11-29T00:00:00+00:00",
    "host": {"kernel": "6.18", "machine": "x86_64", "cpu": "a processor", "cores": 2, "python": "3.11"},
}


def seeds(value: float) -> tuple[float, ...]:
    """Return values of all seeds around a value."""
    return tuple(value * (1 + n / 1000) for n in range(REPEATS))


def made(
    values: Mapping[tuple[str, str, str], Sequence[float | None]],
    *,
    subjects: Sequence[Controller] = (BBR,),
    against: Sequence[Controller] = (CUBIC,),
    cases: Sequence[Case] = (ALONE,),
    sides: Sequence[str] = (SIMULATOR,),
    findings: Sequence[Finding] = (),
) -> Evaluation:
    """Return an evaluation with values by measure, side and algorithm, the same in each case."""
    every = [
        Values(case.key, measure, side, algorithm, tuple(found))
        for case in cases
        for (measure, side, algorithm), found in values.items()
    ]
    spent = [Spent(side, 18, 18, 0, 12.0, 20.0) for side in sides]
    return Evaluation(subjects, against, cases, REPEATS, every, spent, findings, ABOUT)


def usual(**own: float) -> Evaluation:
    """Return BBR next to CUBIC at a shallow buffer; BBR's goodput and retransmissions as given."""
    found = {"goodput": 46.0, "retransmitted": 3.0} | own
    values = {(name, SIMULATOR, BBR.algorithm): seeds(value) for name, value in found.items()}
    values |= {
        ("goodput", SIMULATOR, CUBIC.algorithm): seeds(44.0),
        ("retransmitted", SIMULATOR, CUBIC.algorithm): seeds(0.01),
    }
    return made(values)
