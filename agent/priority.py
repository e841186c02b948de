"""Real-time priority for the event loop: reports are small and urgent, other work must not stand before them.

A loop that never ends would then keep a processor for itself. The kernel leaves other processes 5 % of it
(`kernel.sched_rt_runtime_us`), and a loop that ran for `LIMIT_US` without waiting loses its priority.
"""

from __future__ import annotations

import atexit
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
    """Give the calling process real-time priority; children do not inherit it.

    Returns:
        Whether this process may have it: root or CAP_SYS_NICE, and the kernel agrees.
    """
    try:
        resource.setrlimit(resource.RLIMIT_RTTIME, (LIMIT_US, resource.RLIM_INFINITY))
        signal.signal(signal.SIGXCPU, _lose_priority)
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(_PRIORITY))
        # The interpreter takes signal handlers away before it is done with ending, and SIGXCPU would kill it.
        atexit.register(_normal_priority)
    except (OSError, ValueError) as error:
        log.info("the event loop keeps normal priority: %s", error)
        return False
    return True


def _normal_priority() -> None:
    # Without CAP_SYS_NICE, which is dropped by then, the flag may not be taken back.
    os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))


def _lose_priority(_number: int, _frame: FrameType | None) -> None:
    _normal_priority()
    log.warning(
        "an algorithm computed for %d ms without a pause: the agent goes on with normal priority",
        LIMIT_US // 1000,
    )
