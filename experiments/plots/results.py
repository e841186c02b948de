"""All figures that apply to a result or a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pandas as pd

from experiments.metrics import MetricError
from experiments.plots import style
from experiments.plots.comparisons import bars, heat_map, lines, written
from experiments.plots.distributions import cdf, throughput_delay
from experiments.plots.files import save_as
from experiments.plots.quantities import quantity
from experiments.plots.series import time_series

if TYPE_CHECKING:
    from experiments.results import Result, ResultSet

COMPARED: Final = ("goodput_bytes_per_s", "retrans_pct", "rtt_p95_us")
"""Columns of the flows that a sweep's figures compare."""
MAX_POINTS: Final = 8
"""Maximum number of points of a sweep for throughput against delay: there is one figure per point."""


def save_all(
    result: Result | ResultSet, out_dir: str | Path, formats: Sequence[str] = ("png",)
) -> list[Path]:
    """Draw all figures of a run or of a sweep; return the files.

    Args:
        result: The result of a run or a sweep.
        out_dir: Directory for the figures; created if needed.
        formats: `png`, `svg`, `pdf`.

    Raises:
        MetricError: `plot.nothing` without samples or finished runs, `plot.format`.
        ResultError: If a table cannot be read.
        OSError: If a file cannot be written.
    """
    from experiments.results import Result

    plots = of_run(result) if isinstance(result, Result) else of_sweep(result)
    return [path for name, plot in plots.items() for path in save_as(plot, Path(out_dir), name, formats)]


def of_run(result: Result) -> dict[str, style.Plot]:
    """Return the figures of one run by name.

    Raises:
        MetricError: `plot.nothing`, if no flow has samples.
    """
    if result.flow_samples.empty:
        raise MetricError(
            "plot.nothing", f"`{result.name}` has no samples to draw", str(result.directory or "")
        )
    subtitle, note = describe(result), origin(result)
    algorithms = result.flows[["flow", "algorithm"]]
    changes = result.events[result.events["kind"].str.startswith("set_")]
    plots = {
        "time-series": time_series(
            result.flow_samples,
            algorithms,
            result.link_samples,
            changes,
            title=result.name,
            subtitle=subtitle,
            note=note,
        )
    }
    samples = result.flow_samples.merge(algorithms, on="flow")
    if samples["rtt_us"].notna().any():
        title = f"{result.name}: RTT"
        plots["rtt-cdf"] = cdf(samples, "rtt_us", title=title, subtitle=subtitle, note=note)
    objects = result.objects.merge(algorithms, on="flow")
    if objects["completion_s"].notna().any():
        title = f"{result.name}: time to download an object"
        plots["completion-cdf"] = cdf(objects, "completion_s", title=title, subtitle=subtitle, note=note)
    return plots


def of_sweep(results: ResultSet) -> dict[str, style.Plot]:
    """Return the figures of a sweep by name.

    Flows of one run with the same algorithm count as one value, their mean, because they are not repeats.

    Raises:
        MetricError: `plot.nothing`, if no run is finished.
    """
    table = results.table()
    if table.empty:
        raise MetricError("plot.nothing", f"no run of `{results.name}` is finished", str(results.directory))
    axes = varied(table, results.axes)
    table = per_run(table, axes)
    numeric = [axis for axis in axes if pd.api.types.is_numeric_dtype(table[axis])]
    named = [axis for axis in axes if axis not in numeric]
    compared = [column for column in COMPARED if table[column].notna().any()]
    where = " and ".join(sorted({place(one) for one in results} - {""}))
    plots = {}
    for column in compared:
        name = column.partition("_bytes")[0].removesuffix("_us").replace("_", "-")
        title = f"{results.name}: {quantity(column).name}"
        if len(numeric) > 1:
            plots[f"{name}-map"] = heat_map(
                table, column, numeric[0], numeric[1], title=title, subtitle=where
            )
        elif numeric:
            plots[f"{name}-lines"] = lines(table, column, numeric[0], title=title, subtitle=where)
        else:
            group = named[0] if named else None
            plots[f"{name}-bars"] = bars(table, column, group=group, title=title, subtitle=where)
    if {"goodput_bytes_per_s", "rtt_p95_us"} <= set(compared):
        plots |= _of_points(table, axes, f"{results.name}: throughput and delay", where)
    return plots


def _of_points(table: pd.DataFrame, axes: Sequence[str], title: str, where: str) -> dict[str, style.Plot]:
    """Return throughput against delay, one figure per point of a sweep."""
    note = "one value per run; means, and ellipses of one standard deviation" + (where and f"; {where}")
    if not axes:
        return {"throughput-delay": throughput_delay(table, delay="rtt_p95_us", title=title, note=note)}
    points = list(table.groupby(list(axes), sort=False, dropna=False))
    return {
        f"throughput-delay-{i + 1}": throughput_delay(
            own,
            delay="rtt_p95_us",
            title=title,
            subtitle=", ".join(
                f"{quantity(axis).name} {written(value, axis)} {quantity(axis).unit}".rstrip()
                for axis, value in zip(axes, at, strict=True)
            ),
            note=note,
        )
        for i, (at, own) in enumerate(points)
        if len(points) <= MAX_POINTS
    }


def varied(table: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """Return the axes of a sweep (`ResultSet.axes`) with more than one value, except algorithms."""
    columns = [f"axis.{axis}" if f"axis.{axis}" in table.columns else axis for axis in axes]
    return [
        column
        for column in columns
        if column in table.columns
        and table[column].nunique(dropna=False) > 1
        and not column.endswith("algorithm")
    ]


def per_run(table: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
    """Return a row for each run and algorithm: means over the flows of a run that share an algorithm.

    Args:
        table: `ResultSet.table()`.
        axes: Columns of axes to keep.
    """
    keys = ["run", "repeat", "seed", "algorithm", *axes]
    return table.groupby(keys, sort=False, dropna=False)[list(COMPARED)].mean().reset_index()


def describe(result: Result) -> str:
    """Return one line with rate and base RTT of a run's path."""
    rates = [
        direction.rate_bytes_per_s
        for link in result.scenario.network.links
        for direction in (link.forward, link.back)
        if direction.rate_bytes_per_s is not None
    ]
    parts = [f"{quantity('rate_bytes_per_s').of(min(rates)):g} Mbit/s"] if rates else []
    rtts_ms = sorted(set((result.flows["base_rtt_us"].dropna() / 1e3).round(1)))
    if rtts_ms:
        parts.append("base RTT " + " and ".join(f"{rtt:g}" for rtt in rtts_ms[:4]) + " ms")
    return ", ".join(parts)


def origin(result: Result) -> str:
    """Return the footnote of the figures of one run."""
    where = place(result)
    state = "" if result.complete else "; incomplete"
    return f"one run, seed {result.metadata['seed']}" + (where and f"; {where}") + state


def place(result: Result) -> str:
    """Return where a run took place: in the simulator, or on which kernel; empty if unknown."""
    kernel = result.metadata.get("machine", {}).get("kernel")
    return "simulated" if "simulator" in result.metadata else f"Linux {kernel}" if kernel else ""
