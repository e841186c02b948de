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
_IDLE_NS: Final = re.compile(
    r"^ *\.idle_sleeptime *: (\d+) nsecs$.*?^ *\.iowait_sleeptime *: (\d+) nsecs$", re.MULTILINE | re.DOTALL
)
_PROCESSOR: Final = re.compile(r"^cpu\d+ (.*)$", re.MULTILINE)
_TICKS_PER_S: Final[int] = os.sysconf("SC_CLK_TCK")
_CPUCLOCK_SCHED: Final = 2  # <linux/posix-timers.h>


@dataclass(frozen=True, slots=True)
class CpuSeconds:
    """CPU time spent between two counts, summed over all processors.

    Attributes:
        busy_s: Programs, the kernel and interrupts; what a hypervisor took for others is not in it [s].
        elapsed_s: Wall-clock time [s].
        stolen_s: What a hypervisor took for others while a processor had something to do [s].
    """

    busy_s: float
    elapsed_s: float
    stolen_s: float


@dataclass(frozen=True, slots=True)
class CpuCounts:
    """What the kernel counted since boot.

    Attributes:
        at_s: When [s].
        idle_s: How long each processor had nothing to do, or waited for disks [s].
        stolen_s: For how long each was taken away [s].
    """

    at_s: float
    idle_s: tuple[float, ...]
    stolen_s: tuple[float, ...]

    def __sub__(self, earlier: CpuCounts) -> CpuSeconds:
        """Return what was spent since an earlier count.

        Idle time and stolen time overlap: a processor that an interrupt wakes, and that the hypervisor lets
        wait, is idle for its kernel until it runs, and stolen from for the hypervisor. To subtract both from
        elapsed time would count this wait twice, and gave negative CPU time on a machine that mostly idles.
        How much of the stolen time that is, nobody counts. It is shared out as the time was: a processor that
        was never idle lost all of it from its busy time, one that was mostly idle hardly any.
        """
        elapsed_s = self.at_s - earlier.at_s
        busy_s = stolen_s = 0.0
        for idle_s, idle_before_s, taken_s, taken_before_s in zip(
            self.idle_s, earlier.idle_s, self.stolen_s, earlier.stolen_s, strict=True
        ):
            awake_s = min(max(elapsed_s - (idle_s - idle_before_s), 0.0), elapsed_s)
            taken = min((taken_s - taken_before_s) / elapsed_s, 1.0) if elapsed_s else 0.0
            busy_s += awake_s * (1 - taken)
            stolen_s += taken * elapsed_s
        return CpuSeconds(busy_s, elapsed_s, stolen_s)


def parse_counts(at_s: float, timer_list: str, stat: str, *, ticks_per_s: int) -> CpuCounts:
    """Return what the kernel tells of its processors.

    Args:
        at_s: When it told [s].
        timer_list: Text of /proc/timer_list; where it says nothing of idle time, that of `stat` is used.
        stat: Text of /proc/stat.
        ticks_per_s: How many of the ticks in `stat` a second has.
    """
    ticks = [[int(field) for field in line.split()] for line in _PROCESSOR.findall(stat)]
    stolen_s = tuple(each[7] / ticks_per_s for each in ticks)  # proc_stat(5), as the next
    idle_s = tuple((each[3] + each[4]) / ticks_per_s for each in ticks)
    if len(exact := _IDLE_NS.findall(timer_list)) == len(ticks):
        idle_s = tuple((int(idle_ns) + int(iowait_ns)) / 1e9 for idle_ns, iowait_ns in exact)
    return CpuCounts(at_s, idle_s, stolen_s)


def cpu_counts() -> CpuCounts:
    """Return what the kernel counted since boot."""
    try:
        timer_list = _TIMER_LIST.read_text()
    except OSError:  # not root
        timer_list = ""
    return parse_counts(time.monotonic(), timer_list, _STAT.read_text(), ticks_per_s=_TICKS_PER_S)


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
        self._begin = cpu_counts()
        self._end: CpuCounts | None = None

    def __enter__(self) -> Self:
        self._begin, self._end = cpu_counts(), None
        return self

    def __exit__(self, *_: object) -> None:
        self._end = cpu_counts()

    @property
    def spent(self) -> CpuSeconds:
        """What was spent in the block; inside it, what was spent so far."""
        return (self._end or cpu_counts()) - self._begin
