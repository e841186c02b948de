"""Flex-Cubic: two flows that overlap for half of the run, as in the paper's Figure 3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from experiments import plots
from experiments.metrics import NAN, goodput_bytes_per_s, jain_index, within
from experiments.papers.flex_cubic.claims import CLAIM_LOSS, OWN
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.tables import Table
from experiments.papers.two_flows import LOSS_RATIO, conditions, dumbbell
from experiments.papers.variants import KERNEL, steered
from experiments.results import Result
from experiments.scenario import Scenario
from experiments.sweep import Grid

JOINED_AT: Final = 0.25
LEFT_AT: Final = 0.75
"""When the second flow starts and the first one ends, as shares of the run."""

PHASES: Final[Mapping[str, tuple[float, float]]] = {
    "alone": (0.1, JOINED_AT),
    "together": (0.5, LEFT_AT),
    "left": (0.85, 1.0),
}
"""Measured phases: the first flow alone, both after settling, the second flow alone."""


def overlapping(duration_s: float) -> Scenario:
    """Return the network of the grid, with flows that overlap for half of the run."""
    both = dumbbell("flex-cubic: overlap", duration_s)
    first, second = both.flows
    return both.replace(
        flows=(
            msgspec.structs.replace(first, stop_s=LEFT_AT * duration_s),
            msgspec.structs.replace(second, start_s=JOINED_AT * duration_s),
        )
    )


def _grids(size: Size) -> list[Grid]:
    axes: dict[str, Any] = {
        LOSS_RATIO: [0.0, CLAIM_LOSS],
        "variant": {name: steered(name) for name in (KERNEL, OWN)},
    }
    return [Grid(overlapping(size.seconds(40, 80)), axes, size.name, size.times(6, 10))]


def row(result: Result) -> dict[str, Any]:
    """Return the conditions of a run, the goodput in each of `PHASES`, and `jain_index` while both send."""
    end_s = result.scenario.duration_s
    found = conditions(result)
    for name, (start, stop) in PHASES.items():
        goodput = goodput_bytes_per_s(within(result.flow_samples, start * end_s, stop * end_s))
        found[f"{name}_goodput_bytes_per_s"] = goodput.sum() if len(goodput) else NAN
        if name == "together":
            shares = goodput.reindex([flow.name for flow in result.scenario.flows])
            found["jain_index"] = jain_index(shares)
    return found


def _findings(runs: Runs) -> Findings:
    values = [*(f"{name}_goodput_bytes_per_s" for name in PHASES), "jain_index", "retrans_pct"]
    title = "Two flows that overlap for half of the run: 100 Mbit/s, OWD 25 ms, one BDP"
    shown = [one for one in runs.results if one.repeat == 0]
    figures = {
        f"figure-3-{one.axes['variant'].replace('/', '-')}-{one.axes[LOSS_RATIO]:g}": plots.time_series(
            one.flow_samples,
            one.flows,
            panels=("cwnd_bytes", "goodput_bytes_per_s"),
            goodput_interval_s=1.0,
            title=f"{one.axes['variant']}, {100 * one.axes[LOSS_RATIO]:g} % loss",
            note=f"one run, seed {one.scenario.seed}",
        )
        for one in shown
    }
    return Findings([Table.of(runs.table, title, ["loss_ratio", "variant"], values)], figures)


OVERLAP: Final = Part("overlap", "Figure 3: flows that overlap in part", _grids, _findings, row)
