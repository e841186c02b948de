"""Clean shutdown on Ctrl-C and SIGTERM."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def on_signals(stop: Callable[[], Any]) -> Iterator[None]:
    """Call `stop` on Ctrl-C and SIGTERM within the block, instead of the previous handlers."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: stop()) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
