"""A random tenth on real sockets: which points of a simulated part are run, and how far the simulator is off.

Points that claims are about are always among them. Of the others a tenth is drawn, always the same one. What
is compared is each point's median over its repeats, which have the same seeds on both sides. Grids of a part
may have points of the same name, so a point belongs to a grid; repeats that are a grid each, whose name ends
with the seed, are repeats of one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

import pandas as pd

from ccplane.base.errors import UsageError
from experiments.metrics import NAN
from experiments.papers.comparisons import chosen
from experiments.papers.estimates import IN_RUN
from experiments.papers.paper import Part, Runs, Size, read_part, table_of
from experiments.papers.tables import Table
from experiments.plots import quantity
from experiments.results import Result
from experiments.runs.check import SIM
from experiments.runs.grid import point_key

TENTH: Final = "-tenth"
"""What is behind the name of a part in what is kept of its tenth."""

DRAWN_RATIO: Final = 0.1
"""Share of the points without a claim."""

RELATIVE: Final = ("goodput_bytes_per_s", "rtt_p95_us")
"""Columns whose deviation is the simulator's by the kernel's, less 1."""
ABSOLUTE: Final = ("retrans_pct", "jain_index")
"""Columns whose deviation is the difference."""

_KERNEL: Final = " of the kernel"
_SIMULATOR: Final = " of the simulator"
_NINTH: Final = "deviation_size_p90_pct"


def tenth(part: Part, size: Size, simulated: str | Path) -> frozenset[str]:
    """Return the keys of the points of a simulated part that are run on real sockets.

    Args:
        part: The part.
        size: How much of it was simulated.
        simulated: Directory of the paper's simulated results.

    Raises:
        UsageError: `paper.not_simulated`.
        ResultError: If results cannot be read.
    """
    runs = _simulated(part, size, simulated)
    keys = [point_key(one.axes) for one in runs.results]
    claimed = {
        keys[place]
        for test in part.comparisons
        for which in (test.of, test.by)
        if which
        for place in _rows_of(runs, part, which)
    }
    others = sorted(set(keys) - claimed)
    drawn = Random(f"a tenth of {part.name}").sample(others, math.ceil(DRAWN_RATIO * len(others)))
    return frozenset(claimed | set(drawn))


def _simulated(part: Part, size: Size, simulated: str | Path) -> Runs:
    runs = read_part(part, replace(size, datapath=SIM, only=None), simulated)
    if not runs.results:
        raise UsageError(
            "paper.not_simulated",
            f"{simulated} has no simulated runs of the part {part.name}",
            f"--tenth-of {simulated}",
            "points are chosen among those that were simulated",
            f"simulate it first: ccp paper ... --part {part.name} --datapath sim",
        )
    return runs


def _rows_of(runs: Runs, part: Part, which: Mapping[str, Any]) -> list[int]:
    """Return which runs a comparison is about: their places."""
    table = runs.table if part.compared is None else part.compared(runs)
    rows = chosen(table, which)
    return [int(one) for one in rows.get(IN_RUN, rows.index)]


def agreement(part: Part, size: Size, real: Runs, simulated: str | Path) -> Table:
    """Return by how much the simulator's points are off.

    Args:
        part: The part.
        size: How much of it was simulated.
        real: The runs on real sockets.
        simulated: Directory of the paper's simulated results.

    Returns:
        A row for each quantity: `deviation_pct`, median over the points with its interval;
        `deviation_size_pct`, the same without signs; `deviation_size_p90_pct`, what nine points of ten do not
        exceed. Of `ABSOLUTE` in per cent of the whole.
    """
    kernel, simulator = (_by_run(runs) for runs in (real, _simulated(part, size, simulated)))
    both = kernel.add_suffix(_KERNEL).join(simulator.add_suffix(_SIMULATOR), how="inner")
    points = both.groupby("point").median()
    rows = []
    for column in (one for one in (*RELATIVE, *ABSOLUTE) if one in kernel and one in simulator):
        ours, theirs = points[f"{column}{_SIMULATOR}"], points[f"{column}{_KERNEL}"]
        off = 100 * (ours / theirs.where(theirs != 0) - 1) if column in RELATIVE else ours - theirs
        off_pct = (100 * off if column == "jain_index" else off).dropna()
        rows.append(pd.DataFrame({"deviation_pct": off_pct}).assign(quantity=quantity(column).name))
    each = pd.concat(rows).assign(deviation_size_pct=lambda all_: all_["deviation_pct"].abs())
    title = "Simulator against real sockets, over the points that both have"
    table = Table.of(each, title, ["quantity"], ["deviation_pct", "deviation_size_pct"])
    ninth = each.groupby("quantity")["deviation_size_pct"].quantile(0.9)
    whole = table.rows.copy()
    whole[_NINTH] = whole["quantity"].map(ninth)
    whole[f"{_NINTH}.low"] = whole[f"{_NINTH}.high"] = NAN
    return Table(title, table.by, (*table.values, _NINTH), whole)


def _by_run(runs: Runs) -> pd.DataFrame:
    """Return what is compared of each run, by its point and its seed."""
    table = runs.table
    if not {*RELATIVE, *ABSOLUTE} & set(table):
        table = table_of(runs.results)  # the part says nothing of whole runs
    columns = [one for one in (*RELATIVE, *ABSOLUTE) if one in table]
    table = table.assign(point=[_point(one) for one in runs.results])
    return table.set_index(["point", "seed"])[columns].astype(float)


def _point(run: Result) -> str:
    grid = run.directory.parent.name if run.directory else ""
    repeat = f"-{run.metadata['seed']}"
    return f"{grid.removesuffix(repeat)} {point_key(run.axes)}"
