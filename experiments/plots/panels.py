"""A matrix of panels: a column of a sweep against a number, for all values of one or two other columns."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from experiments.metrics import need
from experiments.plots import style
from experiments.plots.comparisons import draw_intervals, in_order, repeats_note, written
from experiments.plots.quantities import quantity
from experiments.statistics import over_repeats

_LEGEND_IN: Final = 0.26
"""Height of a line of legend [inches]."""
_TITLE_IN: Final = 0.34
"""Height of a title, with the gap below it [inches]."""


def panels(
    table: pd.DataFrame,
    value: str,
    x: str,
    columns: str,
    rows: str | None = None,
    *,
    by: str = "algorithm",
    level: float = 0.95,
    limit: float | None = None,
    title: str = "",
    note: str | None = None,
) -> style.Plot:
    """Draw a column against a number that a sweep varies, with a panel for each value of other columns.

    Panels without values are empty.

    Args:
        table: A row for each repeat.
        value: Column for the vertical axis; all panels share one scale.
        x: Column for the horizontal axis, numbers.
        columns: One column of panels for each value of this column.
        rows: One row of panels for each value of this column; None for a single row.
        by: One line for each value of this column.
        level: Level of the confidence intervals.
        limit: Maximum possible value, drawn as a line, in the unit of the column; None for no line.
        title: Title of the figure.
        note: Footnote; None for number of repeats and seeds.

    Raises:
        MetricError: `metric.no_column`.
    """
    need(table, value, x, columns, by, *([rows] if rows else []))
    table = table.assign(_all="") if rows is None else table
    down = rows or "_all"
    across, what = quantity(x), quantity(value)
    names, ticks = list(dict.fromkeys(table[by])), in_order(table[x])
    looks = style.looks(str(name) for name in names)
    estimates = over_repeats(table, value, [columns, down, by, x], level=level)
    lefts, tops = in_order(table[columns]), in_order(table[down])
    with style.styled():
        plot = style.new_plot(1.2 + 1.35 * max(len(tops), 1.3))
        grid = plot.subplots(len(tops), len(lefts), sharex=True, sharey=True, squeeze=False)
        for i, top in enumerate(tops):
            for j, left in enumerate(lefts):
                axes = grid[i, j]
                here = estimates[(estimates[columns] == left) & (estimates[down] == top)]
                for name in names:
                    _line(axes, here[here[by] == name].sort_values(x), x, value, looks[str(name)])
                if limit is not None:
                    maximum = float(what.of(limit))
                    axes.axhline(maximum, color=style.FAINT, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
                if i == 0:
                    axes.set_title(_named(columns, left), color=style.INK)
                if j == 0:
                    axes.set_ylabel(f"{_named(down, top)}\n{what.short_axis}" if rows else what.axis)
        grid[0, 0].set_ylim(bottom=0)
        grid[0, 0].set_xticks(across.of(ticks), [written(one, x) for one in ticks])
        for axes in grid[-1]:
            axes.set_xlabel(across.axis)
        style.head(plot, title, repeats_note(table, estimates, level) if note is None else note)
        handles = [_handle(looks[str(name)], style.label(str(name))) for name in names]
        _legend(plot, handles, bool(title))
    return plot


def _line(axes: Axes, own: pd.DataFrame, x: str, value: str, look: style.Look) -> None:
    at, middle = quantity(x).of(own[x]), quantity(value).of(own["value"])
    draw_intervals(axes, at, own, quantity(value), look.colour, zorder=2)
    axes.plot(at, middle, **_options(look))


def _legend(plot: style.Plot, handles: list[Line2D], below_title: bool) -> None:
    """Put one legend above all panels; the layout leaves room for its height, but ignores its width."""
    height_in = plot.get_size_inches()[1]
    engine = plot.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine), "all figures of this package use it"
    engine.set(rect=(0, 0, 1, 1 - _LEGEND_IN / height_in))
    top = 1 - (_TITLE_IN if below_title else 0.05) / height_in
    plot.legend(handles=handles, loc="upper left", bbox_to_anchor=(0.008, top), ncols=len(handles))


def _handle(look: style.Look, label: str) -> Line2D:
    return Line2D([], [], label=label, **_options(look))


def _options(look: style.Look) -> dict[str, Any]:
    return {"color": look.colour, "marker": look.marker, "ms": 4.5, "mec": "white", "mew": 0.6}


def _named(column: str, value: Any) -> str:
    what = quantity(column)
    return f"{what.name} {written(value, column)} {what.unit}".rstrip()
