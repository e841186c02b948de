"""Windows of flows over time, each in a panel of its own, on one scale."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from experiments.metrics import need
from experiments.plots import style
from experiments.plots.quantities import quantity


def windows(
    samples: Mapping[str, pd.DataFrame],
    algorithm: str,
    *,
    title: str = "",
    subtitle: str = "",
    note: str = "",
) -> style.Plot:
    """Draw the windows of one algorithm under several conditions, from top to bottom.

    Args:
        samples: Name of the condition -> columns `t_s`, `cwnd_bytes`.
        algorithm: It decides the colour.
        title: What the figure shows.
        subtitle: On what path; one line.
        note: What is behind it.

    Returns:
        The figure.

    Raises:
        MetricError: `metric.no_column`.
    """
    for own in samples.values():
        need(own, "t_s", "cwnd_bytes")
    shown = quantity("cwnd_bytes")
    with style.styled():
        plot = style.new_plot(0.9 + 1.25 * len(samples))
        rows = list(plot.subplots(len(samples), 1, sharex=True, sharey=True, squeeze=False)[:, 0])
        for axes, (name, own) in zip(rows, samples.items(), strict=True):
            axes.plot(own["t_s"], shown.of(own["cwnd_bytes"]), color=style.look(algorithm).colour)
            axes.text(1, 0.98, name, transform=axes.transAxes, ha="right", va="top", fontweight="bold")
        rows[-1].set_xlabel("time since the flow began [s]")
        rows[-1].set_xlim(left=0)
        rows[-1].set_ylim(0, 1.12 * max(axes.get_ylim()[1] for axes in rows))
        rows[len(rows) // 2].set_ylabel(shown.axis)
        style.finish(plot, rows[0], title, subtitle, note)
    return plot
