"""Contexts that hold as long as a host needs them."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Final

from experiments.netlab.host import Host

_WAIT_S: Final = 0.1
"""Until what is to be called is called first [s]."""


@contextlib.contextmanager
def held(
    host: Host,
    context: contextlib.AbstractContextManager[object],
    meanwhile: Callable[[], float] | None = None,
) -> Iterator[None]:
    """Enter and leave a context in a thread of a host's; pyroute2 has sockets of its own in each thread.

    Args:
        host: Whose thread.
        context: What to enter.
        meanwhile: What to call until it is left; it returns when to call it again [s].
    """
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
