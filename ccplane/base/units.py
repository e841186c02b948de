"""Durations, rates and sizes with units, written as `tc` writes them: `50ms`, `100mbit`, `2MB`.

A bare number is in the unit that the option documents. As for `tc`, rates are in powers of 1000 and sizes in
powers of 1024, and case does not matter.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal, TypeVar

from ccplane.base.errors import UsageError

Kind = Literal["duration", "rate", "size"]
"""The quantity that a text stands for."""

DURATIONS: Final[dict[str, float]] = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86_400.0,
}
"""Unit of a duration -> seconds."""

RATES: Final[dict[str, float]] = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "tbit": 1e12}
"""Unit of a rate -> bits per second."""

SIZES: Final[dict[str, float]] = {
    "b": 1.0,
    **dict.fromkeys(("k", "kb", "kib"), 1024.0),
    **dict.fromkeys(("m", "mb", "mib"), 1024.0**2),
    **dict.fromkeys(("g", "gb", "gib"), 1024.0**3),
}
"""Unit of a size -> bytes."""

_UNITS: Final[dict[Kind, dict[str, float]]] = {"duration": DURATIONS, "rate": RATES, "size": SIZES}

_VALUES: Final[dict[Kind, dict[str, float]]] = {
    "duration": DURATIONS,
    "rate": {**RATES, "bytes/s": 8.0, "kbytes/s": 8e3},
    "size": SIZES,
}
"""Kind -> units that a value may be wanted in."""

_EXAMPLES: Final[dict[Kind, str]] = {
    "duration": "50ms, 1.5s or 2min",
    "rate": "100mbit or 1.5gbit",
    "size": "64kb or 2MB",
}

_TEXT: Final = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*([a-z/]*)\s*", re.IGNORECASE)

_Number = TypeVar("_Number", int, float)


def parse(text: str, kind: Kind, unit: str, where: str = "") -> float:
    """Return a duration, rate or size in a unit.

    Args:
        text: A number, with or without a unit: `50ms`, `100mbit`, `64kb`, `10`.
        kind: What it stands for.
        unit: Unit of the result and of a bare number: a key of `DURATIONS`, `RATES`, `SIZES`, or `bytes/s`.
        where: The option, for errors.

    Raises:
        UsageError: `option.bad_quantity`.
    """
    found = _TEXT.fullmatch(text)
    scale = _VALUES[kind][unit]
    if found is None:
        raise _bad(text, kind, unit, where, "it does not begin with a number")
    number, given = float(found[1]), found[2].lower()
    if not given:
        return number
    if given not in _UNITS[kind]:
        raise _bad(text, kind, unit, where, _why_not(given, kind))
    if given == unit:
        return number
    # Multiplied by the ratio, 200ms would be 200.00000000000003 of the unit ms.
    return float(f"{number * _UNITS[kind][given] / scale:.12g}")


def _why_not(given: str, kind: Kind) -> str:
    if kind == "rate" and given in ("bps", "kbps", "mbps", "gbps"):
        return f"`{given}` means bytes per second to `tc` and bits per second to most others"
    return f"`{given}` is not a unit of a {kind}"


def _bad(text: str, kind: Kind, unit: str, where: str, why: str) -> UsageError:
    units = ", ".join(_UNITS[kind])
    return UsageError(
        "option.bad_quantity",
        f"cannot parse the {kind} `{text}`",
        where=where,
        why=why,
        fix=f"write a number and a unit, such as {_EXAMPLES[kind]} (units: {units}; default: {unit})",
    )


def quantity(value: _Number, unit: str) -> _Number:
    """Return a number that prints with its unit, for the default of an option: `[default: 200ms]`."""
    base: Any = type(value)
    made: _Number = type("Quantity", (base,), {"__str__": lambda self: f"{base(self):g}{unit}"})(value)
    return made
