"""Which runs do not count: a rule that is applied before anything looks at their figures."""

from __future__ import annotations

from typing import Final

from experiments.disturbance import TAKEN_MOST
from experiments.results import Result

LATE_US: Final = 20_000
"""A run in which the emulator was once so late does not count: the machine stood still [us]."""


def late_us(result: Result) -> float:
    """Return by how much the emulator was late at most [us]; 0 where nothing was emulated in real time."""
    emulator = result.metadata.get("emulator")
    return 0.0 if emulator is None else float(emulator["lateness_us"]["max"])


def taken_ratio(result: Result) -> float:
    """Return the share of the machine that others took, its hypervisor or other processes; 0 if not known."""
    processors = result.metadata.get("processors", {})
    return float(processors.get("stolen_ratio", 0.0) + processors.get("foreign_ratio", 0.0))


def idle_ratio(result: Result) -> float:
    """Return the share of the machine that nobody wanted; 1 where that is not known."""
    return 1.0 - float(sum(result.metadata.get("processors", {}).values()))


def why(result: Result) -> str | None:
    """Return why a run does not count; None if it does."""
    if late_us(result) > LATE_US:
        return "the emulator was late"
    return "others had the processors" if taken_ratio(result) > TAKEN_MOST else None
