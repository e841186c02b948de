"""The picture of `ccp demo wifi`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from experiments import plots
from experiments.demo.picture import save
from experiments.mininet_wifi.conditions import MTU_BYTES, Conditions
from experiments.mininet_wifi.recipes import Recipe
from experiments.mininet_wifi.transfers import Transfer


def draw(
    transfers: Sequence[Transfer], recipe: Recipe, conditions: Conditions, note: str, output: Path
) -> None:
    """Write the plot: columns over time, or a bar of goodput for each flow, as the recipe asks for.

    Raises:
        ResultError: `result.cannot_write`.
        MetricError: `plot.format`.
    """
    path = (
        f"wire of {conditions.rate_bytes_per_s * 8e-6:g} Mbit/s with room for "
        f"{conditions.buffer_bytes // MTU_BYTES} packets, {conditions.delay_ms:g} ms"
    )
    save(
        _over_time(transfers, recipe, path, note) if recipe.panels else _bars(transfers, recipe, path, note),
        output,
    )


def _over_time(transfers: Sequence[Transfer], recipe: Recipe, path: str, note: str) -> plots.Plot:
    rows = [pd.DataFrame(one.rows).assign(flow=one.run.variant.label) for one in transfers]
    names = [one.run.variant.label for one in transfers]
    (loss_ratio,) = recipe.losses
    return plots.time_series(
        pd.concat(rows, ignore_index=True),
        pd.DataFrame({"flow": names, "algorithm": names}),
        panels=recipe.panels,
        goodput_interval_s=1.0,
        title=recipe.title,
        subtitle=f"{path}, {loss_ratio:.1%} loss; by the telemetry that packets carried to the sink",
        note=note,
    )


def _bars(transfers: Sequence[Transfer], recipe: Recipe, path: str, note: str) -> plots.Plot:
    rows = [
        {"loss_ratio": one.run.loss_ratio, "variant": one.run.variant.label, **one.figures}
        for one in transfers
    ]
    return plots.bars(
        pd.DataFrame(rows),
        "goodput_bytes_per_s",
        group="loss_ratio",
        by="variant",
        title=recipe.title,
        subtitle=f"{path}; loss towards the receiver",
        note=note,
    )
