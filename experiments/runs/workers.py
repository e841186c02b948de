"""Worker processes of this machine that do runs in parallel."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from types import FrameType
from typing import Any, Final, NoReturn, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_PR_SET_PDEATHSIG: Final = 1  # <linux/prctl.h>


class Workers(ProcessPoolExecutor):
    """A pool of processes that ends cleanly on interruption, and with the process that started it.

    Ctrl-C, SIGTERM and SIGHUP end the starting process, which calls `stop`. If that process is killed, the
    workers die with it, and the next run removes their leftovers.
    """

    def __init__(self, count: int) -> None:
        """Make a pool of `count` processes, which start with the first run."""
        self._before = {child.pid for child in multiprocessing.active_children()}
        # Not forked, because this process has threads.
        context = multiprocessing.get_context("spawn")
        super().__init__(count, mp_context=context, initializer=_begin, initargs=(os.getpid(),))

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call a function in one of the processes."""
        return super().submit(_do, fn, args, kwargs)

    def stop(self) -> None:
        """Interrupt running calls, and wait until they have cleaned up."""
        for child in multiprocessing.active_children():
            if child.pid not in self._before:
                child.terminate()
        self.shutdown(wait=True, cancel_futures=True)


def _do(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return fn(*args, **kwargs)
    except SystemExit as leaving:
        # Cleanup is done. Returning would look like a failed task, and the pool would send another.
        os._exit(leaving.code if isinstance(leaving.code, int) else 1)


def _begin(parent: int) -> None:
    signal.signal(signal.SIGINT, _nothing)  # not ignored, because child programs would inherit that
    signal.signal(signal.SIGTERM, _leave)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    pass


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, _nothing)  # only once: the pool repeats it during cleanup
    raise SystemExit(128 + number)
