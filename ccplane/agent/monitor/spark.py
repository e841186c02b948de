"""Small charts of block characters, from zero up.

Unlike Textual's sparkline, these charts begin at zero, so that heights can be compared, and they support
missing values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

BLOCKS: Final = " ▁▂▃▄▅▆▇█"
"""A column from empty to full, in steps of one eighth of a line."""

FULL: Final = BLOCKS[-1]

_STEPS: Final = len(BLOCKS) - 1
_EPSILON: Final = 1e-9  # against rounding errors at the maximum
_TOPS: Final = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


def maximum(values: Sequence[float]) -> float:
    """Return the maximum of values >= 0 (NaN = missing); 0 if all are missing."""
    return max((value for value in values if not math.isnan(value)), default=0.0)


def axis_top(value: float) -> float:
    """Return a number with at most two digits, at or above a value >= 0, for the top of an axis."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * digits for digits in _TOPS if value <= power * digits * (1 + _EPSILON))


def spark(values: Sequence[float], width: int, height: int = 1, top: float | None = None) -> list[str]:
    """Draw the last values as columns, the newest on the right.

    Args:
        values: Values >= 0, NaN = missing; one per column.
        width: Columns; with fewer values, the left is empty.
        height: Lines.
        top: Value of a full column; default: the maximum of the values shown.

    Returns:
        `height` lines of `width` characters, top line first. Every value shows at least the lowest block, to
        distinguish it from a missing one.
    """
    shown = values[-width:] if width > 0 else []
    covered = maximum(shown) if top is None else top
    levels = [0] * (max(width, 0) - len(shown))
    levels += [_level(value, covered, height * _STEPS) for value in shown]
    return [
        "".join(BLOCKS[min(max(level - line * _STEPS, 0), _STEPS)] for level in levels)
        for line in reversed(range(height))
    ]


def _level(value: float, top: float, steps: int) -> int:
    if math.isnan(value):
        return 0
    return 1 if top <= 0 else 1 + min(int(value / top * (steps - 1) + _EPSILON), steps - 1)
