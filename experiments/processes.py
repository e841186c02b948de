"""CPU time of processes outside of this benchmark."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_TICKS_PER_S: Final[int] = os.sysconf("SC_CLK_TCK")
_PF_KTHREAD: Final = 0x200000  # <linux/sched.h>
_INIT: Final = 1
_NICE_FIRST: Final = -15
"""Nice value of `going_first`."""
YIELDING: Final = 10
"""A process whose priority is lower by this number gets less than a tenth of a processor that both want."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process in /proc.

    Attributes:
        pid: Process id.
        parent: Process id of its parent.
        session: Id of its session.
        kernel: Whether it is a kernel thread.
        cpu_s: CPU time of all its threads [s].
        ended_s: CPU time of its reaped descendants [s].
        priority: Lower values run first: 20 plus the nice value, or negative for real-time processes.
    """

    pid: int
    parent: int
    session: int
    kernel: bool
    cpu_s: float
    ended_s: float
    priority: int


def parse(stat: str, *, ticks_per_s: int) -> Process:
    """Parse a text of /proc/PID/stat."""
    pid, _, rest = stat.partition(" (")
    fields = rest.rpartition(") ")[2].split()  # from the third field of proc_pid_stat(5)
    user, system, ended_user, ended_system = map(int, fields[11:15])
    return Process(
        pid=int(pid),
        parent=int(fields[1]),
        session=int(fields[3]),
        kernel=bool(int(fields[6]) & _PF_KTHREAD),
        cpu_s=(user + system) / ticks_per_s,
        ended_s=(ended_user + ended_system) / ticks_per_s,
        priority=int(fields[15]),
    )


def running() -> dict[int, Process]:
    """Return all visible processes by pid."""
    found = {}
    for folder in _PROC.iterdir():
        if folder.name.isdecimal():
            try:
                process = parse((folder / "stat").read_text(), ticks_per_s=_TICKS_PER_S)
            except OSError:  # it has just exited
                continue
            found[process.pid] = process
    return found


def family(processes: Mapping[int, Process], pid: int) -> set[int]:
    """Return a process, its descendants, and orphans that still belong to a session of these processes."""
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    own, left = set(), [pid]
    while left:
        one = left.pop()
        own.add(one)
        left += children.get(one, [])
    # Not the session that it was started in: that also has the shell and its other children.
    sessions = {processes[one].session for one in own if one in processes}
    sessions -= {processes[pid].session} if pid in processes else set()
    return own | {one.pid for one in processes.values() if one.session in sessions}


@contextlib.contextmanager
def going_first() -> Iterator[None]:
    """Give this process, and those that it starts, priority over ordinary processes, if that is permitted."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, min(_NICE_FIRST, before))
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


def foreign_s(
    before: Mapping[int, Process],
    after: Mapping[int, Process],
    own: Iterable[int],
    below: float = math.inf,
) -> float:
    """Return the CPU time that other processes used between two readings [s].

    Args:
        before: The first reading.
        after: The second one.
        own: Processes that do not count.
        below: Processes with this `Process.priority` or above do not count.

    Kernel threads do not count: most of their work is caused by the benchmark's packets. Soft interrupts
    count for the interrupted process, or for none. A process that started and ended between the readings
    counts if its parent waited for it and is not init.
    """
    mine = set(own)
    taken_s = 0.0
    for pid, now in after.items():
        if pid in mine or now.kernel or now.priority >= below:
            continue
        then = before.get(pid)
        taken_s += now.cpu_s - (then.cpu_s if then else 0.0)
        if pid != _INIT:
            taken_s += now.ended_s - (then.ended_s if then else 0.0)
    for pid in before.keys() - after.keys() - mine:
        heir = _heir(pid, before, after)
        if heir is None or heir not in before or heir in {*mine, _INIT}:
            continue
        if after[heir].priority < below:
            taken_s -= before[pid].cpu_s + before[pid].ended_s
    return max(taken_s, 0.0)


def _heir(pid: int, before: Mapping[int, Process], after: Mapping[int, Process]) -> int | None:
    """Return the ancestor whose `ended_s` contains the time of a process that exited; None without one."""
    while pid in before and pid not in after:
        pid = before[pid].parent
    return pid if pid in after else None
