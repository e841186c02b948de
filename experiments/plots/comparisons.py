"""Algorithms side by side over repeats: bars and lines with confidence intervals, heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.container import BarContainer
from matplotlib.lines import Line2D

from experiments.metrics import MetricError, need
from experiments.plots import style
from experiments.plots.quantities import Quantity, quantity
from experiments.statistics import min_runs, over_repeats

COLOUR_MAP: Final = "viridis"
"""Colour map with even steps of lightness, for all kinds of colour vision and for print."""
_DECADES: Final = 100
"""Minimum ratio of maximum to minimum for a logarithmic axis."""
_FILLED: Final = 0.97
"""Maximum share of a vertical axis from 0 that values take, so that markers are drawn whole."""
_MAX_TICKS: Final = 8
"""Maximum number of values that are all written below an axis."""
_BAR_SHARE: Final = 0.8
"""Gap between groups of bars, as a share of their distance."""


def bars(
    table: pd.DataFrame,
    value: str,
    *,
    group: str | None = None,
    by: str = "algorithm",
    level: float = 0.95,
    log: bool = False,
    title: str = "",
    subtitle: str = "",
    note: str | None = None,
) -> style.Plot:
    """Draw a bar with the median of its repeats and a confidence interval for each algorithm, in groups.

    Repeats are small points; fewer than two have no interval. A combination without values has no bar.

    Args:
        table: A row for each repeat.
        value: Column that the bars show.
        group: One group of bars for each value of this column; None for a single group.
        by: One colour for each value of this column.
        level: Level of the confidence intervals.
        log: Use a logarithmic vertical axis; it is linear from 0 to 1, to include 0.
        title: Title of the figure.
        subtitle: Description of the path.
        note: Footnote; None for number of repeats and seeds (`repeats_note`).

    Raises:
        MetricError: `metric.no_column`, `metric.bad_value`.
    """
    need(table, value, by, *([group] if group else []))
    table = table.assign(_all="") if group is None else table
    group = group or "_all"
    groups, names = in_order(table[group]), list(dict.fromkeys(table[by]))
    estimates = over_repeats(table, value, [group, by], level=level)
    what = quantity(value)
    looks = style.looks(str(name) for name in names)
    width = _BAR_SHARE / len(names)
    with style.styled():
        plot = style.new_plot(3.4)
        axes = plot.subplots()
        handles: list[BarContainer] = []
        for i, name in enumerate(names):
            look = looks[str(name)]
            at = np.arange(len(groups)) + (i - (len(names) - 1) / 2) * width
            own = estimates[estimates[by] == name].set_index(group).reindex(groups)
            middle = what.of(own["value"])
            handle = axes.bar(
                at,
                middle,
                0.92 * width,
                color=look.colour,
                hatch=look.hatch,
                label=style.label(str(name)),
            )
            handles.append(handle)
            draw_intervals(axes, at, own, what, style.INK, zorder=4)
            _scatter_repeats(
                axes, table[table[by] == name], group, value, dict(zip(groups, at, strict=True)), width
            )
        axes.set_xticks(range(len(groups)), [written(one, group) for one in groups])
        axes.tick_params(axis="x", length=0)
        if group == "_all":
            axes.set_xticks([])
        else:
            axes.set_xlabel(quantity(group).axis)
        axes.set_ylabel(what.axis)
        if log:
            axes.set_yscale("symlog", linthresh=1)
            axes.set_ylim(top=2 * axes.get_ylim()[1])
        axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
        style.finish(
            plot,
            axes,
            title,
            subtitle,
            repeats_note(table, estimates, level) if note is None else note,
            handles,
        )
    return plot


def lines(
    table: pd.DataFrame,
    value: str,
    x: str,
    *,
    by: str = "algorithm",
    level: float = 0.95,
    log: bool = False,
    title: str = "",
    subtitle: str = "",
    note: str | None = None,
) -> style.Plot:
    """Draw a column against a number that a sweep varies, with medians and confidence intervals.

    The horizontal axis is logarithmic where the numbers are positive and span two decades or more.

    Args:
        table: A row for each repeat.
        value: Column for the vertical axis.
        x: Column for the horizontal axis, numbers.
        by: One line for each value of this column.
        level: Level of the confidence intervals.
        log: Use a logarithmic vertical axis.
        title: Title of the figure.
        subtitle: Description of the path.
        note: Footnote; None for number of repeats and seeds.

    Raises:
        MetricError: `metric.no_column`, `metric.bad_value`.
    """
    need(table, value, x, by)
    estimates = over_repeats(table, value, [by, x], level=level)
    across, what = quantity(x), quantity(value)
    looks = style.looks(str(name) for name in table[by])
    with style.styled():
        plot = style.new_plot(3.4)
        axes = plot.subplots()
        handles = []
        for name, found in estimates.groupby(by, sort=False):
            look, own = looks[str(name)], found.sort_values(x)
            at, middle = across.of(own[x]), what.of(own["value"])
            options: dict[str, Any] = {
                "color": look.colour,
                "marker": look.marker,
                "ms": 5,
                "mec": "white",
                "mew": 0.6,
            }
            draw_intervals(axes, at, own, what, look.colour, zorder=2)
            axes.plot(at, middle, **options)
            handles.append(Line2D([], [], label=style.label(str(name)), **options))
        if log:
            axes.set_yscale("log")
        else:
            highest = axes.dataLim.y1
            axes.set_ylim(0, max(axes.get_ylim()[1], highest / _FILLED))
        ticks = in_order(estimates[x])
        if len(ticks) > 1 and 0 < _DECADES * ticks[0] <= ticks[-1]:
            axes.set_xscale("log")
            axes.minorticks_off()
        if len(ticks) <= _MAX_TICKS:
            axes.set_xticks(across.of(ticks), [written(one, x) for one in ticks])
        axes.set_xlabel(across.axis)
        axes.set_ylabel(what.axis)
        text = repeats_note(table, estimates, level) if note is None else note
        style.finish(plot, axes, title, subtitle, text, handles)
    return plot


def heat_map(
    table: pd.DataFrame,
    value: str,
    x: str,
    y: str,
    *,
    by: str | None = "algorithm",
    title: str = "",
    subtitle: str = "",
    note: str | None = None,
) -> style.Plot:
    """Draw a column over two axes of a sweep: a panel per algorithm, a cell per combination.

    All panels share one colour scale. Cells without a value are hatched.

    Args:
        table: A row for each repeat.
        value: Column shown by the colour and the number of a cell.
        x: Column for the horizontal axis.
        y: Column for the vertical axis.
        by: One panel for each value of this column; None for a single panel.
        title: Title of the figure.
        subtitle: Description of the path.
        note: Footnote; None for number of repeats and seeds.

    Raises:
        MetricError: `metric.no_column`, or `metric.bad_value` if there is nothing to draw.
    """
    need(table, value, x, y, *([by] if by else []))
    table = table.assign(_all="") if by is None else table
    key = by or "_all"
    names = list(dict.fromkeys(table[key]))
    known = table.dropna(subset=[value])
    if known.empty:
        raise MetricError(
            "metric.bad_value",
            f"no row has a value of `{value}`",
            fix="check that the sweep has finished runs",
        )
    cells = known.groupby([key, y, x], sort=False)[value].median()
    what = quantity(value)
    columns, rows = in_order(table[x]), in_order(table[y])
    scale = Normalize(float(what.of(cells).min()), float(what.of(cells).max()))
    with style.styled():
        width_in = min(11.0, 1.4 + len(names) * max(2.2, 0.62 * len(columns)))
        plot = style.new_plot(1.5 + max(1.4, 0.36 * len(rows)), max(style.WIDTH_IN * 0.62, width_in))
        panels = list(plot.subplots(1, len(names), squeeze=False, sharey=True)[0])
        for axes, name in zip(panels, names, strict=True):
            grid = np.array([[cells.get((name, row, column), np.nan) for column in columns] for row in rows])
            _draw_cells(axes, what.of(grid), scale)
            axes.set_xticks(range(len(columns)), [written(one, x) for one in columns])
            axes.set_yticks(range(len(rows)), [written(one, y) for one in rows])
            axes.set_xlabel(quantity(x).axis)
            if by:
                axes.set_title(style.label(str(name)), color=style.INK, loc="center")
        panels[0].set_ylabel(quantity(y).axis)
        bar = plot.colorbar(panels[-1].images[0], ax=panels, shrink=0.9, pad=0.015)
        bar.set_label(what.axis)
        bar.outline.set_visible(False)
        counts = known.groupby([key, y, x]).size().reset_index(name="n")
        text = repeats_note(table, counts, None) if note is None else note
        # Panels have their own titles, so the subtitle goes to the footnote.
        style.head(plot, title, " · ".join(part for part in (subtitle, text) if part))
    return plot


def repeats_note(table: pd.DataFrame, estimates: pd.DataFrame, level: float | None) -> str:
    """Return the footnote of a figure over repeats: interval, number of repeats, and seeds.

    Args:
        table: A row for each repeat; seeds are in its column `seed`, if it has one.
        estimates: Has a column `n`.
        level: Level of the confidence intervals; None for no intervals.
    """
    minimum, peak = int(estimates["n"].min()), int(estimates["n"].max())
    n = f"n = {minimum}" if minimum == peak else f"n = {minimum} to {peak}"
    interval = f" and {100 * level:g} % interval" if level is not None and peak >= min_runs(level) else ""
    seeds = ""
    if "seed" in table.columns:
        seeds = f"; {_seeds(sorted(set(table['seed'].dropna().astype(int))))}"
    return f"median{interval}, {n}{seeds}"


def _seeds(seeds: Sequence[int]) -> str:
    if len(seeds) < 2:
        return f"seed {seeds[0]}" if seeds else ""
    if list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"seeds {seeds[0]} to {seeds[-1]}"
    return f"{len(seeds)} seeds" if len(seeds) > 6 else "seeds " + ", ".join(str(seed) for seed in seeds)


def _draw_cells(axes: Axes, values: Any, scale: Normalize) -> None:
    axes.set_facecolor("#F4F4F4")
    image = axes.imshow(values, cmap=COLOUR_MAP, norm=scale, aspect="auto", origin="lower")
    digits = _digits(values)
    for (i, j), value in np.ndenumerate(values):
        if np.isnan(value):
            box = (j - 0.5, i - 0.5)
            axes.add_patch(_missing(box))
            continue
        red, green, blue, _ = image.cmap(image.norm(value))
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.55
        axes.text(
            j,
            i,
            f"{value:.{digits}f}",
            ha="center",
            va="center",
            fontsize=8,
            color="white" if dark else style.INK,
        )
    axes.grid(visible=False)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _missing(corner: tuple[float, float]) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle(corner, 1, 1, facecolor="none", hatch="////", edgecolor="#C9C9C9", linewidth=0)


def _digits(values: Any) -> int:
    peak = float(np.nanmax(np.abs(values))) if np.isfinite(values).any() else 0.0
    return 0 if peak >= 100 else 1 if peak >= 10 else 2


def draw_intervals(
    axes: Axes, at: Any, estimates: pd.DataFrame, what: Quantity, colour: str, *, zorder: int
) -> None:
    """Draw intervals below and above their values; NaN: no interval.

    Args:
        axes: Target axes.
        at: Horizontal positions.
        estimates: Columns `value`, `low`, `high`.
        what: Quantity of the values.
        colour: Colour of the lines.
        zorder: As in matplotlib.
    """
    middle, low, high = (what.of(estimates[name]) for name in ("value", "low", "high"))
    reach = np.maximum(np.vstack([middle - low, high - middle]), 0)
    axes.errorbar(at, middle, reach, fmt="none", ecolor=colour, elinewidth=1, capsize=2.5, zorder=zorder)


def _scatter_repeats(
    axes: Axes, own: pd.DataFrame, group: str, value: str, places: dict[Any, float], width: float
) -> None:
    """Draw each repeat as a small point, side by side within the width of its bar."""
    for name, repeats in own.groupby(group, sort=False):
        values = quantity(value).of(repeats[value])
        at = places[name] + np.linspace(-0.25, 0.25, len(values) + 2)[1:-1] * width
        axes.scatter(at, values, s=7, color="white", edgecolors=style.INK, linewidths=0.5, zorder=3)


def in_order(values: pd.Series) -> list[Any]:
    """Return the distinct values of a column: numbers ascending, others in order of appearance."""
    found = list(dict.fromkeys(values))
    numeric = all(isinstance(one, int | float | np.number) for one in found)
    return sorted(found) if numeric else found


def written(value: Any, column: str) -> str:
    """Return the label of a value of an axis, in the unit of the axis.

    Args:
        value: The value in the table: a number, or a name.
        column: Name of its column.
    """
    if isinstance(value, int | float | np.number):
        return f"{float(quantity(column).of(value)):g}"
    return style.label(str(value)) if column == "algorithm" else str(value)
