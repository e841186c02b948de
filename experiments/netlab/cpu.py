"""CPU time of the whole machine, for CPU seconds per gigabyte.

Most of TCP's work happens in soft interrupts that are charged to no process, so only machine-wide time covers
this work. The machine-wide time is computed from the processors' idle time, which tickless kernels record in
nanoseconds (/proc/timer_list, for root). The busy time in /proc/stat is sampled at each tick and misses most
work that is shorter than a tick: at 1 Gbit/s it showed 0.65 s/GB where 1.2 were spent. Measure in pairs, on
an otherwise idle machine.
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
    """CPU time spent between two readings, summed over all processors.

    Attributes:
        busy_s: Programs, the kernel and interrupts, without stolen time [s].
        elapsed_s: Wall-clock time [s].
        stolen_s: Time that the hypervisor took while a processor had work [s].
    """

    busy_s: float
    elapsed_s: float
    stolen_s: float


@dataclass(frozen=True, slots=True)
class CpuCounts:
    """The kernel's counters since boot.

    Attributes:
        at_s: Time of the reading [s].
        idle_s: Time that each processor was idle or waited for disks [s].
        stolen_s: Time that the hypervisor took from each processor [s].
    """

    at_s: float
    idle_s: tuple[float, ...]
    stolen_s: tuple[float, ...]

    def __sub__(self, earlier: CpuCounts) -> CpuSeconds:
        """Return the CPU time spent since an earlier reading.

        Idle time and stolen time overlap: a processor that was woken by an interrupt but not yet scheduled by
        the hypervisor counts as idle and as stolen. Subtracting both from elapsed time would count this wait
        twice, and gave negative CPU time on mostly idle machines. The size of the overlap is unknown, so
        stolen time is split in proportion to busy and idle time.
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
    """Parse the kernel's counters.

    Args:
        at_s: Time of the reading [s].
        timer_list: Text of /proc/timer_list; if it has no idle times, those of `stat` are used.
        stat: Text of /proc/stat.
        ticks_per_s: Ticks per second in `stat`.
    """
    ticks = [[int(field) for field in line.split()] for line in _PROCESSOR.findall(stat)]
    stolen_s = tuple(each[7] / ticks_per_s for each in ticks)  # proc_stat(5), as the next
    idle_s = tuple((each[3] + each[4]) / ticks_per_s for each in ticks)
    if len(exact := _IDLE_NS.findall(timer_list)) == len(ticks):
        idle_s = tuple((int(idle_ns) + int(iowait_ns)) / 1e9 for idle_ns, iowait_ns in exact)
    return CpuCounts(at_s, idle_s, stolen_s)


def cpu_counts() -> CpuCounts:
    """Read the kernel's counters."""
    try:
        timer_list = _TIMER_LIST.read_text()
    except OSError:  # not root
        timer_list = ""
    return parse_counts(time.monotonic(), timer_list, _STAT.read_text(), ticks_per_s=_TICKS_PER_S)


def process_cpu_s(pid: int) -> float:
    """Return the CPU time of a process and its threads so far, as counted by the scheduler [s].

    Raises:
        OSError: If the process does not exist.
    """
    return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)  # as clock_getcpuclockid(3) has it


class CpuMeter:
    """Measures CPU time during a `with` block.

        with CpuMeter() as meter:
            ...
        print(meter.spent.busy_s)

    Attributes:
        spent: CPU time of the block; inside the block, the time so far.
    """

    def __init__(self) -> None:
        self._begin = cpu_counts()
        self._end: CpuCounts | None = None

    def __enter__(self) -> Self:
        self._begin, self._end = cpu_counts(), None
        return self

    def __exit__(self, *_: object) -> None:
        self._end = cpu_counts()

    @property
    def spent(self) -> CpuSeconds:
        """CPU time of the block; inside the block, the time so far."""
        return (self._end or cpu_counts()) - self._begin
