"""Real-time priority for the agent loop and the telemetry thread, as reports are small and urgent.

An endless loop with this priority would occupy a processor. The kernel leaves 5 % of the processor to other
processes (`kernel.sched_rt_runtime_us`), and once a thread has run for `LIMIT_US` without waiting, all
threads lose their priority.
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
"""Computing time without a wait after which the priority is lost [us]; equal to the heartbeat's timeout."""

_PRIORITY: Final = 1  # the lowest real-time priority: interrupt threads go first


def raise_priority() -> bool:
    """Give the main thread real-time priority; other threads and child processes do not inherit it.

    Returns:
        Whether the priority was permitted; it needs root or CAP_SYS_NICE.
    """
    try:
        resource.setrlimit(resource.RLIMIT_RTTIME, (LIMIT_US, resource.RLIM_INFINITY))
        signal.signal(signal.SIGXCPU, _lose_priority)
        _set(0, os.SCHED_RR, _PRIORITY)
        # At exit the interpreter removes signal handlers early; SIGXCPU would then kill the process.
        atexit.register(_normal_priority)
    except (OSError, ValueError) as error:
        log.info("the agent loop runs with normal priority: %s", error)
        return False
    return True


def raise_thread() -> None:
    """Give the calling thread real-time priority, if permitted; call this after `raise_priority`."""
    with contextlib.suppress(PermissionError):
        _set(0, os.SCHED_RR, _PRIORITY)


def raise_process(pid: int) -> None:
    """Give all current threads of a process real-time priority, as far as permitted."""
    for thread_id in map(int, os.listdir(f"/proc/{pid}/task")):
        with contextlib.suppress(OSError):
            _set(thread_id, os.SCHED_RR, _PRIORITY)


def _normal_priority() -> None:
    for thread_id in map(int, os.listdir("/proc/self/task")):
        # The thread has ended, or has more capabilities, so it was not raised here.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            _set(thread_id, os.SCHED_OTHER, 0)


def _set(thread_id: int, policy: int, priority: int) -> None:
    # Always set the flag: clearing it needs CAP_SYS_NICE, which has been dropped by then.
    os.sched_setscheduler(thread_id, policy | os.SCHED_RESET_ON_FORK, os.sched_param(priority))


def _lose_priority(_number: int, _frame: FrameType | None) -> None:
    _normal_priority()
    log.warning(
        "an algorithm computed for %d ms without a pause: the agent continues with normal priority",
        LIMIT_US // 1000,
    )
