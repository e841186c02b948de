"""What all figures of the result pages share: reading kept results, marks with intervals, compact SVG."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from experiments.papers.kept import Kept
from experiments.plots import style
from experiments.statistics import Estimate

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
RESULTS: Final = DOCS / "results"
PAPERS: Final = RESULTS / "papers"
IMAGES: Final = DOCS / "images/figures"
SIM: Final = "-sim"

PAPER: Final = "black"
"""Colour of a paper's own numbers."""
BOUND: Final = {"color": style.FAINT, "lw": 0.9, "ls": (0, (2, 2)), "zorder": 1}
"""Line of a claim's bound."""
_FOOTNOTE_CHARACTERS: Final = 130


@dataclass(frozen=True)
class Figure:
    """A figure of a page.

    Attributes:
        plot: The figure.
        alt: Description for readers who do not see it.
        caption: What it shows, with numbers, in Markdown.
    """

    plot: style.Plot
    alt: str
    caption: str


# --- kept results


def part(paper: str, name: str) -> Kept:
    """Return the kept results of a paper's part.

    Raises:
        ResultError: `result.broken`.
    """
    return Kept.read(Kept.place(PAPERS, paper, name))


def rows(kept: Kept, table: int = 0, **where: Any) -> pd.DataFrame:
    """Return the rows of a table that have these values; in names of columns, `__` stands for a dot."""
    found = kept.tables[table].rows
    for column, value in where.items():
        found = found[found[column.replace("__", ".")] == value]
    return found


def is_stale(kept: Kept) -> bool:
    """Return whether at least one check of a part gives no verdict."""
    return bool(kept.stale([one.name for one in kept.checks]))


def runs_text(*kept: Kept) -> str:
    """Return how many runs figures show, and where they ran, as text."""
    said = []
    for one in kept:
        where = "simulator" if one.part.endswith(SIM) else f"real sockets, Linux {_release(one)}"
        counts = sorted({int(n) for table in one.tables for n in table.rows["n"]})
        n = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        text = f"{where}: n = {n} ({one.about['date'][:10]}{', stale' if is_stale(one) else ''})"
        if text not in said:
            said.append(text)
    return "; ".join(said)


def note(*kept: Kept) -> str:
    """Return the footnote of a figure."""
    return f"Medians with 95 % intervals. {runs_text(*kept)[0].upper()}{runs_text(*kept)[1:]}"


def _release(kept: Kept) -> str:
    return str(kept.about["host"]["kernel"]).split("-")[0]


# --- marks


def marks(
    axes: Axes,
    at: Sequence[float],
    found: pd.DataFrame,
    column: str,
    look: style.Look,
    *,
    simulated: bool,
    scale: float = 1.0,
    line: bool = True,
    **options: Any,
) -> None:
    """Draw medians with their intervals: filled marks for real sockets, open ones for the simulator."""
    middle, low, high = (
        scale * found[f"{column}{end}"].to_numpy(dtype=float) for end in ("", ".low", ".high")
    )
    reach = [
        pd.Series(middle - low).fillna(0).clip(lower=0),
        pd.Series(high - middle).fillna(0).clip(lower=0),
    ]
    axes.errorbar(
        at,
        middle,
        yerr=reach,
        color=look.colour,
        marker=look.marker,
        ms=5,
        mec=look.colour,
        mfc="white" if simulated else look.colour,
        mew=1.0,
        ls=("--" if simulated else "-") if line else "none",
        lw=1.1,
        elinewidth=1.1,
        **{"zorder": 3, **options},
    )


def cross(axes: Axes, across: Estimate, up: Estimate, look: style.Look, *, simulated: bool) -> None:
    """Draw a mark with an interval in both directions."""
    reach = [
        [[max(0.0, one.value - one.low)], [max(0.0, one.high - one.value)]] if one.low == one.low else None
        for one in (across, up)
    ]
    axes.errorbar(
        [across.value],
        [up.value],
        xerr=reach[0],
        yerr=reach[1],
        color=look.colour,
        marker=look.marker,
        ms=5,
        mec=look.colour,
        mfc="white" if simulated else look.colour,
        ls="none",
        elinewidth=1,
        zorder=3 if simulated else 4,
    )


def papers_own(axes: Axes, at: Sequence[float], values: Sequence[float]) -> None:
    """Draw values that a paper's text gives."""
    axes.plot(at, values, ls="none", marker="x", ms=7, mew=1.8, color=PAPER, zorder=5)


def handle(label: str, look: style.Look, *, simulated: bool = False, line: bool = True) -> Line2D:
    """Return an entry of a legend for `marks`."""
    return Line2D(
        [],
        [],
        label=label,
        color=look.colour,
        marker=look.marker,
        ms=5,
        mec=look.colour,
        mfc="white" if simulated else look.colour,
        ls=("--" if simulated else "-") if line else "none",
        lw=1.1,
    )


def datapaths(*, paper: str = "", real: bool = True, simulated: bool = True) -> list[Line2D]:
    """Return entries of a legend that tell datapaths and the paper's own numbers apart."""
    common: dict[str, Any] = {"ls": "none", "marker": "o", "ms": 5, "color": style.FAINT}
    entries = []
    if real:
        entries.append(Line2D([], [], label="real sockets", **common))
    if simulated:
        entries.append(Line2D([], [], label="simulator", mfc="white", **common))
    if paper:
        entries.append(Line2D([], [], label=paper, ls="none", marker="x", ms=6, mew=1.8, color=PAPER))
    return entries


def legend(plot: style.Plot, handles: Sequence[Line2D], columns: int = 6) -> None:
    """Put a legend above all panels."""
    plot.legend(handles=list(handles), loc="outside upper left", ncols=columns, columnspacing=1.4)


def footnote(plot: style.Plot, text: str) -> None:
    """Put a footnote below all panels, in as many lines as it needs."""
    style.head(plot, "", "\n".join(textwrap.wrap(text, _FOOTNOTE_CHARACTERS)))


def categories(axes: Axes, labels: Sequence[str]) -> None:
    """Label the places 0, 1, 2, ... of a horizontal axis."""
    axes.set_xticks(range(len(labels)), labels)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.5, len(labels) - 0.5)


# --- files

_LONG: Final = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")
_METADATA: Final = re.compile(r" <metadata>.*?</metadata>\n", re.DOTALL)
_NAMES: Final = re.compile(r"\b([a-z])[0-9a-f]{10}\b")
_FONT: Final = "'DejaVu Sans'"
_FALLBACKS: Final = f"{_FONT}, Verdana, sans-serif"


def svg(plot: style.Plot, alt: str) -> str:
    """Return a figure as compact SVG: text stays text, coordinates have a hundredth of a point.

    The same figure gives the same text: no dates, and identifiers that depend on the contents only.
    """
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "ccplane"}):
        plot.savefig(buffer, format="svg", metadata={"Date": None})
    text = _METADATA.sub("", buffer.getvalue()).replace(_FONT, _FALLBACKS)
    text = re.sub(r"<!DOCTYPE.*?>\n", "", text, flags=re.DOTALL)
    text = re.sub(r"\s*<!-- .*? -->", "", text)
    text = _LONG.sub(lambda found: _short(found[0]), text)
    text = re.sub(r'<g id="[a-z_]+[\d.]+"/>', "", text)  # what nothing refers to
    text = re.sub(r'<g id="[a-z_]+[\d.]+">', "<g>", text)
    text = re.sub(r'transform="rotate\(-?0 [^)]*\)"', "", text)
    text = re.sub(r"\s*\n\s*", "\n", text)
    names: dict[str, str] = {}  # matplotlib's names of clip paths depend on addresses in memory
    text = _NAMES.sub(lambda found: names.setdefault(found[0], f"{found[1]}{len(names)}"), text)
    return text.replace("<defs>", f"<title>{_escaped(alt)}</title>\n <defs>", 1)


def _short(number: str) -> str:
    return (
        f"{float(number):.2f}".rstrip("0").rstrip(".").replace("-0", "0" if float(number) > -0.005 else "-0")
    )


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def figure_text(name: str, figure: Figure) -> str:
    """Return a figure with its caption, as Markdown of a page in docs/papers."""
    return f"![{figure.alt}](../images/figures/{name}.svg)\n\n{figure.caption}"


Figures = Mapping[str, Any]
"""Name of a file, without its suffix -> function that returns the `Figure`."""
