"""Formatting of numbers on the screen: three digits, with units; a dash for a missing number."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from ccplane.base.printable import printable

NONE: Final = "–"

_Units = Sequence[tuple[float, str]]
_BYTES: Final[_Units] = ((1, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"))
_BITS_PER_S: Final[_Units] = ((1, "bit/s"), (1e3, "kbit/s"), (1e6, "Mbit/s"), (1e9, "Gbit/s"))
_US: Final[_Units] = ((1, "µs"), (1e3, "ms"), (1e6, "s"))

DIGITS: Final = 3
"""Significant digits of a measured value."""


def number(value: float | None) -> str:
    """Return a measured value with three significant digits: `0.12`, `39.0`, `3,080`."""
    if value is None or math.isnan(value):
        return NONE
    if value == 0 or math.isinf(value):
        return f"{value:.0f}"
    decimals = DIGITS - 1 - math.floor(math.log10(abs(_rounded(value))))
    return f"{_rounded(value):,.{max(decimals, 0)}f}"


def kilobytes(value_bytes: float | None) -> str:
    """Return bytes as a number of kB."""
    return number(None if value_bytes is None else value_bytes * 1e-3)


def mbits(value_bytes_per_s: float | None) -> str:
    """Return bytes/s as a number of Mbit/s."""
    return number(None if value_bytes_per_s is None else value_bytes_per_s * 8e-6)


def milliseconds(value_us: float | None) -> str:
    """Return microseconds as a number of ms."""
    return number(None if value_us is None else value_us * 1e-3)


def percent(ratio: float | None) -> str:
    """Return a ratio as a number of per cent."""
    return number(None if ratio is None else ratio * 100)


def size(value_bytes: float | None) -> str:
    """Return bytes with a suitable unit: `145 kB`."""
    return _scaled(value_bytes, _BYTES)


def rate(value_bytes_per_s: float | None) -> str:
    """Return bytes/s as bits with a suitable unit: `39.0 Mbit/s`."""
    return _scaled(None if value_bytes_per_s is None else 8 * value_bytes_per_s, _BITS_PER_S)


def duration(value_us: float | None) -> str:
    """Return microseconds with a suitable unit: `20.5 ms`."""
    return _scaled(value_us, _US)


def age(seconds: float) -> str:
    """Return an age with a suitable unit: `340 ms`, `12 s`, `5 min`, `3 h`."""
    if seconds < 1:
        return f"{1e3 * seconds:.0f} ms"
    for limit, unit, divisor in ((120, "s", 1), (7200, "min", 60)):
        if seconds < limit:
            return f"{seconds / divisor:.0f} {unit}"
    return f"{seconds / 3600:.0f} h"


_SUFFIXES: Final[Sequence[tuple[str, Callable[[float], str]]]] = (
    ("_bytes_per_s", rate),
    ("_bytes", size),
    ("_us", duration),
    ("_ms", lambda value: duration(1e3 * value)),
    ("_s", lambda value: duration(1e6 * value)),
    ("_pkts", lambda value: f"{plain(value)} packets"),
)
"""End of a name -> text of a value in that unit."""


def named(name: str, value: object) -> str:
    """Return a value in the unit that its name ends with: `181 kB` for a `w_max_bytes` of 181248."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        for suffix, text in _SUFFIXES:
            if name.endswith(suffix) and (suffix != "_s" or not name.endswith("_per_s")):
                return text(value)
    return plain(value)


def plain(value: Any) -> str:
    """Return any value on one line, floats with three significant digits."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.{DIGITS}g}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {plain(one)}" for name, one in value.items())
    return printable(" ".join(str(value).split()))


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _scaled(value: float | None, units: _Units) -> str:
    if value is None or math.isnan(value):
        return NONE
    rounded = abs(_rounded(value))
    factor, unit = max((one for one in units if one[0] <= rounded), default=units[0])
    return f"{number(value / factor)} {unit}"
