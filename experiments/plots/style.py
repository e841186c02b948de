"""One style for all figures: fonts, lines, and a colour for each algorithm.

Figures are plain matplotlib objects that never touch pyplot's global state; notebooks display them directly.
"""

from __future__ import annotations

import io
import textwrap
import zlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

INK: Final = "#262626"
FAINT: Final = "#757575"
RULE: Final = "#E3E3E3"
DPI: Final = 200
WIDTH_IN: Final = 7.2
"""Width of a figure across both columns of a paper [inches]."""

STYLE: Final[Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.titlesize": 9,
    "axes.titlecolor": FAINT,
    "axes.titlelocation": "left",
    "grid.color": RULE,
    "grid.linewidth": 0.7,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.handlelength": 1.8,
    "legend.borderaxespad": 0,
    "lines.linewidth": 1.4,
    "lines.solid_capstyle": "round",
    "hatch.color": "#C9C9C9",
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "ccplane",  # equal figures give equal files
}
"""Matplotlib's rcParams that differ from the defaults."""

_NOTE_PT: Final = 7.5
_CHARACTER_EM: Final = 0.56  # mean width of a character of DejaVu Sans
_MARGIN_IN: Final = 0.6  # left of axes, with their labels

Dashes = Literal["-"] | tuple[float, tuple[float, ...]]

DASHES: Final[tuple[Dashes, ...]] = ("-", (0, (4, 1.6)), (0, (1.3, 1.3)), (0, (6, 1.4, 1.3, 1.4)))
"""Line styles of the flows of one algorithm, in this order."""


@dataclass(frozen=True)
class Look:
    """The style of an algorithm.

    Attributes:
        colour: A colour of matplotlib.
        marker: Marker of points.
        hatch: Hatch of bars, for algorithms without their own colour.
    """

    colour: str
    marker: str
    hatch: str = ""


# Okabe and Ito, "Color Universal Design", 2008, without yellow (too pale on white) and black (hides what it
# covers), then others. They are distinguishable with any kind of colour vision.
_OWN: Final = {
    "kernel/cubic": Look("#0072B2", "o"),
    "cubic": Look("#D55E00", "s"),
    "kernel/reno": Look("#56B4E9", "D"),
    "reno": Look("#E69F00", "^"),
    "kernel/bbr": Look("#009E73", "v"),
    "kernel/dctcp": Look("#332288", "P"),
    "dctcp": Look("#882255", "X"),
    "flex_cubic": Look("#CC79A7", "p"),
    "r_hybrid": Look("#8BC34A", "h"),
    "rtcp": Look("#6B4A2B", "*"),
    "CUBIC New L1": Look("#AA4499", ">"),
    "CUBIC New L2": Look("#CC3311", "<"),
}
"""Algorithms that papers compare often; their style is reserved in all figures."""

_OTHERS: Final = [
    Look(colour, marker, hatch)
    for hatch in ("", "////", "....")
    for colour, marker in (
        ("#44AA99", "<"),
        ("#AA4499", ">"),
        ("#999933", "d"),
        ("#661100", "H"),
        ("#5C6BC0", "8"),
        ("#7A7A7A", "X"),
    )
]

_WRITTEN: Final = {
    "bbr": "BBR",
    "bbr3": "BBRv3",
    "bic": "BIC",
    "copa": "Copa",
    "cubic": "CUBIC",
    "dctcp": "DCTCP",
    "r_tcp_bbr3": "R-TCP BBRv3",
    "r_tcp_cubic": "R-TCP CUBIC",
    "reno": "Reno",
    "vegas": "Vegas",
    "westwood": "Westwood",
}


_PLACES: Final = {"kernel": "kernel", "rtcp": "R-TCP"}


def looks(algorithms: Iterable[str]) -> dict[str, Look]:
    """Return the styles of algorithms: all different, and the same in every figure.

    An algorithm without a reserved style gets one from its name. If two names of a figure map to the same
    style, the second name in alphabetical order takes another style.
    """
    names = sorted(set(algorithms))
    chosen = {name: _OWN[name] for name in names if name in _OWN}
    for name in names:
        if name not in chosen:
            first = zlib.crc32(name.encode()) % len(_OTHERS)
            turned = _OTHERS[first:] + _OTHERS[:first]
            free = [look for look in turned if look not in chosen.values()] or turned[:1]
            colours = {look.colour for look in chosen.values()}  # lines have no hatch to distinguish them
            chosen[name] = next((look for look in free if look.colour not in colours), free[0])
    return chosen


def look(algorithm: str) -> Look:
    """Return the style of one algorithm."""
    return looks([algorithm])[algorithm]


def label(algorithm: str) -> str:
    """Return an algorithm's label in legends: `kernel CUBIC` or, for ccplane's `cubic`, `ccplane CUBIC`."""
    where, _, name = algorithm.rpartition("/")
    if where in _PLACES:
        return f"{_PLACES[where]} {_WRITTEN.get(name, name)}"
    return f"ccplane {_WRITTEN[name]}" if name in _WRITTEN else name


class Plot(Figure):
    """A matplotlib figure that notebooks display without pyplot."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()


def styled() -> AbstractContextManager[None]:
    """Return a context manager that applies the plot style of this package."""
    return matplotlib.rc_context(
        {**matplotlib.rcParamsDefault, **STYLE, "backend": matplotlib.rcParams["backend"]}
    )


def new_plot(height_in: float, width_in: float = WIDTH_IN) -> Plot:
    """Return an empty figure of this size [inches]; create and fill it within `styled()`."""
    return Plot(
        figsize=(width_in, height_in), layout=ConstrainedLayoutEngine(h_pad=0.05, w_pad=0.06, hspace=0.03)
    )


def finish(plot: Plot, top: Axes, title: str, subtitle: str, note: str, legend: Sequence[Any] = ()) -> None:
    """Add title, subtitle, legend and footnote at their usual places.

    Args:
        plot: The figure.
        top: Its first axes; subtitle and legend go above them.
        title: Title of the figure.
        subtitle: One line below the title.
        note: Footnote: number of runs, seeds, statistics.
        legend: Handles with labels; empty for no legend.
    """
    head(plot, title, note)
    rows = 0
    if legend:
        columns = _columns([str(handle.get_label()) for handle in legend])
        rows = -(-len(legend) // columns)
        top.legend(
            handles=legend, loc="lower left", bbox_to_anchor=(0, 1.01), ncols=columns, columnspacing=1.5
        )
    top.set_title(_wrapped(plot, subtitle, STYLE["axes.titlesize"]), pad=6 + 14 * rows)


def head(plot: Plot, title: str, note: str) -> None:
    """Put the title above and the footnote below, in as many lines as they need; either may be empty."""
    if title:
        plot.suptitle(title, x=0.008, ha="left", fontsize=11, fontweight="bold", wrap=True)
    if note:
        wrapped = _wrapped(plot, note, _NOTE_PT)
        plot.supxlabel(wrapped, x=0.008, ha="left", fontsize=_NOTE_PT, color=FAINT)


def _wrapped(plot: Plot, text: str, size_pt: float) -> str:
    """Break a text into lines that fit into a figure."""
    characters = (plot.get_figwidth() - _MARGIN_IN) * 72 / (size_pt * _CHARACTER_EM)
    return "\n".join(textwrap.fill(line, int(characters)) for line in text.splitlines())


def _columns(labels: Sequence[str]) -> int:
    characters = max(len(text) for text in labels) + 6
    return max(1, min(len(labels), 105 // characters))
