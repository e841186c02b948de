"""Reports of an agent and events of a probe on one time axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes

from experiments.metrics import need
from experiments.plots import style
from experiments.plots.quantities import quantity

_REPORTS: Final = style.look("cubic").colour
_EVENTS: Final = style.look("kernel/cubic").colour
_LINES: Final = 4
"""Number of flows with distinct line styles."""


def timeline(
    reports: pd.DataFrame,
    events: pd.DataFrame,
    *,
    panels: Sequence[str] = ("cwnd_bytes",),
    fields: Mapping[str, str] | None = None,
    title: str = "",
    subtitle: str = "",
    note: str = "",
) -> style.Plot:
    """Draw columns of reports over time, and below them a panel for each source of events.

    Args:
        reports: Columns `t_s`, `flow_id` and those of `panels`, as in `Recorded` of `probes.timeline`.
        events: Columns `t_s`, `source` and those of `fields`, likewise.
        panels: Columns of the reports, from top to bottom.
        fields: Source -> the field to draw, one dot per event. Events of other sources are ticks.
        title: Title of the figure.
        subtitle: One line below the title.
        note: Footnote.

    Raises:
        MetricError: `metric.no_column`.
    """
    fields = fields or {}
    sources = list(dict.fromkeys([*fields, *(events["source"] if len(events) else [])]))
    need(reports, "t_s", "flow_id", *panels)
    need(events, "t_s", *(["source", *fields.values()] if sources else []))
    ratios = [1.4] * len(panels) + [1.0 if source in fields else 0.4 for source in sources]
    with style.styled():
        plot = style.new_plot(1.0 + 1.3 * sum(ratios))
        rows = list(plot.subplots(len(ratios), 1, sharex=True, squeeze=False, height_ratios=ratios)[:, 0])
        legend: list[Any] = []
        for axes, column in zip(rows, panels, strict=False):
            legend = _report_lines(axes, reports, column)
        for axes, source in zip(rows[len(panels) :], sources, strict=True):
            _draw_events(axes, events[events["source"] == source], source, fields.get(source))
        rows[-1].set_xlabel("time since the start of the recording [s]")
        rows[-1].set_xlim(left=0)
        plot.align_ylabels()
        style.finish(plot, rows[0], title, subtitle, note, legend)
    return plot


def _report_lines(axes: Axes, reports: pd.DataFrame, column: str) -> list[Any]:
    lines = []
    for number, (flow_id, own) in enumerate(reports.groupby("flow_id")):
        (line,) = axes.plot(
            own["t_s"],
            quantity(column).of(own[column]),
            color=_REPORTS,
            linestyle=style.DASHES[number % _LINES],
            drawstyle="steps-post",
            marker=".",
            markersize=2.5,
            linewidth=0.9,
            label=f"reports of flow {flow_id}",
        )
        lines.append(line)
    axes.set_ylabel(quantity(column).short_axis)
    axes.set_ylim(0, 1.12 * max(axes.get_ylim()[1], 1e-9))
    return lines


def _draw_events(axes: Axes, own: pd.DataFrame, source: str, field: str | None) -> None:
    if field is None:
        axes.vlines(own["t_s"], 0, 1, color=_EVENTS, linewidth=0.8)
        axes.set_ylim(0, 1)
        axes.set_yticks([])
        axes.set_ylabel(source)
    else:
        values = quantity(field).of(own[field])
        axes.plot(own["t_s"], values, ".", color=_EVENTS, markersize=2.5)
        axes.set_ylabel(quantity(field).short_axis)
        axes.set_ylim(0, 1.12 * max(axes.get_ylim()[1], 1e-9))
    axes.text(
        1,
        1.02,
        f"probe `{source}`: {len(own)} event{'s' * (len(own) != 1)}",
        transform=axes.transAxes,
        ha="right",
        va="bottom",
        fontsize=7.5,
        color=_EVENTS,
    )
