"""Long work on the agent's thread, with a breath now and then.

While the thread is at work, nobody else tells the datapath that the agent lives: after 200 ms of silence all
flows would go to the fallback law. And a thread with real-time priority that never waits loses it, see
`ccplane.agent.priority.LIMIT_US`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

T = TypeVar("T")

CALLBACKS_A_BREATH: Final = 64
"""Callbacks of algorithms after which a breath is due: one that takes 3 ms is still no silence."""

PAUSE_S: Final = 1e-6
"""How long a breath waits [s]: any wait will do."""


class Breath:
    """Tells the datapath that the agent lives, in the middle of long work.

    Attributes:
        also: Called with each breath, too.
    """

    def __init__(self, heartbeat: Callable[[], None]) -> None:
        """Take what tells the datapath."""
        self._heartbeat = heartbeat
        self.also: list[Callable[[], None]] = []

    def draw(self) -> None:
        """Refresh the heartbeat, and wait for a moment."""
        self._heartbeat()
        for tell in self.also:
            tell()
        time.sleep(PAUSE_S)

    def between(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items, each of which costs about one callback, with a breath now and then."""
        for count, item in enumerate(items, start=1):
            yield item
            if count % CALLBACKS_A_BREATH == 0:
                self.draw()
