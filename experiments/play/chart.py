"""Curves over time as text: braille dots, with axes, reference lines and marks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from ccplane.agent.monitor.spark import axis_top

LABEL_WIDTH: Final = 8
"""Columns left of a chart, for the labels of its axis."""

MARK: Final = "┊"
"""A vertical line at a mark."""

_BRAILLE: Final = 0x2800
_DOTS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a braille character by row and column of the dot, from the top left."""
_REFERENCE: Final = "bright_black"
_EPSILON: Final = 1e-9
_STEPS_S: Final = (1, 2, 5, 10, 20, 50, 100)


@dataclass(frozen=True, slots=True)
class Span:
    """The times that a chart shows.

    Attributes:
        start_s: Time at the left edge [s].
        end_s: Time at the right edge [s].
        columns: Width in characters, without the labels.
    """

    start_s: float
    end_s: float
    columns: int

    def dot(self, t_s: float) -> int:
        """Return the column of dots of a time; two columns of dots are one of characters."""
        ratio = (t_s - self.start_s) / (self.end_s - self.start_s)
        return round(ratio * (2 * self.columns - 1))


@dataclass(frozen=True, slots=True)
class Curve:
    """Values of a flow.

    Attributes:
        points: Time [s] and value, in order of time; None where there is no value.
        style: Colour.
    """

    points: Sequence[tuple[float, float | None]]
    style: str


def chart(
    curves: Sequence[Curve],
    span: Span,
    lines: int,
    reference: Curve | None = None,
    marks: Sequence[float] = (),
) -> list[Text]:
    """Draw curves from 0 to a round number above their maximum.

    Args:
        curves: The curves; later ones are drawn over earlier ones.
        span: The times.
        lines: Height in characters.
        reference: A dotted line, such as the rate of the path.
        marks: Times of vertical lines [s].

    Returns:
        `lines` lines of `LABEL_WIDTH + span.columns` characters, top line first.
    """
    drawn = [*([] if reference is None else [reference]), *curves]
    values = [
        value for curve in drawn for t_s, value in curve.points if value is not None and t_s >= span.start_s
    ]
    top = axis_top(max(values, default=0.0))
    canvas = _Canvas(span, lines, top)
    if reference is not None:
        canvas.draw(reference, every=4)
    for curve in curves:
        canvas.draw(curve)
    marked = {span.dot(t_s) // 2 for t_s in marks if span.start_s <= t_s <= span.end_s}
    labels = {0: top, lines - 1: 0.0}
    if lines > 4 and lines % 2:
        labels[lines // 2] = top / 2
    shown = []
    for number, line in enumerate(canvas.lines(marked)):
        label = f"{labels[number]:.4g}" if number in labels else ""
        shown.append(Text(f"{label:>{LABEL_WIDTH - 1}}" + ("┤" if label else "│"), "default").append(line))
    return shown


def axis(span: Span, symbols: Sequence[tuple[float, str, str]]) -> list[Text]:
    """Draw the axis of time.

    Args:
        span: The times.
        symbols: Time [s], character and style of marks.

    Returns:
        Two lines: ticks and marks, and the times.
    """
    step_s = next(step for step in _STEPS_S if span.end_s - span.start_s <= 10 * step)
    line = ["─"] * span.columns
    times = [" "] * span.columns
    tick_s = math.ceil(span.start_s / step_s - _EPSILON) * step_s
    while tick_s <= span.end_s + _EPSILON:
        column = span.dot(tick_s) // 2
        label = f"{tick_s:.4g}"
        line[column] = "┬"
        begin = min(column, span.columns - len(label))
        times[begin : begin + len(label)] = label
        tick_s += step_s
    ticks = Text(" " * (LABEL_WIDTH - 1) + "└" + "".join(line))
    for t_s, symbol, style in symbols:
        if span.start_s <= t_s <= span.end_s:
            column = LABEL_WIDTH + span.dot(t_s) // 2
            ticks = Text.assemble(ticks[:column], (symbol, style), ticks[column + 1 :])
    return [ticks, Text(f"{'time [s]':{LABEL_WIDTH}}" + "".join(times))]


class _Canvas:
    def __init__(self, span: Span, lines: int, top: float) -> None:
        self._span, self._lines, self._top = span, lines, top
        self._bits = [[0] * span.columns for _ in range(lines)]
        self._styles = [[""] * span.columns for _ in range(lines)]

    def draw(self, curve: Curve, every: int = 1) -> None:
        """Draw a curve, with every n-th column of dots only."""
        before: tuple[int, int] | None = None
        for x, low, high, first, last in self._columns(curve):
            if low is None:
                before = None
                continue
            if before is not None:
                x0, y0 = before
                for column in range(x0 + 1, x):
                    start, end = (
                        round(y0 + (first - y0) * (c - x0) / (x - x0)) for c in (column - 1, column)
                    )
                    self._line(column, min(start, end), max(start, end), curve.style, every)
                low, high = min(low, y0), max(high, y0)
            self._line(x, low, high, curve.style, every)
            before = x, last

    def _columns(self, curve: Curve) -> Iterator[tuple[int, int | None, int, int, int]]:
        """Yield columns of dots with the lowest, highest, first and last row of values; None at a gap."""
        rows = 4 * self._lines - 1
        x, low, high, first, last = -1, 0, 0, 0, 0
        for t_s, value in curve.points:
            if value is None:
                if x >= 0:
                    yield x, low, high, first, last
                x = -1
                yield 0, None, 0, 0, 0
                continue
            column = self._span.dot(t_s)
            if column < 0:
                continue
            y = min(max(round(rows * (1 - value / self._top)), 0), rows)
            if column != x:
                if x >= 0:
                    yield x, low, high, first, last
                x, low, high, first = column, y, y, y
            low, high, last = min(low, y), max(high, y), y
        if x >= 0:
            yield x, low, high, first, last

    def _line(self, x: int, low: int, high: int, style: str, every: int) -> None:
        if x % every or x >= 2 * self._span.columns:
            return
        for y in range(low, high + 1 if every == 1 else low + 1):
            self._bits[y // 4][x // 2] |= _DOTS[y % 4][x % 2]
            self._styles[y // 4][x // 2] = style

    def lines(self, marked: set[int]) -> list[Text]:
        """Return the lines, with vertical lines at `marked` columns."""
        shown = []
        for bits, styles in zip(self._bits, self._styles, strict=True):
            cells = [
                (chr(_BRAILLE + value), style) if value else (MARK if column in marked else " ", _REFERENCE)
                for column, (value, style) in enumerate(zip(bits, styles, strict=True))
            ]
            runs = itertools.groupby(cells, key=lambda cell: cell[1])
            shown.append(Text.assemble(*(("".join(cell[0] for cell in run), style) for style, run in runs)))
        return shown
