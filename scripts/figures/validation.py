"""Figure and table of docs/validation.md."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from experiments.plots import style
from experiments.validation import rules
from experiments.validation.heldout import QUANTITIES, Heldout, Quantity
from experiments.validation.running import KERNEL, SIMULATOR
from scripts.figures.drawing import RESULTS, Figure, footnote, handle, legend

NAME: Final = "validation"
_BAND: Final = 0.05
_CLIPPED: Final = 29.0
"""Largest deviation that is drawn [%]."""
_SHOWN: Final = ("draw-2", "draw-3")
"""Draws of the figure; draw 1 ran on a busy machine."""
_LOOKS: Final = {"draw-2": style.Look("#0072B2", "o"), "draw-3": style.Look("#D55E00", "s")}


def draws() -> dict[str, Heldout]:
    """Return the kept draws by name.

    Raises:
        BenchError: `bench.cannot_read`.
    """
    files = sorted((RESULTS / "validation").glob("draw-*.json"))
    return {file.stem: Heldout.from_json(file.read_text(), str(file)) for file in files}


def medians(found: Heldout, column: str) -> dict[str, tuple[float, float]]:
    """Return case -> medians of the kernel and of the simulator, for cases with runs that count."""
    sides = [
        rules.judged(found.rows[found.rows["datapath"] == datapath])[0].groupby("case")[column].median()
        for datapath in (KERNEL, SIMULATOR)
    ]
    return {
        str(case): (float(sides[0][case]), float(sides[1][case]))
        for case in sides[0].index
        if case in sides[1].index
    }


def scatter() -> Figure:
    """Draw the simulator against the kernel: goodput and median RTT, with a band of 5 %."""
    found = {name: one for name, one in draws().items() if name in _SHOWN}
    panels = (
        ("goodput_bytes_per_s", "goodput [Mbit/s]", 8e-6, (0.1, 1000)),
        ("rtt_p50_us", "median RTT [ms]", 1e-3, (5, 1000)),
    )
    counts = []
    with style.styled():
        plot = style.new_plot(4.4)
        grid = plot.subplots(2, 2, height_ratios=(1.5, 1))
        for across, (column, label, scale, limits) in enumerate(panels):
            top, bottom = grid[0][across], grid[1][across]
            ends = np.array(limits)
            top.fill_between(ends, ends * (1 - _BAND), ends * (1 + _BAND), color="#CFE3F0", lw=0, zorder=0)
            bottom.axhspan(-100 * _BAND, 100 * _BAND, color="#CFE3F0", lw=0, zorder=0)
            inside = total = 0
            for name, one in found.items():
                known = medians(one, column)
                kernel, simulated = np.array(list(known.values())).T
                away = 100 * (simulated / kernel - 1)
                shown = np.clip(away, -_CLIPPED, _CLIPPED)
                look = _LOOKS[name]
                options: dict[str, Any] = {
                    "color": look.colour,
                    "marker": look.marker,
                    "ms": 4.5,
                    "mew": 0,
                    "ls": "none",
                }
                top.plot(scale * kernel, scale * simulated, **options)
                bottom.plot(scale * kernel, shown, **options)
                for case, x, y, by in zip(known, scale * kernel, shown, away, strict=True):
                    if abs(by) > 100 * _BAND:
                        text = case if by == y else f"{case}: {by:+.0f} %"
                        bottom.annotate(text, (x, y), (4, -3), textcoords="offset points", fontsize=6.5)
                inside, total = inside + int((abs(away) <= 100 * _BAND).sum()), total + len(away)
            counts.append((inside, total))
            ticks = [one for one in (0.1, 1, 10, 100, 1000) if limits[0] <= one <= limits[1]]
            for axes in (top, bottom):
                axes.set_xscale("log")
                axes.set_xticks(ticks, [f"{one:g}" for one in ticks])
                axes.set_xlim(*limits)
                axes.minorticks_off()
                axes.grid(axis="x", color=style.RULE)
            top.set_yscale("log")
            top.set_yticks(ticks, [f"{one:g}" for one in ticks])
            top.set_ylim(*limits)
            top.minorticks_off()
            top.plot(ends, ends, color=style.FAINT, lw=0.8, zorder=1)
            top.set_title(label)
            bottom.axhline(0, color=style.FAINT, lw=0.8, zorder=1)
            bottom.set_ylim(-32, 32)
            bottom.set_xlabel("Linux kernel")
        grid[0][0].set_ylabel("simulator")
        grid[1][0].set_ylabel("deviation [%]")
        legend(plot, [handle(name.replace("-", " "), _LOOKS[name], line=False) for name in found])
        footnote(
            plot,
            "Each mark is a drawn scenario: medians of its runs that count (kernel: 1 or 2). Band: 5 %. "
            "Top: log scales; bottom: larger deviations are clipped and labelled",
        )
    (goodput, n), (rtt, m) = counts
    return Figure(
        plot,
        "Scatter plots of the simulator against the kernel: most scenarios lie within 5 % in goodput and "
        "median RTT",
        f"Within 5 % of the kernel: goodput in {goodput} of {n} scenarios, median RTT in {rtt} of {m}.",
    )


def table() -> str:
    """Return how many cases are within each goal, and how many second runs of the kernel are."""
    found = {name: one for name, one in draws().items() if name in _SHOWN}
    head = ["quantity", "goal"]
    for name in found:
        head += [f"simulator, {name.replace('-', ' ')}", "kernel again"]
    lines = [head, ["---", "---:", *["---:"] * (len(head) - 2)]]
    for place, what in enumerate(QUANTITIES):
        line = [what.description, what.written(what.goal)]
        for one in found.values():
            for errors in (one.errors(), one.kernels_own()):
                spread = one.spreads("all", errors)[place]
                line.append(f"{spread.within} of {spread.n}")
        lines.append(line)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def worst() -> str:
    """Return the largest errors of goodput as text."""
    what: Quantity = QUANTITIES[0]
    lines = []
    for name in _SHOWN:
        one = draws()[name]
        errors = {case: each[what.column] for case, each in one.errors().items()}
        case = max(errors, key=lambda each: errors[each])
        kind = next(each.kind for each in one.cases if each.name == case)
        kernel, simulated = medians(one, what.column)[case]
        lines.append(f"{100 * (simulated / kernel - 1):+.0f} % (`{case}`, {kind})")
    return f"Largest deviations of goodput: {' and '.join(lines)}."


FIGURES: Final = {"validation": scatter}
