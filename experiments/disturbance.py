"""What others did to a measurement, and the rule that says when a round does not count.

Three things disturb: a hypervisor that takes processors away (steal time), other processes, and clocks that
do not agree. The rule looks at these alone, never at what was measured. A share of the machine that others
take all the time does not disturb a comparison: both sides have it. What disturbs is that one side had more
of it, or that hardly anything was left. So within a round, the share of the machine that others took may
differ by `TAKEN_APART` between any two measurements, and be `TAKEN_MOST` in each.

A processor that another process has is as gone as one that the hypervisor took: the rule adds them up.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from experiments import processes
from experiments.netlab import CpuSeconds, cpu_counts

TAKEN_MOST: Final = 0.4
"""Share of the machine that others may take from a measurement: above, what is left is not this machine."""
TAKEN_APART: Final = 0.08
"""By how much this share may differ within a round. Figures follow it about one to one."""
CLOCKS_APART_S: Final = 0.005
"""By how much two clocks may disagree about a measurement; NTP slews by 0.5 ms a second at most, and a
machine that was suspended, or whose clock was set, is off by far more [s]."""

CAUSES: Final = ("clock", "steal", "processes")
"""Why a round does not count."""

_CLOCKS: Final = (time.CLOCK_MONOTONIC, time.CLOCK_MONOTONIC_RAW, time.CLOCK_BOOTTIME, time.CLOCK_REALTIME)


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of the machine during a measurement.

    Attributes:
        cpu: CPU time of the machine.
        foreign_s: CPU time of processes that are not the benchmark's [s].
        clocks_apart_s: By how much the clock that went furthest was ahead of the one that went least [s].
        processors: How many the machine has.
    """

    cpu: CpuSeconds
    foreign_s: float
    clocks_apart_s: float
    processors: int

    @property
    def elapsed_s(self) -> float:
        """Wall-clock time [s]."""
        return self.cpu.elapsed_s

    @property
    def own_busy_s(self) -> float:
        """CPU time of the machine without that of other processes [s]."""
        return max(self.cpu.busy_s - self.foreign_s, 0.0)

    @property
    def own_ratio(self) -> float:
        """Share of the machine that the measurement had, interrupts included."""
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
    def taken_ratio(self) -> float:
        """Share of the machine that others took in either way."""
        return self.stolen_ratio + self.foreign_ratio


class Watch:
    """Watches the machine over a `with` block.

    Attributes:
        seen: What was seen; there after the block.
    """

    seen: Seen

    def __enter__(self) -> Self:
        # To look at all processes takes some milliseconds, which are outside of what is counted.
        self._there = processes.running()
        self._before = cpu_counts(), _clocks_s()
        return self

    def __exit__(self, *_: object) -> None:
        cpu, clocks_s = cpu_counts(), _clocks_s()
        there = processes.running()
        cpu_before, clocks_before_s = self._before
        went_s = [now_s - then_s for now_s, then_s in zip(clocks_s, clocks_before_s, strict=True)]
        own = processes.family(self._there, os.getpid()) | processes.family(there, os.getpid())
        self.seen = Seen(
            cpu=cpu - cpu_before,
            foreign_s=processes.foreign_s(self._there, there, own),
            clocks_apart_s=max(went_s) - min(went_s),
            processors=len(cpu.idle_s),
        )


def _clocks_s() -> list[float]:
    return [time.clock_gettime(clock) for clock in _CLOCKS]


def disturbances(seen: Sequence[Seen]) -> tuple[str, ...]:
    """Return why a round does not count; nothing if it does.

    Args:
        seen: What was seen in each measurement of the round, at least one.

    Returns:
        Some of `CAUSES`.
    """
    causes = []
    if max(one.clocks_apart_s for one in seen) > CLOCKS_APART_S:
        causes.append("clock")
    taken = [one.taken_ratio for one in seen]
    if max(taken) > TAKEN_MOST or max(taken) - min(taken) > TAKEN_APART:
        # Named is what differs more, or is more where nothing differs.
        stolen, foreign = [[one.stolen_ratio for one in seen], [one.foreign_ratio for one in seen]]
        if max(taken) - min(taken) > TAKEN_APART:
            more_stolen = max(stolen) - min(stolen) >= max(foreign) - min(foreign)
        else:
            more_stolen = max(stolen) >= max(foreign)
        causes.append("steal" if more_stolen else "processes")
    return tuple(causes)


def disturbances_alone(seen: Sequence[Seen]) -> tuple[str, ...]:
    """Return why a round does not count whose measurements are not compared with each other.

    Args:
        seen: As of `disturbances`.
    """
    return tuple({cause: None for one in seen for cause in disturbances([one])})
