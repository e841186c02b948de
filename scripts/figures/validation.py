"""Figure and tables of docs/validation.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from experiments.plots import style
from experiments.validation.drawing import WIDER_FROM
from experiments.validation.heldout import QUANTITIES, Heldout, Spread
from experiments.validation.report import read
from scripts.figures.drawing import Figure, footnote, handle, legend

NAME: Final = "validation"
_BAND: Final = 0.05
_CLIPPED: Final = 29.0
"""Largest deviation that is drawn [%]."""
_PARTS: Final = {
    "draws 1 to 3": (range(1, 4), style.Look("#999999", "o")),
    "draws 4 and 5": (range(4, 6), style.Look("#0072B2", "s")),
    "draws 6 and 7": (range(6, 8), style.Look("#D55E00", "D")),
}
"""Draws that were made under the same conditions -> their seeds and their marks."""
_SORTS: Final = ("path", "rate", "algorithm")
"""Groups of cases in the table by group."""
_TWO: Final = ("goodput_bytes_per_s", "rtt_p95_us")
"""Quantities of that table."""
_MIN_CASES: Final = 4
"""Groups of fewer scenarios are left out of it."""
_WORST: Final = 3


def all_draws() -> Heldout:
    """Return all kept draws as one."""
    return Heldout.merged(read().values())


def wider() -> Heldout:
    """Return the draws that have the papers' algorithms, as one."""
    return Heldout.merged(
        one for name, one in read().items() if int(name.removeprefix("draw-")) >= WIDER_FROM
    )


def _parts() -> dict[str, Heldout]:
    """Return the draws of the figure by their label."""
    found = {int(name.removeprefix("draw-")): one for name, one in read().items()}
    return {
        name: Heldout.merged(found[seed] for seed in seeds if seed in found)
        for name, (seeds, _) in _PARTS.items()
    }


def compared(found: Heldout, column: str) -> dict[str, tuple[float, float]]:
    """Return case -> a run of the kernel and a simulated run."""
    return {case: (kernel[column], simulated[column]) for case, kernel, simulated in found.pairs()}


def scatter() -> Figure:
    """Draw the simulator against the kernel: goodput and median RTT, with a band of 5 %."""
    found = _parts()
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
                known = compared(one, column)
                kernel, simulated = np.array(list(known.values())).T
                away = 100 * (simulated / kernel - 1)
                shown = np.clip(away, -_CLIPPED, _CLIPPED)
                _, look = _PARTS[name]
                options: dict[str, Any] = {
                    "color": look.colour,
                    "marker": look.marker,
                    "ms": 4.5,
                    "mew": 0,
                    "ls": "none",
                }
                top.plot(scale * kernel, scale * simulated, **options)
                bottom.plot(scale * kernel, shown, **options)
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
        legend(plot, [handle(name, _PARTS[name][1], line=False) for name in found])
        footnote(
            plot,
            "Each mark is a drawn scenario: one simulated run and one run of the kernel. Band: 5 %. "
            "Top: log scales; bottom: larger deviations are clipped",
        )
    (goodput, n), (rtt, m) = counts
    return Figure(
        plot,
        "Scatter plots of the simulator against the kernel: most scenarios lie within 5 % in goodput and "
        "median RTT",
        f"Within 5 % of the kernel: goodput in {goodput} of {n} scenarios, median RTT in {rtt} of {m}.",
    )


def headline() -> str:
    """Return how often goodput is within the goal, the simulator's and that of another run of the kernel."""
    one, what = all_draws(), QUANTITIES[0]
    simulator, kernel = (one.spreads("all", errors)[0] for errors in (one.errors(), one.kernels_own()))
    return (
        f"On randomly drawn scenarios, the [simulator](simulator.md)'s goodput is within "
        f"{100 * what.goal:.0f} % of the kernel's in {simulator.within} of {simulator.n} "
        f"({_percent(simulator)}). Another run of the kernel is in {kernel.within} of {kernel.n} "
        f"({_percent(kernel)})."
    )


def _percent(spread: Spread) -> str:
    return f"{100 * spread.within / spread.n:.0f} %"


def table() -> str:
    """Return how many cases are within each goal, and how many second runs of the kernel are."""
    parts = {"all draws": all_draws(), **_parts()}
    del parts["draws 1 to 3"]
    head = ["quantity", "goal"]
    for name in parts:
        head += [name, "kernel"]
    lines = [head, ["---", "---:", *["---:"] * (len(head) - 2)]]
    for place, what in enumerate(QUANTITIES):
        line = [what.description, what.written(what.goal)]
        for one in parts.values():
            for errors in (one.errors(), one.kernels_own()):
                spread = one.spreads("all", errors)[place]
                line.append(f"{spread.within} of {spread.n}")
        lines.append(line)
    return _markdown(lines)


def by_group() -> str:
    """Return the errors by kind of path, rate and algorithm, next to the kernel's own, of the wider draws."""
    one = wider()
    errors, own = one.errors(), one.kernels_own()
    counts = one.groups()
    places = [place for place, what in enumerate(QUANTITIES) if what.column in _TWO]
    head = ["scenarios", "n"]
    for place in places:
        head += [f"{QUANTITIES[place].description} [%]", "kernel [%]"]
    lines = [head, ["---", *["---:"] * (len(head) - 1)]]
    sorts = {name: sort for case in one.cases for sort, name in case.groups}
    for group, count in counts.items():
        if sorts[group] in _SORTS and count >= _MIN_CASES:
            sides = [one.spreads(group, each) for each in (errors, own)]
            cells = [_spread(side[place]) for place in places for side in sides]
            lines.append([f"`{group}`" if sorts[group] == "algorithm" else group, str(count), *cells])
    return _markdown(lines)


def _spread(spread: Spread) -> str:
    return f"{100 * spread.median:.1f} / {100 * spread.p90:.0f}" if spread.n else ""


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def worst() -> str:
    """Return the largest errors of goodput of the wider draws as text, next to the kernel's own."""
    one, what = wider(), QUANTITIES[0]
    errors, own = one.errors(), one.kernels_own()
    runs, cases = compared(one, what.column), {each.name: each for each in one.cases}
    found = []
    for case in sorted(errors, key=lambda each: -errors[each][what.column])[:_WORST]:
        kernel, simulated = runs[case]
        about = [*(f"`{name}`" for name in dict.fromkeys(cases[case].algorithms)), cases[case].kind]
        if case in own:
            about.append(f"kernel again {100 * own[case][what.column]:.0f} %")
        found.append(f"`{case}` {100 * (simulated / kernel - 1):+.0f} % ({', '.join(about)})")
    return f"Largest deviations of goodput: {'; '.join(found)}."


FIGURES: Final = {"validation": scatter}
