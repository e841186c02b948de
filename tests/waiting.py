"""Time in tests: waiting for what happens elsewhere, and a clock that stands still."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(done: Callable[[], object], what: str = "it", timeout_s: float = 60.0) -> None:
    """Wait until something returns a true value."""
    end_s = time.monotonic() + timeout_s
    while not done():
        assert time.monotonic() < end_s, f"{what} did not happen within {timeout_s:g} s"
        time.sleep(0.005)


class Clock:
    """Time that only tests move [s]."""

    def __init__(self, now_s: float = 0.0) -> None:
        """Begin at a time."""
        self.now_s = now_s

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s
