"""A limit on how long somebody else's Python code may run in this thread."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class TooSlow(BaseException):
    """The time is over; raised at whatever line the code has reached."""


@contextmanager
def deadline(limit_s: float) -> Iterator[None]:
    """Interrupt the block when it takes too long.

    A call that waits outside of Python is interrupted only when it returns.

    Args:
        limit_s: How long it may take [s].

    Raises:
        TooSlow: When the time is over.
    """
    thread = ctypes.c_ulong(threading.get_ident())
    lock = threading.Lock()
    over = False

    def interrupt() -> None:
        with lock:
            if not over:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(TooSlow))

    timer = threading.Timer(limit_s, interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            over = True
        timer.cancel()
