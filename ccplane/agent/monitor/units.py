"""Formatting of numbers on the screen; a dash for a missing number."""

from __future__ import annotations

import math

from ccplane.base.printable import printable

NONE = "–"


def kilobytes(value_bytes: float | None) -> str:
    """Return bytes as kB with one decimal."""
    return _number(value_bytes, 1e-3, 1)


def mbits(value_bytes_per_s: float | None) -> str:
    """Return bytes/s as Mbit/s with up to two decimals."""
    return _number(value_bytes_per_s, 8e-6, 2)


def milliseconds(value_us: float | None) -> str:
    """Return microseconds as ms with up to two decimals."""
    return _number(value_us, 1e-3, 2)


def percent(ratio: float | None) -> str:
    """Return a ratio as a percentage with two decimals."""
    return _number(ratio, 100, 2)


def age(seconds: float) -> str:
    """Return an age with a suitable unit: `340 ms`, `12 s`, `5 min`, `3 h`."""
    if seconds < 1:
        return f"{1e3 * seconds:.0f} ms"
    for limit, unit, divisor in ((120, "s", 1), (7200, "min", 60)):
        if seconds < limit:
            return f"{seconds / divisor:.0f} {unit}"
    return f"{seconds / 3600:.0f} h"


def plain(value: object) -> str:
    """Return any value on one line, floats with six significant digits."""
    if value is None:
        return NONE
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return printable(" ".join(str(value).split()))


def _number(value: float | None, factor: float, decimals: int) -> str:
    if value is None or math.isnan(value):
        return NONE
    scaled = value * factor
    if scaled >= 10_000:
        decimals = 0
    elif scaled >= 1_000:
        decimals = min(decimals, 1)
    return f"{scaled:.{decimals}f}"
