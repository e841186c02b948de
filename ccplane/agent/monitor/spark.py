"""Small charts of block characters.

Unlike Textual's sparkline, these charts have a minimum span, so that a nearly constant value looks flat, and
they support missing values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

BLOCKS: Final = " ▁▂▃▄▅▆▇█"
"""A column from empty to full, in steps of one eighth of a line."""

MIN_SPAN_RATIO: Final = 0.2
"""Minimum span of a chart relative to its maximum, so that small changes look small."""

_STEPS: Final = len(BLOCKS) - 1
_EPSILON: Final = 1e-9  # against rounding errors at the maximum


@dataclass(frozen=True, slots=True)
class Scale:
    """Range of a chart.

    Attributes:
        minimum: Minimum of the values.
        maximum: Maximum of the values.
        bottom: Value of the lowest block.
        top: Value of a full column.
    """

    minimum: float
    maximum: float
    bottom: float
    top: float


def scale(values: Sequence[float]) -> Scale | None:
    """Return the scale for values >= 0 (NaN = missing), None if all are missing."""
    there = [value for value in values if not math.isnan(value)]
    if not there:
        return None
    minimum, maximum = min(there), max(there)
    span = max(maximum - minimum, MIN_SPAN_RATIO * maximum)
    bottom = max((minimum + maximum - span) / 2, 0.0)
    return Scale(minimum, maximum, bottom, bottom + span)


def spark(values: Sequence[float], width: int, height: int = 1) -> list[str]:
    """Draw the last values as columns, the newest on the right.

    Args:
        values: Values >= 0, NaN = missing; one per column.
        width: Columns; with fewer values, the left is empty.
        height: Lines.

    Returns:
        `height` lines of `width` characters, top line first. Every value shows at least the lowest block, to
        distinguish it from a missing one.
    """
    shown = values[-width:] if width > 0 else []
    covered = scale(shown)
    levels = [0] * (max(width, 0) - len(shown))
    levels += [0 if covered is None else _level(value, covered, height * _STEPS) for value in shown]
    return [
        "".join(BLOCKS[min(max(level - line * _STEPS, 0), _STEPS)] for level in levels)
        for line in reversed(range(height))
    ]


def _level(value: float, covered: Scale, steps: int) -> int:
    if math.isnan(value):
        return 0
    span = covered.top - covered.bottom
    # Rounded down, so that constant values, in the middle of the scale, do not flicker between two blocks.
    return 1 if span == 0 else 1 + int((value - covered.bottom) / span * (steps - 1) + _EPSILON)
