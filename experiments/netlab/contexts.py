"""Context managers that are entered and left in a thread of a host."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Final

from experiments.netlab.host import Host

_WAIT_S: Final = 0.1
"""Delay before the first call of `meanwhile` [s]."""


@contextlib.contextmanager
def held(
    host: Host,
    context: contextlib.AbstractContextManager[object],
    meanwhile: Callable[[], float] | None = None,
) -> Iterator[None]:
    """Enter and leave a context in a thread of a host; pyroute2 needs its own sockets in each thread."""
    entered, ready, ended = (threading.Event() for _ in range(3))

    def hold() -> None:
        try:
            with context:
                entered.set()
                ready.set()
                wait_s = _WAIT_S
                while not ended.wait(wait_s):
                    if meanwhile is not None:
                        wait_s = meanwhile()
        finally:
            ready.set()

    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        running = thread.submit(host.call, hold)
        ready.wait()
        try:
            if entered.is_set():
                yield
        finally:
            ended.set()
            running.result()
