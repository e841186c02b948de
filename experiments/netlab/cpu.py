"""CPU time of the whole machine, for CPU seconds per gigabyte.

Most of the work of TCP is done in soft interrupts that no process is charged for: only the machine's own
count has it all. Measure on a machine that does nothing else, and in pairs.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, Self

_STAT: Final = Path("/proc/stat")
_TICKS_PER_S: Final[int] = os.sysconf("SC_CLK_TCK")
_COLUMNS: Final = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")  # proc_stat(5)


@dataclass(frozen=True)
class CpuSeconds:
    """CPU time by what it went into, summed over all processors, or the difference of two such counts.

    Attributes:
        user_s: Programs, niced ones included [s].
        system_s: The kernel on behalf of programs [s].
        irq_s: Hard interrupts [s].
        softirq_s: Soft interrupts: most of packet processing [s].
        steal_s: Taken by the hypervisor for others [s].
        idle_s: Nothing, waiting for disks included [s].
        elapsed_s: Wall-clock time [s].
    """

    user_s: float
    system_s: float
    irq_s: float
    softirq_s: float
    steal_s: float
    idle_s: float
    elapsed_s: float

    @property
    def busy_s(self) -> float:
        """All that was spent: user, system and interrupts [s]."""
        return self.user_s + self.system_s + self.irq_s + self.softirq_s

    @property
    def kernel_s(self) -> float:
        """What the kernel spent: system and interrupts [s]."""
        return self.system_s + self.irq_s + self.softirq_s

    def __sub__(self, earlier: CpuSeconds) -> CpuSeconds:
        """Return what was spent since an earlier count."""
        return CpuSeconds(*(getattr(self, f.name) - getattr(earlier, f.name) for f in fields(self)))


def parse_stat(text: str, *, ticks_per_s: int, elapsed_s: float) -> CpuSeconds:
    """Read the text of /proc/stat.

    Args:
        text: The file's text.
        ticks_per_s: How many of its ticks a second has.
        elapsed_s: The wall clock [s].
    """
    ticks = dict(zip(_COLUMNS, map(int, text.split("\n", 1)[0].split()[1:]), strict=False))
    seconds = {name: count / ticks_per_s for name, count in ticks.items()}
    return CpuSeconds(
        user_s=seconds["user"] + seconds["nice"],
        system_s=seconds["system"],
        irq_s=seconds["irq"],
        softirq_s=seconds["softirq"],
        steal_s=seconds["steal"],
        idle_s=seconds["idle"] + seconds["iowait"],
        elapsed_s=elapsed_s,
    )


def cpu_seconds() -> CpuSeconds:
    """Return the CPU time spent since boot, to a tick (usually 10 ms) a processor."""
    return parse_stat(_STAT.read_text(), ticks_per_s=_TICKS_PER_S, elapsed_s=time.monotonic())


class CpuMeter:
    """Counts CPU time over a `with` block.

        with CpuMeter() as meter:
            ...
        print(meter.spent.busy_s)

    Attributes:
        spent: What was spent in the block; inside it, what was spent so far.
    """

    def __init__(self) -> None:
        """Start now; entering the block starts anew."""
        self._begin = cpu_seconds()
        self._end: CpuSeconds | None = None

    def __enter__(self) -> Self:
        self._begin, self._end = cpu_seconds(), None
        return self

    def __exit__(self, *_: object) -> None:
        self._end = cpu_seconds()

    @property
    def spent(self) -> CpuSeconds:
        """What was spent in the block; inside it, what was spent so far."""
        return (self._end or cpu_seconds()) - self._begin
