"""Small charts of block characters.

Textual's own sparkline stretches from the least to the greatest value, whatever these are: a window that
stands still but for one byte looks like a storm. It also has no word for a missing value. These have both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

BLOCKS: Final = " ▁▂▃▄▅▆▇█"
"""A column from empty to full, in eighths of a line."""

LEAST_SPAN_RATIO: Final = 0.2
"""A chart covers at least this part of its greatest value, so that small changes look small."""

_STEPS: Final = len(BLOCKS) - 1
_EPSILON: Final = 1e-9  # the greatest value is not to miss the last block by a rounding error


@dataclass(frozen=True, slots=True)
class Scale:
    """What a chart covers.

    Attributes:
        least: Least value there is.
        greatest: Greatest value there is.
        bottom: Value of the lowest block.
        top: Value of a full column.
    """

    least: float
    greatest: float
    bottom: float
    top: float


def scale(values: Sequence[float]) -> Scale | None:
    """Return the scale for values >= 0 (NaN = none), None if there is none."""
    there = [value for value in values if not math.isnan(value)]
    if not there:
        return None
    least, greatest = min(there), max(there)
    span = max(greatest - least, LEAST_SPAN_RATIO * greatest)
    bottom = max((least + greatest - span) / 2, 0.0)
    return Scale(least, greatest, bottom, bottom + span)


def spark(values: Sequence[float], width: int, height: int = 1) -> list[str]:
    """Draw the last values as columns, the newest at the right.

    Args:
        values: Values >= 0, NaN = none; one a column.
        width: Columns; fewer values leave the left empty.
        height: Lines.

    Returns:
        `height` lines of `width` characters, the upper line first. Every value shows at least the lowest
        block, so that it differs from none.
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
    # Rounded down: the middle of the scale, where values that stand still are, is no border of blocks then.
    return 1 if span == 0 else 1 + int((value - covered.bottom) / span * (steps - 1) + _EPSILON)
