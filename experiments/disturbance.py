"""What disturbed a measurement, and the rule for rounds that do not count.

Three things disturb a measurement: a hypervisor that takes processor time (steal), other processes, and
clocks that disagree. The rule looks only at these disturbances, never at the results. A constant share taken
from all measurements does not bias a comparison; unequal shares bias it, and so does a share that leaves
almost nothing. So the share of the machine taken by the hypervisor and other processes together may differ by
at most `TAKEN_APART` between two measurements of a round, and be at most `TAKEN_MAX` in each.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from experiments import processes
from experiments.netlab import CpuSeconds, cpu_counts

TAKEN_MAX: Final = 0.4
"""Maximum share of the machine taken from a measurement; above, the rest no longer represents this
machine."""
TAKEN_APART: Final = 0.08
"""Maximum difference of the taken share within a round. A change of the taken share changes results by about
as much.
"""
CLOCKS_APART_S: Final = 0.005
"""Maximum disagreement of two clocks during a measurement [s]. NTP slews by at most 0.5 ms per second; after
a suspend, or when a clock is set, the disagreement is far larger."""

CAUSES: Final = ("clock", "steal", "processes")
"""Reasons why a round does not count."""

_CLOCKS: Final = (time.CLOCK_MONOTONIC, time.CLOCK_MONOTONIC_RAW, time.CLOCK_BOOTTIME, time.CLOCK_REALTIME)


@dataclass(frozen=True, slots=True)
class Seen:
    """The machine during a measurement.

    Attributes:
        cpu: CPU time of the machine.
        foreign_s: CPU time of processes outside the benchmark [s].
        clocks_apart_s: Difference between the clocks that advanced most and least [s].
        processors: Number of processors.
        yielding_s: Part of `foreign_s` of processes with a much lower priority [s].
    """

    cpu: CpuSeconds
    foreign_s: float
    clocks_apart_s: float
    processors: int
    yielding_s: float = 0.0

    @property
    def elapsed_s(self) -> float:
        """Wall-clock time [s]."""
        return self.cpu.elapsed_s

    @property
    def own_busy_s(self) -> float:
        """CPU time of the machine without the CPU time of other processes [s]."""
        return max(self.cpu.busy_s - self.foreign_s, 0.0)

    @property
    def own_ratio(self) -> float:
        """Share of the machine used by the measurement, interrupts included."""
        return self.own_busy_s / (self.processors * self.cpu.elapsed_s)

    @property
    def stolen_ratio(self) -> float:
        """Share of the machine that the hypervisor took."""
        return self.cpu.stolen_s / (self.processors * self.cpu.elapsed_s)

    @property
    def foreign_ratio(self) -> float:
        """Share of the machine that other processes took."""
        return self.foreign_s / (self.processors * self.cpu.elapsed_s)

    @property
    def competing_ratio(self) -> float:
        """Share of the machine that other processes took, except those with a much lower priority."""
        return (self.foreign_s - self.yielding_s) / (self.processors * self.cpu.elapsed_s)

    @property
    def taken_ratio(self) -> float:
        """Share of the machine taken by the hypervisor and other processes."""
        return self.stolen_ratio + self.foreign_ratio


class Watch:
    """Watches the machine during a `with` block.

    Attributes:
        seen: The observation, after the block.
    """

    seen: Seen

    def __enter__(self) -> Self:
        # Listing all processes takes some milliseconds; it happens outside of the counted time.
        self._there = processes.running()
        self._before = cpu_counts(), _clocks_s()
        return self

    def __exit__(self, *_: object) -> None:
        cpu, clocks_s = cpu_counts(), _clocks_s()
        there = processes.running()
        cpu_before, clocks_before_s = self._before
        went_s = [now_s - then_s for now_s, then_s in zip(clocks_s, clocks_before_s, strict=True)]
        own = processes.family(self._there, os.getpid()) | processes.family(there, os.getpid())
        foreign_s = processes.foreign_s(self._there, there, own)
        yielding = there[os.getpid()].priority + processes.YIELDING
        self.seen = Seen(
            cpu=cpu - cpu_before,
            foreign_s=foreign_s,
            clocks_apart_s=max(went_s) - min(went_s),
            processors=len(cpu.idle_s),
            yielding_s=max(foreign_s - processes.foreign_s(self._there, there, own, yielding), 0.0),
        )


def _clocks_s() -> list[float]:
    return [time.clock_gettime(clock) for clock in _CLOCKS]


def disturbances(seen: Sequence[Seen]) -> tuple[str, ...]:
    """Return why a round does not count; empty if it counts.

    Args:
        seen: The machine during each measurement of the round, at least one.

    Returns:
        Some of `CAUSES`.
    """
    causes = []
    if max(one.clocks_apart_s for one in seen) > CLOCKS_APART_S:
        causes.append("clock")
    taken = [one.taken_ratio for one in seen]
    if max(taken) > TAKEN_MAX or max(taken) - min(taken) > TAKEN_APART:
        # Name the cause that differs more; where neither differs, the larger one.
        stolen, foreign = [[one.stolen_ratio for one in seen], [one.foreign_ratio for one in seen]]
        if max(taken) - min(taken) > TAKEN_APART:
            more_stolen = max(stolen) - min(stolen) >= max(foreign) - min(foreign)
        else:
            more_stolen = max(stolen) >= max(foreign)
        causes.append("steal" if more_stolen else "processes")
    return tuple(causes)


def disturbances_alone(seen: Sequence[Seen]) -> tuple[str, ...]:
    """Return why a round does not count, if its measurements are not compared with each other."""
    return tuple({cause: None for one in seen for cause in disturbances([one])})
