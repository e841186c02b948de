"""Hyvar: how much depends on what the slides do not say: alpha, delta, the bounds of the MTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from ccp_algs.hyvar.algorithms import Hyvar
from ccp_algs.params import params_of
from experiments import plots
from experiments.netlab.spec import Bernoulli
from experiments.papers.hyvar.runs import CLAIMED, HYVAR, VALUES, came_to, cell, drawn, one_flow
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.tables import Table
from experiments.papers.variants import rounds, steered
from experiments.results import Result
from experiments.sweep import Grid

OPTIONS: Final[Mapping[str, Sequence[float]]] = MappingProxyType(
    {
        "alpha_rtts": (0.05, 0.1, 0.2, 0.4, 0.8),
        "delta_ratio": (0.001, 0.01, 0.05, 1.0),
        "mtp_min_rtts": (0.0, 0.5, 1.0, 2.0),
        "mtp_max_ms": (50.0, 100.0, 200.0, 400.0, 800.0),
    }
)
"""Parameter -> values; among them the default."""

LOSS_RATIO: Final = 0.02
_COLUMNS: Final = ("throughput_bytes_per_s", "delay_us", "reports_per_s")


def _grids(size: Size) -> list[Grid]:
    lossy = msgspec.structs.replace(CLAIMED, loss=Bernoulli(LOSS_RATIO))
    paths = {"wired": CLAIMED, "wired, 2 % loss": lossy, "cellular": cell(drawn("cellular-2"))}
    points = {
        f"{option} {value:g}": steered(HYVAR, **{option: value})
        for option, values in OPTIONS.items()
        for value in (values[:: len(values) - 1] if size.quick else values)
    }
    return [
        grid
        for name, path in paths.items()
        for grid in rounds(
            one_flow(name, path, size.seconds(8, 15)),
            f"{size.name}-{name.partition(' ')[0].strip(',')}-{len(name)}",
            size.times(1, 10),
            "variant",
            points,
        )
    ]


def row(result: Result) -> dict[str, Any]:
    """Return what a run was, the option that it is about, and what it came to."""
    found = came_to(result)
    (option,) = result.scenario.flows[0].params
    return {
        "path": result.scenario.name.removeprefix("hyvar: "),
        "option": option,
        "value": found[option],
        **found,
    }


def _findings(runs: Runs) -> Findings:
    table = runs.table.sort_values(["path", "option", "value"], kind="stable")
    defaults = params_of(Hyvar)
    return Findings(
        [
            Table.of(
                table[table["option"] == option].rename(columns={"value": f"value of {option}"}),
                f"{option} (default {defaults[option].default:g})",
                ["path", f"value of {option}"],
                [*VALUES, "reports_per_s"],
            )
            for option in OPTIONS
            if (table["option"] == option).any()
        ],
        {
            f"sensitivity-{option}-{column.partition('_')[0]}": plots.lines(
                table[table["option"] == option],
                column,
                option,
                by="path",
                title=f"Hyvar by {option}",
            )
            for option in OPTIONS
            if (table["option"] == option).any()
            for column in _COLUMNS
        },
    )


SENSITIVITY: Final = Part(
    "sensitivity",
    "alpha, delta and the bounds of the MTP, which the slides leave open",
    _grids,
    _findings,
    row,
)
