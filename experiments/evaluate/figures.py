"""Figures of evaluations: the effects of one controller, and several controllers next to each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from experiments.evaluate.cases import Case
from experiments.evaluate.controllers import Controller
from experiments.evaluate.effects import Effect
from experiments.evaluate.evaluation import SIDES, Evaluation
from experiments.evaluate.measures import Measure
from experiments.plots import Plot, style
from experiments.statistics import Estimate

BETTER: Final = "#009E73"
WORSE: Final = "#D55E00"
COLOURS: Final = {"better": BETTER, "worse": WORSE, "undecided": style.FAINT, None: style.FAINT}
EDGE: Final = 32.0
"""Ratios beyond it are drawn at the edge."""
_TICKS: Final = (1 / 32, 1 / 8, 1 / 2, 1.0, 2.0, 8.0, 32.0)
_ROW_IN: Final = 0.172
_LEGEND_COLUMNS: Final = 3


@dataclass(frozen=True)
class Drawn:
    """A measure that stands for its case in a figure.

    Attributes:
        case: The case.
        what: The measure.
    """

    case: Case
    what: Measure

    @property
    def label(self) -> str:
        """Its label."""
        return f"{self.case.title}: {self.what.label}"


def oriented(what: Measure, found: Estimate) -> Estimate:
    """Return a ratio turned such that more is better."""
    if what.better == "more":
        return found
    return Estimate(1 / found.value, 1 / found.high, 1 / found.low, found.n)


def all_measures(cases: Sequence[Case]) -> list[Drawn]:
    """Return all measures that are compared."""
    return [Drawn(case, what) for case in cases for what in case.measures if what.better]


def effects(evaluation: Evaluation, subject: Controller, reference: Controller) -> Plot:
    """Draw all effects of a controller on the sides that were run, better to the right."""
    rows = all_measures(evaluation.cases)
    with style.styled():
        plot = style.new_plot(1.1 + _ROW_IN * len(rows), 8.6)
        axes = plot.add_subplot()
        for place, row in enumerate(rows):
            for number, side in enumerate(evaluation.sides):
                effect = evaluation.effect(row.case, row.what, side, subject.algorithm, reference.algorithm)
                _effect(
                    axes, place + 0.22 * (number - (len(evaluation.sides) - 1) / 2), row.what, effect, side
                )
        _axis(axes, [row.label for row in rows], reference)
        _sections(axes, rows)
        sides = " and ".join(f"{SIDES[side]} ({_MARKERS[side][1]})" for side in evaluation.sides)
        style.head(
            plot,
            f"{subject.label} compared with {reference.label}",
            f"Medians over {evaluation.repeats} seeds: {sides}. Thick: 95 % interval; thin: with the "
            "simulator's error, which decides. Green: better, red: worse, grey: undecided; effects beyond "
            f"{EDGE:g} are at the edge.",
        )
    return plot


_MARKERS: Final = {"ebpf": ("s", "squares"), "sim": ("o", "points")}


def _effect(axes: Axes, at: float, what: Measure, effect: Effect, side: str) -> None:
    if effect.ratio is None:
        return
    colour = COLOURS[effect.verdict]
    marker = _MARKERS[side][0]
    value = _clipped(oriented(what, effect.found).value)
    _intervals(axes, at, what, effect, colour)
    decided = effect.verdict != "undecided"
    axes.plot(
        [value], [at], marker, color=colour, markersize=4, markerfacecolor=colour if decided else "white"
    )


def _intervals(axes: Axes, at: float, what: Measure, effect: Effect, colour: str) -> None:
    """Draw the interval thick, and thin the one that includes the simulator's error."""
    for found, width in ((effect.judged, 0.8), (effect.found, 2.6)):
        if not math.isnan(found.low):
            ends = oriented(what, found)
            axes.plot(
                [_clipped(ends.low), _clipped(ends.high)], [at, at], color=colour, linewidth=width, alpha=0.75
            )


def _clipped(ratio: float) -> float:
    return min(max(ratio, 1 / EDGE), EDGE)


def _axis(axes: Axes, labels: Sequence[str], reference: Controller) -> None:
    axes.set_xscale("log")
    axes.set_xlim(1 / EDGE / 1.15, EDGE * 1.15)
    axes.set_xticks(_TICKS)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}" if x >= 1 else f"1/{1 / x:g}"))
    axes.axvline(1, color=style.INK, linewidth=0.8)
    axes.set_xlabel(f"times better than {reference.label}")
    axes.set_yticks(range(len(labels)), labels, fontsize=7)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")


def _sections(axes: Axes, rows: Sequence[Drawn]) -> None:
    """Separate the criteria, and write their sections at the right edge."""
    first = 0
    for place in range(1, len(rows) + 1):
        if place < len(rows) and rows[place].case.criterion is rows[first].case.criterion:
            continue
        axes.axhline(place - 0.5, color=style.RULE, linewidth=0.7)
        axes.text(
            1.01,
            (first + place - 1) / 2,
            rows[first].case.criterion.section,
            transform=axes.get_yaxis_transform(),
            va="center",
            fontsize=7,
            color=style.FAINT,
        )
        first = place


def next_to_each_other(evaluation: Evaluation, reference: Controller, side: str) -> Plot:
    """Draw all effects of several controllers on one side, better to the right."""
    rows = all_measures(evaluation.cases)
    looks = style.looks(one.given for one in evaluation.subjects)
    with style.styled():
        plot = style.new_plot(1.3 + 1.15 * _ROW_IN * len(rows), 8.6)
        axes = plot.add_subplot()
        handles = {}
        for place, row in enumerate(rows):
            for number, one in enumerate(evaluation.subjects):
                at = place + 0.6 * (number - (len(evaluation.subjects) - 1) / 2) / len(evaluation.subjects)
                effect = evaluation.effect(row.case, row.what, side, one.algorithm, reference.algorithm)
                if effect.ratio is None:
                    continue
                look = looks[one.given]
                _intervals(axes, at, row.what, effect, look.colour)
                (handles[one.label],) = axes.plot(
                    [_clipped(oriented(row.what, effect.found).value)],
                    [at],
                    look.marker,
                    color=look.colour,
                    markersize=4,
                    label=one.label,
                )
        _axis(axes, [row.label for row in rows], reference)
        _sections(axes, rows)
        note = (
            f"Medians over {evaluation.repeats} seeds, {SIDES[side]}. Thick: 95 % interval; thin: with the "
            f"simulator's error, which decides; effects beyond {EDGE:g} are at the edge."
        )
        style.head(plot, "Effects next to each other", note)
        axes.legend(
            handles=list(handles.values()),
            loc="lower right",
            bbox_to_anchor=(1, 1.003),
            ncols=_LEGEND_COLUMNS,
            columnspacing=1.4,
        )
    return plot
