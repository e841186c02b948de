"""Time limits for third-party Python code."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Final, TypeVar

T = TypeVar("T")

GRACE_S: Final = 1.0
"""Time for interrupted code to end [s]; after it, the thread is left behind."""


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


def within(limit_s: float, what: Callable[[], T]) -> T:
    """Call a function on a thread of its own, and return its result.

    A call that blocks outside the interpreter keeps its thread until it returns; the caller continues.

    Raises:
        TooSlow: When the limit expires.
        BaseException: What the function raises.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            with deadline(limit_s):
                result = what()
            future.set_result(result)
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="ccp-candidate", daemon=True).start()
    try:
        return future.result(limit_s + GRACE_S)
    except TimeoutError:
        if future.done():
            raise  # the function's
        raise TooSlow from None
