"""Time until a thread runs after another process woke it: the lower bound for any agent on this machine.

The waiter has the priority of the agent's event loop; the waker works for a while and then writes to a pipe.
On two processors, the waiter's processor has to leave its idle state; on one processor, the kernel only
switches threads.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
from numpy.typing import NDArray

APART_US: Final = 1000
"""Time between two wake-ups, as between the reports of `experiments.bench.spans` [us]."""
WAKE_UPS: Final = 500
_STAMP: Final = struct.Struct("q")


@contextmanager
def on_processor(processor: int) -> Iterator[None]:
    """Keep this thread on a processor for a block."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {processor})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def wake_ups(waiter: int, waker: int) -> NDArray[np.float64]:
    """Return delays until this thread runs on processor `waiter` after a process on `waker` woke it [us]."""
    late_us = []
    command = [sys.executable, "-P", "-m", __name__, str(waker)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as process, on_processor(waiter):
        assert process.stdout is not None
        while reported := process.stdout.read(_STAMP.size):
            late_us.append((time.monotonic_ns() - _STAMP.unpack(reported)[0]) / 1000)
    return np.array(late_us)


def _wake(waker: int) -> None:
    os.sched_setaffinity(0, {waker})
    for _ in range(WAKE_UPS):
        until_ns = time.monotonic_ns() + 1000 * APART_US
        while time.monotonic_ns() < until_ns:
            pass
        os.write(1, _STAMP.pack(time.monotonic_ns()))


if __name__ == "__main__":
    _wake(int(sys.argv[1]))
