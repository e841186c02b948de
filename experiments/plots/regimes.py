"""Observations and decisions of a regime detector over time."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from experiments.metrics import need
from experiments.plots import style
from experiments.plots.quantities import quantity

REGIMES: Final = ("SINGLE_OWNER", "SHARED")
"""Regimes from the bottom of the panel to its top."""
_SEEN: Final = style.look("kernel/cubic").colour
_DECIDED: Final = "#2E7D32"
_COUNTS: Final = {"ce_marks": "new CE marks", "retransmits": "retransmissions"}


def regime_series(
    table: pd.DataFrame,
    *,
    threshold_ms: float | None = None,
    title: str = "",
    subtitle: str = "",
    note: str = "",
) -> style.Plot:
    """Draw the observations of a detector on one path, and its decisions, over time.

    Args:
        table: A row per interval, in order of time: columns `t_s`, `rtt_tail_ms`, `ce_marks`, `retransmits`,
            `density`, `regime`. NaN means not measured.
        threshold_ms: Tail RTT above which an interval counts as congested [ms]; None to omit it.
        title: Title of the figure.
        subtitle: One line below the title.
        note: Footnote.

    Returns:
        The figure: tail RTT, marks and retransmissions (if there were any), density and regime.

    Raises:
        MetricError: `metric.no_column`.
    """
    need(table, "t_s", "rtt_tail_ms", *_COUNTS, "density", "regime")
    counts = [name for name in _COUNTS if table[name].fillna(0).any()]
    with style.styled():
        plot = style.new_plot(1.5 + 1.15 * (2 + len(counts)))
        rows = list(plot.subplots(2 + len(counts), 1, sharex=True))
        rows[0].plot(table["t_s"], table["rtt_tail_ms"], color=_SEEN)
        rows[0].set_ylim(0, 1.15 * max(rows[0].get_ylim()[1], threshold_ms or 0.0))
        rows[0].set_ylabel(quantity("rtt_tail_ms").short_axis)
        handles = [Line2D([], [], color=_SEEN, label="observed")]
        if threshold_ms is not None:
            dashed = rows[0].axhline(threshold_ms, color=style.FAINT, linewidth=0.9, linestyle=(0, (4, 3)))
            dashed.set_label(f"congested above {threshold_ms:g} ms")
            handles.append(dashed)
        for axes, name in zip(rows[1:], counts, strict=False):
            axes.bar(table["t_s"], table[name].astype(float), _width_s(table["t_s"]), color=_SEEN)
            axes.set_ylabel(_COUNTS[name])
        handles += _decide(rows[-1], table)
        rows[-1].set_xlabel(quantity("t_s").axis)
        rows[-1].set_xlim(float(table["t_s"].min()), float(table["t_s"].max()))
        plot.align_ylabels()
        style.finish(plot, rows[0], title, subtitle, note, handles)
    return plot


def _width_s(t_s: pd.Series) -> float:
    return 0.8 * float(np.median(np.diff(t_s))) if len(t_s) > 1 else 1.0


def _decide(axes: Axes, table: pd.DataFrame) -> list[Line2D]:
    (density,) = axes.plot(
        table["t_s"],
        table["density"],
        drawstyle="steps-post",
        color=style.FAINT,
        linestyle=(0, (1.3, 1.3)),
        label="share of congested intervals",
    )
    (regime,) = axes.plot(
        table["t_s"],
        [REGIMES.index(name) for name in table["regime"]],
        drawstyle="steps-post",
        color=_DECIDED,
        label="regime",
    )
    axes.set_yticks([0, 0.5, 1], [f"0, {REGIMES[0]}", "0.5", f"1, {REGIMES[1]}"])
    axes.set_ylim(-0.08, 1.12)
    axes.set_ylabel("decision")
    return [density, regime]
