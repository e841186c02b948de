"""A time limit for third-party Python code in this thread."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class TooSlow(BaseException):
    """The time limit expired; raised at the line that the code has reached."""


@contextmanager
def deadline(limit_s: float) -> Iterator[None]:
    """Interrupt the block when a time limit expires.

    A call that blocks outside the interpreter is interrupted only after it returns.

    Raises:
        TooSlow: When the limit expires.
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
