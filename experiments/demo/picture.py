"""The picture of the demonstration."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pandas as pd
from matplotlib.axes import Axes

from experiments import plots
from experiments.demo.runs import ACTS, EDIT, EDITED, MINE, PAYLOAD_SHARE, RATE_BYTES_PER_S, Transfer
from experiments.demo.where import Where
from experiments.writing import cannot_write

MAX_INTERVAL_S: Final = 1.0
"""Maximum interval of goodput [s]. In shorter ones, goodput exceeds the payload limit after a retransmission:
TCP then acknowledges in one step what arrived during a round trip or two. In long ones, by 3 % at most."""
REMOVED: Final = "#B3261E"
ADDED: Final = "#1B6E33"
COLUMNS: Final = 30
"""Width of the edit in its panel [characters]."""


def edit() -> list[str]:
    """Return the changed lines of `mine.py`, as in a diff: with `-` and `+` in front, without indentation."""
    lines = difflib.ndiff(MINE.read_text().splitlines()[1:], EDITED.read_text().splitlines()[1:])
    return [f"{line[0]} {line[2:].strip()}" for line in lines if line[0] in "+-"]


def draw(transfers: Sequence[Transfer], output: Path, where: Where) -> None:
    """Write the plot of the demo's transfers.

    Raises:
        ResultError: `result.cannot_write`.
        MetricError: `plot.format`.
    """
    interval_s = min(MAX_INTERVAL_S, max(one.samples["t_s"].max() for one in transfers) / 4)
    columns = {
        act: pd.concat([one.samples.assign(flow=one.run.label) for one in transfers if one.run.act == act])
        for act in ACTS
    }
    algorithms = {one.run.label: one.run.algorithm for one in transfers}
    figure = plots.side_by_side(
        columns,
        pd.DataFrame({"flow": algorithms.keys(), "algorithm": algorithms.values()}),
        limits={"goodput_bytes_per_s": PAYLOAD_SHARE * RATE_BYTES_PER_S},
        goodput_interval_s=interval_s,
        marks={
            one.run.act: (one.saved_s, "mine.py is saved") for one in transfers if one.saved_s is not None
        },
        title="One flow over 100 Mbit/s and 50 ms",
        note=f"drop-tail buffer of 1 BDP; goodput in intervals of {interval_s:.2g} s; "
        f"one run each, in sequence, seed 1; {where.name}",
    )
    _write_edit(figure.axes[ACTS.index(EDIT)])
    save(figure, output)


def _write_edit(axes: Axes) -> None:
    """Write the edit into the top of a panel."""
    at = 0.97
    for line in edit():
        rows = textwrap.wrap(line, COLUMNS, subsequent_indent="    ")
        axes.text(
            0.02,
            at,
            "\n".join(rows),
            transform=axes.transAxes,
            va="top",
            family="monospace",
            fontsize=7.5,
            color=REMOVED if line.startswith("-") else ADDED,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
        at -= 0.085 * len(rows)


def save(figure: plots.Plot, output: Path) -> None:
    """Write a demo's plot.

    Raises:
        ResultError: `result.cannot_write`.
        MetricError: `plot.format`.
    """
    try:
        plots.save(figure, output)
    except OSError as error:
        raise cannot_write(output, error, "choose another file with --out") from error
