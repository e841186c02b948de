"""Hyvar over wired and cellular paths, against CUBIC, BBR, the hybrid of a fixed MTP, and the policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pandas as pd

from experiments import plots
from experiments.metrics import NAN
from experiments.papers.hyvar.runs import ALGORITHMS, HYVAR, VALUES, came_to, cell, one_flow, paths
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.tables import Check, Table
from experiments.papers.variants import rounds, steered
from experiments.results import Result
from experiments.statistics import Estimate, bootstrap
from experiments.sweep import Grid

_BETTER: Final = ("throughput_bytes_per_s", "delay_us")


def _grids(size: Size) -> list[Grid]:
    points = {algorithm: steered(algorithm) for algorithm in ALGORITHMS}
    recorded = {Path(file).name: cell(Path(file)) for file in size.traces}
    return [
        grid
        for name, path in {**paths(), **recorded}.items()
        for grid in rounds(
            one_flow(name, path, size.seconds(8, 15)),
            f"{size.name}-{name}",
            size.times(2, 5),
            "variant",
            points,
        )
    ]


def row(result: Result) -> dict[str, Any]:
    """Return what a run was, and what it came to, with its path."""
    return {"path": result.scenario.name.removeprefix("hyvar: "), **came_to(result)}


def _findings(runs: Runs) -> Findings:
    order = {name: place for place, name in enumerate(ALGORITHMS)}
    table = runs.table.sort_values(
        ["path", "algorithm"],
        key=lambda values: values.map(order) if values.name == "algorithm" else values,
        kind="stable",
    )
    by_path = list(table.groupby("path", sort=False))
    return Findings(
        [Table.of(table, "Four paths", ["path", "algorithm"], [*VALUES, "agent_cpu_pct"])],
        {
            f"paths-{name}": plots.throughput_delay(
                own,
                delay="delay_us",
                throughput="throughput_bytes_per_s",
                title=f"Throughput and delay: {name}",
            )
            for name, own in by_path
        },
        [not_beaten(str(name), own) for name, own in by_path],
    )


def not_beaten(path: str, table: pd.DataFrame) -> Check:
    """Count who has both higher throughput and lower delay than Hyvar, each beyond both intervals.

    Args:
        path: Its name.
        table: A row for each run over it.
    """
    found = {
        algorithm: {column: bootstrap(own[column].to_numpy(float), "median") for column in _BETTER}
        for algorithm, own in table.groupby("algorithm", sort=False)
    }
    ours = found.pop(HYVAR, None)
    claim = f"{path}: who has higher throughput and lower delay than Hyvar"
    n = min((one.n for estimates in [ours or {}, *found.values()] for one in estimates.values()), default=0)
    if ours is None or not found:
        return Check(claim, Estimate(NAN, NAN, NAN, 0), high=0)
    better = [
        str(algorithm)
        for algorithm, theirs in found.items()
        if theirs["throughput_bytes_per_s"].low > ours["throughput_bytes_per_s"].high
        and theirs["delay_us"].high < ours["delay_us"].low
    ]
    return Check(": ".join([claim, *better]), Estimate(len(better), NAN, NAN, n), high=0)


PATHS: Final = Part("paths", "two wired and two cellular paths, against others", _grids, _findings, row)
