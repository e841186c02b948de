"""Figures: one look, one colour an algorithm, a unit on every axis.

Data goes in, a matplotlib figure comes out; nothing here measures, and nothing touches pyplot's global state.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray

from experiments.netlab import TcpInfo

COLOURS: Final = {"cubic": "#0072B2", "ccp.cubic": "#D55E00"}
"""Colour by congestion-control name, the same in every figure. Blue and vermilion of Okabe and Ito's palette,
"Color Universal Design" (2008), which people with any kind of colour vision can tell apart."""

THROUGHPUT_INTERVAL_S: Final = 0.2
"""Over what time the figure's throughput is taken [s]."""

_INK: Final = "#262626"
_FAINT: Final = "#8C8C8C"
_STYLE: Final[Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": _INK,
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.8,
    "xtick.color": _FAINT,
    "ytick.color": _FAINT,
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.solid_capstyle": "round",
}


@dataclass(frozen=True)
class Trace:
    """What one flow did over time.

    Attributes:
        congestion: Congestion-control name; it decides the colour.
        label: What the legend calls it.
        samples: At least two, in order of time.
    """

    congestion: str
    label: str
    samples: Sequence[TcpInfo]

    @property
    def time_s(self) -> NDArray[np.float64]:
        """Time of each sample since the first one [s]."""
        return np.array([one.time_s for one in self.samples]) - self.samples[0].time_s

    @property
    def cwnd_bytes(self) -> NDArray[np.float64]:
        """Congestion window at each sample [bytes]."""
        return np.array([one.cwnd_bytes for one in self.samples], dtype=np.float64)

    def throughput(self, interval_s: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what was acknowledged a second.

        Args:
            interval_s: Over what time each value is taken [s]; samples closer than that are passed over.

        Returns:
            Middle of each interval [s], and rate over it [bytes/s].
        """
        time_s = self.time_s
        chosen = [0]
        for i, at_s in enumerate(time_s):
            if at_s - time_s[chosen[-1]] >= interval_s:
                chosen.append(i)
        at = time_s[chosen]
        acked_bytes = np.array([self.samples[i].bytes_acked for i in chosen], dtype=np.float64)
        return (at[1:] + at[:-1]) / 2, np.diff(acked_bytes) / np.diff(at)


def flows_figure(traces: Sequence[Trace], *, title: str, subtitle: str, limit_bytes_per_s: float) -> Figure:
    """Draw congestion window and throughput of flows over time, one above the other.

    Args:
        traces: The flows; they need not have run at the same time.
        title: What the figure shows.
        subtitle: On what path, and on what machine.
        limit_bytes_per_s: Most payload that the path can carry [bytes/s].

    Returns:
        The figure.
    """
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(9, 6), layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.12))
        window, throughput = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
        for trace in traces:
            colour = COLOURS[trace.congestion]
            window.plot(trace.time_s, trace.cwnd_bytes / 1e3, color=colour, label=trace.label)
            at_s, rate_bytes_per_s = trace.throughput(THROUGHPUT_INTERVAL_S)
            throughput.plot(at_s, rate_bytes_per_s / 125e3, color=colour, label=trace.label)
        _finish_window(window, title, subtitle)
        _finish_throughput(throughput, limit_bytes_per_s)
        throughput.set_xlim(0, max(float(trace.time_s[-1]) for trace in traces))
        throughput.set_xlabel("time since the flow began [s]")
        figure.align_ylabels()
    return figure


def _finish_window(axes: Axes, title: str, subtitle: str) -> None:
    axes.set_title(title, loc="left", fontsize=13, fontweight="bold", pad=24)
    axes.annotate(
        subtitle, (0, 1), (0, 8), xycoords="axes fraction", textcoords="offset points", color=_FAINT
    )
    axes.legend(loc="lower right", ncols=2, handlelength=1.6, fontsize=11)
    axes.set_ylabel("congestion window [kB]")
    axes.set_ylim(bottom=0)


def _finish_throughput(axes: Axes, limit_bytes_per_s: float) -> None:
    limit_mbit_per_s = limit_bytes_per_s / 125e3
    axes.axhline(limit_mbit_per_s, color=_FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    axes.annotate(
        f"most payload that fits: {limit_mbit_per_s:.1f} Mbit/s",
        (1, limit_mbit_per_s),
        (0, -8),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        ha="right",
        va="top",
        color=_FAINT,
        fontsize=9,
    )
    axes.set_ylabel("throughput [Mbit/s]")
    axes.set_ylim(0, 1.15 * limit_mbit_per_s)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, into a directory that is made if need be.

    Args:
        figure: The figure.
        path: The file. Run by root, it belongs to whom the directory around it belongs.

    Raises:
        OSError: If it cannot be written.
    """
    made = [parent for parent in (path.parent, *path.parent.parents) if not parent.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, format="png")
    if os.geteuid() == 0:
        around = (made[-1] if made else path).absolute().parent.stat()
        for one in (*made, path):
            os.chown(one, around.st_uid, around.st_gid)
