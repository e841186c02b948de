"""R-TCP: downloads over the operators with a limit (Figures 2 and 6), and the claims about 32 MB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import pandas as pd

from experiments import plots
from experiments.events import ParamValue
from experiments.papers.estimates import IN_RUN, over_runs
from experiments.papers.paper import Findings, Part, Runs, Size
from experiments.papers.r_tcp.operators import LIMITED, OPERATORS, download
from experiments.papers.r_tcp.runs import (
    BBR,
    BBR3,
    LIMITED_BY,
    VARIANTS,
    apart,
    at_once,
    conditions,
    fewer,
    figures_of_both,
    in_order,
    name_of,
    pairs_of,
    transfers,
)
from experiments.papers.tables import Check, Table
from experiments.papers.variants import KERNEL
from experiments.plots import label
from experiments.scenario import Scenario
from experiments.sweep import Grid

MB: Final = 1_000_000
SIZES: Final = tuple(round(size * MB) for size in (0.5, 1, 2, 4, 8, 16))
LARGEST: Final = 32 * MB

FEWER: Final[Mapping[str, float]] = {KERNEL: 0.57, BBR: 0.80, BBR3: 0.76}
"""Share of retransmissions that R-TCP avoids at 32 MB in the paper, over three operators (section 6.1)."""
SAME_GOODPUT: Final = 0.95


def downloads(
    name: str,
    size_bytes: int,
    numbers: Sequence[int],
    *,
    operators: Sequence[str] = LIMITED,
    algorithms: Sequence[str] = VARIANTS,
    **params: ParamValue,
) -> Scenario:
    """Return simultaneous downloads of one size; arguments as in `at_once`, and parameters."""
    return at_once(
        name,
        [OPERATORS[one] for one in operators],
        algorithms,
        numbers,
        lambda operator, number, algorithm: [
            download(name_of(operator, number, algorithm), algorithm, size_bytes, params=params)
        ],
        size_bytes,
    )


def _grids(size: Size) -> list[Grid]:
    sizes = (MB, 4 * MB) if size.quick else SIZES
    return [
        grid
        for size_bytes in sizes
        for grid in apart(
            f"{size.name}-{size_bytes}", size.times(6, 10), partial(downloads, "R-TCP: downloads", size_bytes)
        )
    ]


def _findings(runs: Runs) -> Findings:
    return found_of(runs.rows(transfers), "Downloads over operators with a limit")


def found_of(rows: pd.DataFrame, title: str) -> Findings:
    """Return table and figures of downloads, from rows of `transfers`."""
    rows = in_order(rows, "operator", "size_bytes")
    values = ["retrans_pct", "goodput_bytes_per_s", "limited_ratio", "limited_s", "rate_error_pct"]
    return Findings(
        [Table.of(rows, title, ["operator", "size_bytes", "algorithm"], values)],
        figures_of_both(
            "figure-6", "Downloads", partial(plots.panels, rows, x="size_bytes", columns="operator")
        ),
    )


# --- 32 MB --------------------------------------------------------------------------------------------------


def _largest_grids(size: Size) -> list[Grid]:
    return apart(f"{size.name}-{LARGEST}", size.times(6, 10), partial(downloads, "R-TCP: 32 MB", LARGEST))


def _largest_findings(runs: Runs) -> Findings:
    rows = runs.rows(transfers)
    found = found_of(rows, "32 MB over operators with a limit")
    draw = partial(plots.bars, in_order(rows, "operator"), group="operator")
    figures = figures_of_both("32mb", "32 MB", draw)
    return Findings(found.tables, figures, claims(rows))


def claims(rows: pd.DataFrame) -> list[Check]:
    """Check R-TCP with the same limiter: means over a run's limiters, medians over runs.

    The paper has a share "averaged over all three operators", which may be a mean of shares, or a share of
    the means.
    """
    checks = []
    for without, both in pairs_of(rows, "retrans_pct"):
        said = f"share of {label(without)}'s retransmissions that {label(LIMITED_BY[without])} avoids"
        checks.append(Check(said, fewer(both), low=FEWER[without], name=f"fewer, {without}"))
        means = both.groupby(IN_RUN)[["without", "under"]].mean()
        checks.append(Check(f"{said}, from the operators' means,", fewer(means), low=FEWER[without]))
    for without, both in pairs_of(rows, "goodput_bytes_per_s"):
        said = f"ratio of {label(LIMITED_BY[without])}'s goodput to that of {label(without)}"
        found = over_runs(both.assign(quotient=both["under"] / both["without"]), "quotient")
        checks.append(Check(said, found, low=SAME_GOODPUT, name=f"goodput, {without}"))
    return checks


DOWNLOAD: Final = Part(
    "download",
    "Figures 2 and 6: downloads of 0.5 to 16 MB",
    _grids,
    _findings,
    conditions,
    compared=lambda runs: runs.rows(transfers),
)
LARGEST_DOWNLOAD: Final = Part(
    "download-32mb",
    "Figure 6: downloads of 32 MB",
    _largest_grids,
    _largest_findings,
    conditions,
    compared=lambda runs: runs.rows(transfers),
)
