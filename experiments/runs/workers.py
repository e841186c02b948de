"""Processes of this machine that do runs side by side."""

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
    """A pool of processes that ends cleanly when it is interrupted, and does not outlive us.

    Ctrl-C is for the process that started them, which calls `stop`. If that one is killed, they die with it;
    what they had built is removed by the next run.
    """

    def __init__(self, count: int) -> None:
        """Make the pool; its processes start with the first run.

        Args:
            count: How many runs at once.
        """
        self._before = {child.pid for child in multiprocessing.active_children()}
        # Not forked: there are threads here.
        context = multiprocessing.get_context("spawn")
        super().__init__(count, mp_context=context, initializer=_begin, initargs=(os.getpid(),))

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Do something in one of the processes."""
        return super().submit(_do, fn, args, kwargs)

    def stop(self) -> None:
        """Interrupt what runs, and wait until it has cleaned up after itself."""
        for child in multiprocessing.active_children():
            if child.pid not in self._before:
                child.terminate()
        self.shutdown(wait=True, cancel_futures=True)


def _do(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return fn(*args, **kwargs)
    except SystemExit as leaving:
        # Everything is cleaned up. The pool would take it for a failed task, and give us another one.
        os._exit(leaving.code if isinstance(leaving.code, int) else 1)


def _begin(parent: int) -> None:
    """Prepare a process of the pool."""
    signal.signal(signal.SIGINT, _nothing)  # not ignored: programs that we start would inherit that
    signal.signal(signal.SIGTERM, _leave)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    pass


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, _nothing)  # once is enough: the pool repeats it while we clean up
    raise SystemExit(128 + number)
