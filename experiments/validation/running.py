"""Runs of the comparison, in rounds; each run is done once, and its figures are kept."""

from __future__ import annotations

import contextlib
import hashlib
import random
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pandas as pd

from ccplane.base import _native
from experiments import processes, runs
from experiments.left_out import idle_ratio, late_us, taken_ratio
from experiments.papers.tables import figures_of
from experiments.results import Result, is_complete
from experiments.runs import reading
from experiments.runs.reports import RunReport
from experiments.scenario import Scenario
from experiments.sweep import Grid, planned, sweep
from experiments.validation import rules

KERNEL: Final = "ebpf"
SIMULATOR: Final = "sim"
DATAPATHS: Final = (KERNEL, SIMULATOR)
FIGURES: Final = ("goodput_bytes_per_s", "rtt_p50_us", "rtt_p95_us", "retrans_pkts", "jain_index")
"""Compared figures."""
_JITTER_S: Final = 0.2
"""Maximum random delay of a flow's start in a round [s]."""
_CASE: Final = "case"
_BUILD_DIGITS: Final = 12


def row_of(result: Result) -> dict[str, Any]:
    """Return the figures of one run.

    Returns:
        `case`, `datapath`, `round`, and `FIGURES`: goodput and retransmissions of all flows, mean of the
        flows' RTT percentiles, Jain's index of their goodputs. `late_us`, `late_p99_us`: maximum and 99th
        percentile of the emulator's lateness; `untaken_pkts`: packets of hosts that it missed; `taken_ratio`:
        share of the machine that other processes used. These four are 0 in the simulator. `idle_ratio`: idle
        share of the machine, 1 in the simulator.
    """
    figures, emulator = figures_of(result), result.metadata.get("emulator") or {}
    return {
        "case": result.name,
        "datapath": result.scenario.datapath,
        "round": result.scenario.seed,
        **{name: float(figures[name]) for name in FIGURES},
        "late_us": late_us(result),
        "late_p99_us": float(emulator.get("lateness_us", {}).get("p99", 0.0)),
        "untaken_pkts": float(emulator.get("untaken_pkts", 0.0)),
        "taken_ratio": taken_ratio(result),
        "idle_ratio": idle_ratio(result),
    }


def in_round(scenario: Scenario, number: int) -> Scenario:
    """Return a scenario with the seed and flow start times of a round, counted from 1."""
    rng = random.Random(f"{scenario.name} {number}")
    flows = tuple(
        msgspec.structs.replace(flow, start_s=round(flow.start_s + rng.uniform(0, _JITTER_S), 3))
        for flow in scenario.flows
    )
    return scenario.replace(seed=scenario.seed + number - 1, flows=flows)


def collect(
    scenarios: Sequence[Scenario],
    rounds: int,
    out: Path,
    *,
    jobs: int = 1,
    run: bool = True,
    again: bool = False,
    report: RunReport | None = None,
) -> pd.DataFrame:
    """Do the missing runs, those of the kernel before other processes, and return the figures of all.

    Args:
        scenarios: Scenarios of the first round.
        rounds: Runs of each scenario on each datapath.
        out: Directory of the results. Those of the simulator depend on its build.
        jobs: Number of parallel runs; those with ccplane's algorithms take turns.
        run: Whether to do missing runs.
        again: Whether to delete, before that, runs that do not count.
        report: Receives progress.

    Returns:
        The row of `row_of` for each run that did not fail, in the order of the scenarios.

    Raises:
        SweepError: As `experiments.sweep.sweep`.
        ResultError: If results cannot be read or written.
    """
    rows: list[dict[str, Any]] = []
    for number in range(1, rounds + 1):
        for datapath in DATAPATHS:
            grid, place = _grid(scenarios, number, datapath), _place(out, datapath, number)
            if again:
                _delete_disturbed(grid, place)
            done = _results(grid, place, jobs, run, report)
            rows += [row_of(one) | {"round": number} for one in done]
    order = {name: place for place, name in enumerate(one.name for one in scenarios)}
    columns = ["case", "datapath", "round"]
    table = pd.DataFrame(rows) if rows else pd.DataFrame(columns=columns)
    return table.sort_values(columns, key=lambda one: one.map(order) if one.name == _CASE else one)


def _grid(scenarios: Sequence[Scenario], number: int, datapath: str) -> Grid:
    """Return the scenarios of one round on one datapath, as points of one axis."""
    points = {one.name: _fields(in_round(one, number)) for one in scenarios}
    base = scenarios[0].replace(datapath=datapath)
    return Grid(base, {_CASE: points}, f"{datapath}, round {number}")


def _fields(scenario: Scenario) -> Mapping[str, Any]:
    fields = reading.full(scenario)
    return {name: fields[name] for name in ("name", "topology", "flows", "duration_s", "seed")}


def _place(out: Path, datapath: str, number: int) -> Path:
    return out / (f"{SIMULATOR}-{_build()}" if datapath == SIMULATOR else datapath) / f"round-{number}"


def _build() -> str:
    """Return a hash of the simulator: the extension, and the modules that run scenarios on it."""
    digest = hashlib.sha256(Path(_native.__file__).read_bytes())
    for file in sorted(Path(runs.__file__).parent.glob("sim*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:_BUILD_DIGITS]


def _delete_disturbed(grid: Grid, place: Path) -> None:
    for one in planned(grid):
        directory = place / one.key
        if is_complete(directory) and rules.reason(pd.Series(row_of(Result.load(directory)))) is not None:
            shutil.rmtree(directory)


def _results(grid: Grid, place: Path, jobs: int, run: bool, report: RunReport | None) -> list[Result]:
    if run:
        is_real = grid.base.datapath == KERNEL
        with processes.going_first() if is_real else contextlib.nullcontext():
            sweep(grid, out=place, jobs=jobs, report=report)
    return [Result.load(place / one.key) for one in planned(grid) if is_complete(place / one.key)]
