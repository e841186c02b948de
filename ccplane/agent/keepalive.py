"""Keepalives during long work on the agent's thread.

Without them, the datapath would see 200 ms without a heartbeat and move all flows to the fallback. A thread
with real-time priority that never waits also loses its priority, see `ccplane.agent.priority.LIMIT_US`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

T = TypeVar("T")

CALLBACKS_PER_KEEPALIVE: Final = 64
"""Callbacks of algorithms between two keepalives: at 3 ms per callback, the heartbeat is still in time."""

PAUSE_S: Final = 1e-6
"""Wait in each keepalive [s]; any wait is sufficient."""


class Keepalive:
    """Refreshes the heartbeat during long work.

    Attributes:
        also: Functions called with each keepalive.
    """

    def __init__(self, heartbeat: Callable[[], None]) -> None:
        self._heartbeat = heartbeat
        self.also: list[Callable[[], None]] = []

    def draw(self) -> None:
        """Refresh the heartbeat, and wait briefly."""
        self._heartbeat()
        for emit in self.also:
            emit()
        time.sleep(PAUSE_S)

    def between(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items of about one callback each; send a keepalive per `CALLBACKS_PER_KEEPALIVE` items."""
        for count, item in enumerate(items, start=1):
            yield item
            if count % CALLBACKS_PER_KEEPALIVE == 0:
                self.draw()
