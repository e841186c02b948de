"""CPU time of the whole machine, for CPU seconds per gigabyte.

Most of the work of TCP is done in soft interrupts that no process is charged for: only the machine's own
count has it all. It is taken from how long the processors were idle, which kernels without a periodic tick
note in nanoseconds (/proc/timer_list, for root). The usual count of busy time, /proc/stat, looks at what runs
at each tick and misses most of what is shorter than one: at 1 Gbit/s it saw 0.65 s/GB where 1.2 were spent.
Measure on a machine that does nothing else, and in pairs.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

_TIMER_LIST: Final = Path("/proc/timer_list")
_STAT: Final = Path("/proc/stat")
_IDLE_NS: Final = re.compile(r"^ *\.(?:idle|iowait)_sleeptime *: (\d+) nsecs$", re.MULTILINE)
_TICKS_PER_S: Final[int] = os.sysconf("SC_CLK_TCK")
_CPUCLOCK_SCHED: Final = 2  # <linux/posix-timers.h>


@dataclass(frozen=True)
class CpuSeconds:
    """CPU time spent, summed over all processors, since boot or between two such counts.

    Attributes:
        busy_s: Programs, the kernel and interrupts; what a hypervisor took for others is not in it [s].
        elapsed_s: Wall-clock time [s].
    """

    busy_s: float
    elapsed_s: float

    def __sub__(self, earlier: CpuSeconds) -> CpuSeconds:
        """Return what was spent since an earlier count."""
        return CpuSeconds(self.busy_s - earlier.busy_s, self.elapsed_s - earlier.elapsed_s)


def parse_idle_s(timer_list: str, stat: str, *, ticks_per_s: int) -> float:
    """Return how long the processors were not ours to use: idle, waiting for disks, or taken away.

    Args:
        timer_list: Text of /proc/timer_list; where it says nothing of idle time, that of `stat` is used.
        stat: Text of /proc/stat.
        ticks_per_s: How many of the ticks in `stat` a second has.
    """
    idle, iowait, _irq, _softirq, *steal = map(int, stat.split("\n", 1)[0].split()[4:9])  # proc_stat(5)
    taken_s = sum(steal) / ticks_per_s
    if idle_ns := _IDLE_NS.findall(timer_list):
        return sum(map(int, idle_ns)) / 1e9 + taken_s
    return (idle + iowait) / ticks_per_s + taken_s


def cpu_seconds() -> CpuSeconds:
    """Return the CPU time spent since boot."""
    try:
        timer_list = _TIMER_LIST.read_text()
    except OSError:  # not root
        timer_list = ""
    elapsed_s = time.monotonic()
    idle_s = parse_idle_s(timer_list, _STAT.read_text(), ticks_per_s=_TICKS_PER_S)
    return CpuSeconds((os.cpu_count() or 1) * elapsed_s - idle_s, elapsed_s)


def process_cpu_s(pid: int) -> float:
    """Return the CPU time that a process and its threads took so far, as the scheduler counted it [s].

    Raises:
        OSError: If there is no such process.
    """
    return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)  # as clock_getcpuclockid(3) has it


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
