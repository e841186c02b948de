"""Real-time priority for the event loop: reports are small and urgent, other work must not stand before them.

So is telemetry, which comes in on a thread of its own.

A loop that never ends would then keep a processor for itself. The kernel leaves other processes 5 % of it
(`kernel.sched_rt_runtime_us`), and when a thread ran for `LIMIT_US` without waiting, all lose their priority.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import resource
import signal
from types import FrameType
from typing import Final

log = logging.getLogger("ccplane.agent")

LIMIT_US: Final = 200_000
"""Computing without a wait [us] after which the priority is lost: as long as a heartbeat may be late."""

_PRIORITY: Final = 1  # the lowest of the real-time ones: interrupt threads stay in front


def raise_priority() -> bool:
    """Give the process's main thread real-time priority; other threads and children do not inherit it.

    Returns:
        Whether this process may have it: root or CAP_SYS_NICE, and the kernel agrees.
    """
    try:
        resource.setrlimit(resource.RLIMIT_RTTIME, (LIMIT_US, resource.RLIM_INFINITY))
        signal.signal(signal.SIGXCPU, _lose_priority)
        _set(0, os.SCHED_RR, _PRIORITY)
        # The interpreter takes signal handlers away before it is done with ending, and SIGXCPU would kill it.
        atexit.register(_normal_priority)
    except (OSError, ValueError) as error:
        log.info("the event loop keeps normal priority: %s", error)
        return False
    return True


def raise_thread() -> None:
    """Give the calling thread real-time priority, too, if it may have it; behind `raise_priority`."""
    with contextlib.suppress(PermissionError):
        _set(0, os.SCHED_RR, _PRIORITY)


def raise_process(pid: int) -> None:
    """Give all threads that a process has now real-time priority, as far as this one may."""
    for thread_id in map(int, os.listdir(f"/proc/{pid}/task")):
        with contextlib.suppress(OSError):
            _set(thread_id, os.SCHED_RR, _PRIORITY)


def _normal_priority() -> None:
    for thread_id in map(int, os.listdir("/proc/self/task")):
        # It has just ended, or has kept more rights than this one: then it was not raised here.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            _set(thread_id, os.SCHED_OTHER, 0)


def _set(thread_id: int, policy: int, priority: int) -> None:
    # Without CAP_SYS_NICE, which is dropped by then, the flag may not be taken back.
    os.sched_setscheduler(thread_id, policy | os.SCHED_RESET_ON_FORK, os.sched_param(priority))


def _lose_priority(_number: int, _frame: FrameType | None) -> None:
    _normal_priority()
    log.warning(
        "an algorithm computed for %d ms without a pause: the agent goes on with normal priority",
        LIMIT_US // 1000,
    )
