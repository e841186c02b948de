"""The picture of the demonstration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ccplane.base.errors import CcpError
from experiments import plots
from experiments.demo.runs import ACTS, PAYLOAD_SHARE, RATE_BYTES_PER_S, Transfer
from experiments.demo.where import Where


def draw(transfers: Sequence[Transfer], output: Path, where: Where) -> None:
    """Write the plot of the demo's transfers.

    Raises:
        CcpError: `demo.cannot_write`.
        MetricError: `plot.format`.
    """
    columns = {
        act: pd.concat([one.samples.assign(flow=one.run.label) for one in transfers if one.run.act == act])
        for act in ACTS
    }
    algorithms = {one.run.label: one.run.algorithm for one in transfers}
    figure = plots.side_by_side(
        columns,
        pd.DataFrame({"flow": algorithms.keys(), "algorithm": algorithms.values()}),
        limits={"goodput_bytes_per_s": PAYLOAD_SHARE * RATE_BYTES_PER_S},
        goodput_interval_s=0.5,
        marks={
            one.run.act: (one.saved_s, "mine.py is saved") for one in transfers if one.saved_s is not None
        },
        title="One flow over 100 Mbit/s and 50 ms",
        note=f"drop-tail buffer of 1 BDP; one run each, in sequence, seed 1; {where.name}",
    )
    save(figure, output)


def save(figure: plots.Plot, output: Path) -> None:
    """Write a demo's plot.

    Raises:
        CcpError: `demo.cannot_write`.
        MetricError: `plot.format`.
    """
    try:
        plots.save(figure, output)
    except OSError as error:
        raise CcpError(
            "demo.cannot_write",
            f"cannot write the plot to {output}",
            why=error.strerror or str(error),
            fix="choose another file with --out",
        ) from error
