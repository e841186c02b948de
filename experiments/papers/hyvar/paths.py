"""Hyvar over wired and cellular paths, with CUBIC, BBR, a hybrid of a fixed MTP, and the policy.

The slides do not give their paths. `wired-1`: 48 Mbit/s, 20 ms, 2 BDP. `wired-2`: 100 Mbit/s, 60 ms, 0.5
BDP. `cellular-1`: 12 Mbit/s on average, varying by half of that. `cellular-2`: 5 Mbit/s, varying like two
LTE recordings. Both cellular paths: 40 ms, a buffer of 250 packets, and new traces in each round.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Final

from experiments import plots
from experiments.papers.hyvar.runs import ALGORITHMS, VALUES, came_to, cell, one_flow, paths
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.tables import Table
from experiments.papers.variants import rounds, steered
from experiments.results import Result
from experiments.scenario import Scenario
from experiments.sweep import Grid


def _grids(size: Size) -> list[Grid]:
    points = {algorithm: steered(algorithm) for algorithm in ALGORITHMS}
    recorded = {Path(file).name: cell(Path(file)) for file in size.traces}

    def of_round(name: str, number: int) -> Scenario:
        return one_flow(name, {**paths(number), **recorded}[name], size.seconds(8, 15))

    return [
        grid
        for name in (*paths(), *recorded)
        for grid in rounds(
            partial(of_round, name), f"{size.name}-{name}", size.times(6, 10), "variant", points
        )
    ]


def row(result: Result) -> dict[str, Any]:
    """Return the path, conditions and figures of a run."""
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
    )


PATHS: Final = Part("paths", "two wired and two cellular paths, with competitors", _grids, _findings, row)
