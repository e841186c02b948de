"""Processes of this machine that do runs side by side."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor
from types import FrameType
from typing import Final, NoReturn

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

    def stop(self) -> None:
        """Interrupt what runs, and wait until it has cleaned up after itself."""
        children = [one for one in multiprocessing.active_children() if one.pid not in self._before]
        self.shutdown(wait=False, cancel_futures=True)
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                child.terminate()
        self.shutdown(wait=True)


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
    raise SystemExit(128 + number)
