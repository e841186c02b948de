"""The rule for runs that do not count; it is applied before anyone looks at their results."""

from __future__ import annotations

from typing import Final

from experiments.disturbance import TAKEN_MAX
from experiments.results import Result

LATE_US: Final = 20_000
"""A run with an emulator delay above this does not count, because the machine stood still [us]."""


def late_us(result: Result) -> float:
    """Return the emulator's maximum delay [us]; 0 for runs without real-time emulation."""
    emulator = result.metadata.get("emulator")
    return 0.0 if emulator is None else float(emulator["lateness_us"]["max"])


def taken_ratio(result: Result) -> float:
    """Return the share of the machine taken by the hypervisor and other processes; 0 if unknown."""
    processors = result.metadata.get("processors", {})
    return float(processors.get("stolen_ratio", 0.0) + processors.get("foreign_ratio", 0.0))


def idle_ratio(result: Result) -> float:
    """Return the idle share of the machine; 1 if unknown."""
    return 1.0 - float(sum(result.metadata.get("processors", {}).values()))


def why(result: Result) -> str | None:
    """Return why a run does not count; None if it counts."""
    if late_us(result) > LATE_US:
        return "the emulator was late"
    return "other work used the processors" if taken_ratio(result) > TAKEN_MAX else None
