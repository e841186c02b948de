"""Distributions: cumulative distribution functions, and throughput against delay."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse
from numpy.typing import NDArray

from experiments.metrics import need
from experiments.plots import style
from experiments.plots.quantities import quantity

_MIN_POINTS: Final = 3
"""Minimum number of points for an ellipse: two points lie on a line."""


def cdf(
    table: pd.DataFrame,
    column: str,
    *,
    by: str = "algorithm",
    log: bool = False,
    title: str = "",
    subtitle: str = "",
    note: str = "",
) -> style.Plot:
    """Draw the empirical distribution of a column.

    Args:
        table: Rows are values of equal weight: samples, objects, runs.
        column: Column to draw; missing values are left out, and so are curves without values.
        by: One curve for each value of this column; as for an algorithm, the value determines the colour.
        log: Use a logarithmic horizontal axis.
        title: Title of the figure.
        subtitle: Description of the path.
        note: Footnote, such as seeds and machine.

    Returns:
        The figure; the legend shows the number of values of each curve.

    Raises:
        MetricError: `metric.no_column`.
    """
    need(table, column, by)
    what = quantity(column)
    with style.styled():
        plot = style.new_plot(3.4)
        axes = plot.subplots()
        looks = style.looks(table[by].astype(str))
        handles = []
        for name, own in table.groupby(by, sort=False):
            known = what.of(own[column].dropna())
            if not known.size:
                continue
            text = f"{style.label(str(name))} (n = {known.size:,})"
            handles.append(axes.ecdf(known, color=looks[str(name)].colour, label=text))
        for share in (0.5, 0.95):
            axes.axhline(share, color=style.FAINT, linewidth=0.7, linestyle=(0, (1, 2)), zorder=1)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 0.95])
        axes.set_ylim(0, 1.01)
        axes.set_ylabel("share of values at or below")
        axes.set_xlabel(what.axis)
        if log:
            axes.set_xscale("log")
        axes.grid(axis="x", color=style.RULE)
        style.finish(plot, axes, title, subtitle, note, handles)
    return plot


def throughput_delay(
    table: pd.DataFrame,
    *,
    delay: str = "rtt_p50_us",
    throughput: str = "goodput_bytes_per_s",
    by: str = "algorithm",
    title: str = "",
    subtitle: str = "",
    note: str = "",
) -> style.Plot:
    """Draw throughput against delay: one point per row, and an ellipse for each group.

    The ellipse is one standard deviation of the two-dimensional normal distribution with the points' mean and
    covariance; it contains 39 % of that distribution. Delay grows to the left, so up and right is better.
    Rows without both values are left out; fewer than three points have no ellipse.

    Args:
        table: A row for each run and flow.
        delay: Column for the horizontal axis.
        throughput: Column for the vertical axis.
        by: One colour and ellipse for each value of this column.
        title: Title of the figure.
        subtitle: Description of the path.
        note: Footnote, such as seeds and machine.

    Raises:
        MetricError: `metric.no_column`.

    Source: the form of figure 4 of Winstein and Balakrishnan, "TCP ex Machina", SIGCOMM 2013.
    """
    need(table, delay, throughput, by)
    across, up = quantity(delay), quantity(throughput)
    with style.styled():
        plot = style.new_plot(4.0)
        axes = plot.subplots()
        looks = style.looks(table[by].astype(str))
        handles = []
        for name, own in table.dropna(subset=[delay, throughput]).groupby(by, sort=False):
            look = looks[str(name)]
            points = np.column_stack([across.of(own[delay]), up.of(own[throughput])])
            axes.scatter(
                points[:, 0],
                points[:, 1],
                s=14,
                marker=look.marker,
                color=look.colour,
                alpha=0.45,
                linewidths=0,
            )
            if len(points) >= _MIN_POINTS:
                _add_ellipse(axes, points, look.colour)
            axes.plot(*points.mean(axis=0), marker=look.marker, color=look.colour, mec="white", ms=8, mew=0.8)
            text = f"{style.label(str(name))} (n = {len(points)})"
            handles.append(Line2D([], [], ls="none", marker=look.marker, color=look.colour, ms=6, label=text))
        axes.margins(0.12)
        axes.invert_xaxis()
        axes.set_ylim(bottom=max(0, axes.get_ylim()[0]))
        axes.set_xlabel(f"{across.axis}   (lower values to the right)")
        axes.set_ylabel(up.axis)
        axes.grid(axis="x", color=style.RULE)
        axes.annotate(
            "better",
            (0.985, 0.97),
            (0.93, 0.86),
            xycoords="axes fraction",
            textcoords="axes fraction",
            ha="right",
            va="top",
            color=style.FAINT,
            arrowprops={"arrowstyle": "-|>", "color": style.FAINT, "linewidth": 0.9},
        )
        style.finish(plot, axes, title, subtitle, note, handles)
    return plot


def ellipse_of(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], float, float, float]:
    """Return the ellipse of one standard deviation.

    Args:
        points: (n, 2) float64, n >= 2.

    Returns:
        Centre, full lengths of the long and short axes, and angle of the long axis [degrees].
    """
    values, vectors = np.linalg.eigh(np.cov(points.T))
    width, height = 2 * np.sqrt(np.maximum(values[::-1], 0))
    angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
    return points.mean(axis=0), float(width), float(height), float(angle)


def _add_ellipse(axes: Axes, points: NDArray[np.float64], colour: str) -> None:
    centre, width, height, angle = ellipse_of(points)
    shape: dict[str, Any] = {"xy": tuple(centre), "width": width, "height": height, "angle": angle}
    axes.add_patch(Ellipse(**shape, facecolor=colour, alpha=0.18, edgecolor="none"))
    axes.add_patch(Ellipse(**shape, facecolor="none", edgecolor=colour, linewidth=1.2))
