"""Flows and queues over time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from experiments.metrics import goodput_over_time, need
from experiments.plots import style
from experiments.plots.quantities import quantity

PANELS: Final = ("cwnd_bytes", "srtt_us", "goodput_bytes_per_s")
_CONDITION_IN: Final = 3.7
"""Width of a column of panels [inches]."""
MAX_LINKS: Final = 3
"""Maximum number of queues in a figure; the longest are drawn."""
_LABEL_STEP: Final = 0.1
"""Minimum distance between labels at the ends of lines, as a share of the panel's height."""
_NEUTRAL: Final = ("#262626", "#8A8A8A", "#B5B5B5")


def time_series(
    flow_samples: pd.DataFrame,
    flows: pd.DataFrame,
    link_samples: pd.DataFrame | None = None,
    events: pd.DataFrame | None = None,
    *,
    panels: Sequence[str] = PANELS,
    goodput_interval_s: float | None = None,
    title: str = "",
    subtitle: str = "",
    note: str = "",
) -> style.Plot:
    """Draw columns of flows over time, one panel each, and the queues of the links below.

    Args:
        flow_samples: Columns `t_s`, `flow`, and those of `panels`; for goodput, `bytes_acked` instead.
        flows: Columns `flow` and `algorithm`; the algorithm determines the colour, and line styles
            distinguish its flows.
        link_samples: Columns `t_s`, `link`, `queue_bytes`, and `dropped_queue_pkts` to mark drops. Links that
            never had a queue are left out; None for no queue panel.
        events: Columns `t_s`, `kind`; each event is a dotted line. None for no events.
        panels: Columns of `flow_samples`, from top to bottom.
        goodput_interval_s: Interval for goodput [s]; None for a hundredth of the run, but at least 0.2 s.
        title: Title of the figure.
        subtitle: Description of the path.
        note: Footnote, such as seed and machine.

    Raises:
        MetricError: `metric.no_column`.
    """
    need(flow_samples, "t_s", "flow", *(one for one in panels if one != "goodput_bytes_per_s"))
    need(flows, "flow", "algorithm")
    queues = _queues(link_samples)
    ratios = [1.5 if column == "cwnd_bytes" else 1.0 for column in panels] + [0.8] * bool(queues)
    with style.styled():
        plot = style.new_plot(0.9 + 1.35 * sum(ratios))
        rows = list(plot.subplots(len(ratios), 1, sharex=True, squeeze=False, height_ratios=ratios)[:, 0])
        lines = _lines(flows)
        for axes, column in zip(rows, panels, strict=False):
            _draw(axes, flow_samples, column, lines, goodput_interval_s)
            axes.set_ylabel(quantity(column).short_axis)
            axes.set_ylim(0, 1.12 * max(axes.get_ylim()[1], 1e-9))
        if queues:
            _draw_queues(rows[-1], queues)
        if events is not None:
            _mark(rows, events)
        rows[-1].set_xlim(0, _end_s(flow_samples))
        rows[-1].set_xlabel("time since the start of the run [s]")
        plot.align_ylabels()
        style.finish(plot, rows[0], title, subtitle, note, list(lines.values()))
    return plot


def side_by_side(
    columns: Mapping[str, pd.DataFrame],
    flows: pd.DataFrame,
    *,
    panels: Sequence[str] = ("cwnd_bytes", "goodput_bytes_per_s"),
    limits: Mapping[str, float] | None = None,
    goodput_interval_s: float | None = None,
    marks: Mapping[str, tuple[float, str]] | None = None,
    title: str = "",
    note: str = "",
) -> style.Plot:
    """Draw flows over time under several conditions, with a column of panels for each condition.

    Args:
        columns: Name of the condition -> its flow_samples, with columns as in `time_series`. Lines of its top
            panel are labelled at their ends.
        flows: Columns `flow` and `algorithm`, for the flows of all conditions.
        panels: Columns of the samples, from top to bottom; the panels of a row share one scale.
        limits: Column -> maximum possible value, drawn as a line, in the unit of the column.
        goodput_interval_s: As in `time_series`.
        marks: Condition -> time [s] and label of an event, drawn as a line through its column.
        title: Title of the figure.
        note: Footnote, such as seeds and machine.

    Raises:
        MetricError: `metric.no_column`.
    """
    need(flows, "flow", "algorithm")
    for samples in columns.values():
        need(samples, "t_s", "flow", *(one for one in panels if one != "goodput_bytes_per_s"))
    with style.styled():
        plot = style.new_plot(1.2 + 1.9 * len(panels), max(style.WIDTH_IN, _CONDITION_IN * len(columns)))
        grid = plot.subplots(len(panels), len(columns), sharex="col", sharey="row", squeeze=False)
        lines = _lines(flows)
        for i, (name, samples) in enumerate(columns.items()):
            for axes, column in zip(grid[:, i], panels, strict=True):
                _draw(axes, samples, column, lines, goodput_interval_s)
                if limits and column in limits:
                    _draw_limit(axes, float(quantity(column).of(limits[column])), quantity(column).unit)
            grid[-1, i].set_xlim(0, _end_s(samples))
            grid[-1, i].set_xlabel("time since the start of the run [s]")
            grid[0, i].set_title(name, color=style.INK, fontweight="bold")
            if marks and name in marks:
                _mark_moment(list(grid[:, i]), *marks[name])
        for axes, column in zip(grid[:, 0], panels, strict=True):
            axes.set_ylabel(quantity(column).short_axis)
            axes.set_ylim(0, 1.12 * max(axes.get_ylim()[1], 1e-9))
        for axes, samples in zip(grid[0], columns.values(), strict=True):
            _label_ends(axes, samples, panels[0], lines)
        plot.align_ylabels()
        style.head(plot, title, note)
    return plot


def _draw(
    axes: Axes,
    flow_samples: pd.DataFrame,
    column: str,
    lines: Mapping[str, Line2D],
    goodput_interval_s: float | None,
) -> None:
    for flow, line in lines.items():
        own = flow_samples[flow_samples["flow"] == flow].sort_values("t_s")
        if column == "goodput_bytes_per_s":
            own = goodput_over_time(own, goodput_interval_s or _interval_s(flow_samples))
        values = quantity(column).of(own[column])
        axes.plot(own["t_s"], values, color=line.get_color(), linestyle=line.get_linestyle())


def _label_ends(axes: Axes, flow_samples: pd.DataFrame, column: str, lines: Mapping[str, Line2D]) -> None:
    """Write the label of each flow next to the end of its line, at least a line of text apart."""
    ends = {}
    for flow in lines:
        own = flow_samples[flow_samples["flow"] == flow].sort_values("t_s")[column].dropna()
        if len(own):
            ends[flow] = float(quantity(column).of(own)[-1]) / axes.get_ylim()[1]
    at = -_LABEL_STEP
    for flow in sorted(ends, key=lambda flow: ends[flow]):
        at = max(ends[flow], at + _LABEL_STEP)
        axes.annotate(
            str(lines[flow].get_label()),
            (1, at),
            (4, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=lines[flow].get_color(),
        )


def _mark_moment(column: Sequence[Axes], t_s: float, what: str) -> None:
    for axes in column:
        axes.axvline(t_s, color=style.INK, linewidth=1.0, zorder=1)
    column[0].annotate(
        what,
        (t_s, 0.5),
        (-4, 0),
        xycoords=column[0].get_xaxis_transform(),
        textcoords="offset points",
        ha="right",
        va="center",
        fontsize=8.5,
    )


def _draw_limit(axes: Axes, limit: float, unit: str) -> None:
    axes.axhline(limit, color=style.FAINT, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
    axes.annotate(
        f"payload limit {limit:.1f} {unit}",
        (0, limit),
        (3, 2),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        ha="left",
        va="bottom",
        fontsize=7,
        color=style.FAINT,
    )


def _end_s(samples: pd.DataFrame) -> float:
    return float(samples["t_s"].max()) if len(samples) else 1.0


def _lines(flows: pd.DataFrame) -> dict[str, Line2D]:
    looks = style.looks(flows["algorithm"])
    n_with = Counter(flows["algorithm"])
    seen: Counter[str] = Counter()
    lines = {}
    for flow, algorithm in zip(flows["flow"], flows["algorithm"], strict=True):
        dashes = style.DASHES[seen[algorithm] % len(style.DASHES)]
        seen[algorithm] += 1
        name = style.label(algorithm)
        lines[str(flow)] = Line2D(
            [],
            [],
            color=looks[algorithm].colour,
            linestyle=dashes,
            label=name if n_with[algorithm] == 1 else f"{name}, flow {flow}",
        )
    return lines


def _interval_s(flow_samples: pd.DataFrame) -> float:
    passed_s = float(flow_samples["t_s"].max() - flow_samples["t_s"].min()) if len(flow_samples) else 0.0
    return max(0.2, passed_s / 100)


def _queues(link_samples: pd.DataFrame | None) -> list[tuple[str, pd.DataFrame]]:
    """Return the links that had a queue, the longest first."""
    if link_samples is None:
        return []
    need(link_samples, "t_s", "link", "queue_bytes")
    longest = link_samples.groupby("link", sort=False)["queue_bytes"].max().sort_values(ascending=False)
    names = [name for name, maximum in longest.items() if maximum > 0][:MAX_LINKS]
    return [(str(name), link_samples[link_samples["link"] == name].sort_values("t_s")) for name in names]


def _draw_queues(axes: Axes, queues: Sequence[tuple[str, pd.DataFrame]]) -> None:
    for (name, own), colour in zip(queues, _NEUTRAL, strict=False):
        axes.plot(own["t_s"], quantity("queue_bytes").of(own["queue_bytes"]), color=colour, lw=1, label=name)
        if "dropped_queue_pkts" in own.columns:
            dropped = own.loc[own["dropped_queue_pkts"].diff() > 0, "t_s"]
            axes.plot(
                dropped,
                np.ones(len(dropped)),
                transform=axes.get_xaxis_transform(),
                linestyle="none",
                marker=7,  # a caret whose tip marks the point
                markersize=3.5,
                color=colour,
                clip_on=False,
                label="drops" if len(queues) == 1 else f"drops of {name}",
            )
    axes.set_ylabel(quantity("queue_bytes").short_axis)
    axes.set_ylim(0, 1.3 * max(axes.get_ylim()[1], 1e-9))
    axes.legend(loc="upper right", fontsize=7.5, handlelength=1.2, ncols=2 * MAX_LINKS, columnspacing=1.2)


def _mark(rows: Sequence[Axes], events: pd.DataFrame) -> None:
    need(events, "t_s", "kind")
    detail = events["detail"] if "detail" in events.columns else [None] * len(events)
    for t_s, kind, more in zip(events["t_s"], events["kind"], detail, strict=True):
        for axes in rows:
            axes.axvline(t_s, color=style.FAINT, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
        rows[0].annotate(
            _reported(str(kind), more),
            (t_s, 1),
            (3, -1),
            xycoords=rows[0].get_xaxis_transform(),
            textcoords="offset points",
            va="top",
            fontsize=7,
            color=style.FAINT,
        )


def _reported(kind: str, detail: object) -> str:
    try:
        fields = json.loads(str(detail))
    except ValueError:
        fields = {}
    what = (
        fields.get("link") or fields.get("flow") or fields.get("param") if isinstance(fields, dict) else None
    )
    return f"{kind} {what}" if what else kind
