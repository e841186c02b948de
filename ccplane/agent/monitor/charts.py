"""Charts of one metric over time, with axes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from statistics import median
from typing import Final

from rich.text import Text
from textual.color import Color
from textual.widget import Widget

from ccplane.agent.monitor.spark import FULL, axis_top, maximum, spark
from ccplane.agent.monitor.units import NONE

GUTTER: Final = 11
"""Width of the labels left of a chart, with the axis [characters]."""

MARK: Final = "┊"
"""A vertical line at a change."""

_MARK_STYLE: Final = "#f5f5f5"
_AXIS_STYLE: Final = "#8a8a8a"
_BACKGROUND: Final = Color.parse("#121212")
_FILL_RATIO: Final = 0.5  # of the colour of the edge that remains below it
_MIN_LINES: Final = 4  # below this height, the line of the axis would take too much
_STEPS_S: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)
_LABEL_COLUMNS: Final = 12  # minimum distance of labels of the time axis
_NOW: Final = "now"
_ZEROS: Final = re.compile(r"\.0+(?= )|(?<=\.[1-9])0+(?= )")  # `80.0 Mbit/s`, `2.50 MB`


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happened to a flow, as shown in its charts.

    Attributes:
        t_wall_s: Time, seconds since 1970.
        symbol: Character on the axis.
        style: Style of that character.
    """

    t_wall_s: float
    symbol: str
    style: str


class Chart(Widget):
    """The last values of a metric from zero up, one per column, the newest on the right."""

    def __init__(self, title: str, text: Callable[[float | None], str], colour: str) -> None:
        super().__init__()
        self._quantity = title
        self._text = text
        self._edge = colour
        self._fill = Color.parse(colour).blend(_BACKGROUND, 1 - _FILL_RATIO).hex
        self._values: Sequence[float] = ()
        self._symbols: dict[int, Change] = {}

    def show(self, values: Sequence[float], times_s: Sequence[float], changes: Sequence[Change]) -> None:
        """Show values, oldest first (NaN: no value), their times, and changes, oldest first."""
        self._values = values
        self._symbols = {
            len(times_s) - at: change
            for change in changes
            if (at := _place(times_s, change.t_wall_s)) is not None
        }
        self._retitle()
        self.refresh()

    def on_resize(self) -> None:
        """Update the title, because the number of columns has changed."""
        self._retitle()

    @property
    def _columns(self) -> int:
        return max(self.size.width - GUTTER, 0)

    def _retitle(self) -> None:
        shown = [value for value in self._values[-self._columns or None :] if not math.isnan(value)]
        title = f"{self._quantity}  {self._text(self._values[-1]) if self._values else NONE}"
        if shown:
            extent = f"  ({self._text(min(shown))} to {self._text(max(shown))})"
            title += extent if len(title + extent) + 4 <= self.size.width else ""
        self.border_title = title

    def render(self) -> Text:
        """Return the lines."""
        height, width = max(self.size.height, 1), self._columns
        with_axis = height >= _MIN_LINES
        n_lines = height - with_axis
        top = axis_top(maximum(self._values[-width:] if width else ()))
        lines = spark(self._values, width, n_lines, top)
        drawn = Text(no_wrap=True)
        for number, line in enumerate(lines):
            label = _ZEROS.sub("", self._text(top)) if number == 0 else ""
            if not with_axis and number == n_lines - 1 and n_lines > 1:
                label = "0"
            drawn.append(f"{label:>{GUTTER - 1}}{'┤' if label else '│'}", _AXIS_STYLE)
            drawn.append_tokens(_runs(self._cells(line, "" if number == 0 else lines[number - 1])))
            drawn.append("\n" if number < n_lines - 1 or with_axis else "")
        if with_axis:
            drawn.append(f"{'0':>{GUTTER - 1}}└", _AXIS_STYLE)
            drawn.append_tokens(_runs(map(self._on_axis, range(width, 0, -1))))
        return drawn

    def _on_axis(self, back: int) -> tuple[str, str]:
        change = self._symbols.get(back)
        return ("─", _AXIS_STYLE) if change is None else (change.symbol, change.style)

    def _cells(self, line: str, above: str) -> Iterator[tuple[str, str]]:
        """Give the cells of a line with their styles: bright where nothing is above them."""
        for column, block in enumerate(line):
            at_edge = not above or above[column] == " "
            colour = self._edge if at_edge else self._fill
            if len(line) - column not in self._symbols or block not in (" ", FULL):
                yield block, colour
            else:
                yield MARK, _MARK_STYLE + ("" if block == " " else f" on {colour}")


def _runs(cells: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Join neighbours of one style: each piece of a `Text` costs time."""
    for style, run in groupby(cells, key=itemgetter(1)):
        yield "".join(cell for cell, _ in run), style


class TimeAxis(Widget):
    """The axis of time below charts."""

    def __init__(self) -> None:
        super().__init__()
        self._times_s: Sequence[float] = ()

    def show(self, times_s: Sequence[float]) -> None:
        """Show the times of the charts' columns, seconds since 1970, oldest first."""
        self._times_s = times_s
        self.refresh()

    def render(self) -> Text:
        """Return the line."""
        return Text(" " * GUTTER + time_axis(self._times_s, max(self.size.width - GUTTER, 0)), _AXIS_STYLE)


def time_axis(times_s: Sequence[float], width: int) -> str:
    """Return ages of columns, such as `-20 s      -10 s     now`, aligned with the columns' right end."""
    line = [" "] * width
    if not times_s or width < len(_NOW):
        return "".join(line)
    line[-len(_NOW) :] = _NOW
    ages_s = [times_s[-1] - time_s for time_s in reversed(times_s[-width:])]
    column_s = median(after - before for before, after in pairwise(ages_s)) if len(ages_s) > 1 else 1.0
    step_s = next((step for step in _STEPS_S if step >= column_s * _LABEL_COLUMNS), _STEPS_S[-1])
    free = width - len(_NOW)
    for back, age_s in enumerate(ages_s):
        label_s = step_s * round(age_s / step_s)
        label = f"-{label_s} s"
        end = width - back
        begin = end - len(label)
        # After a pause, columns next to each other are further apart: no column has the ages between.
        if label_s and abs(age_s - label_s) <= column_s / 2 and 0 <= begin < end < free:
            line[begin:end] = label
            free = begin
    return "".join(line)


def _place(times_s: Sequence[float], time_s: float) -> int | None:
    """Return the index of the first sample at or after a time; None if it is before all or after the last."""
    if not times_s or time_s < times_s[0]:
        return None
    return next((at for at, one in enumerate(times_s) if one >= time_s), None)
