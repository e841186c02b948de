"""Keepalives during long work on the agent's thread.

Without keepalives, the datapath would see 200 ms without a heartbeat and move all flows to the fallback. A
thread with real-time priority that never waits also loses its priority, see
`ccplane.agent.priority.LIMIT_US`.

A heartbeat means that reports are answered. So work that keeps the loop from handling reports for longer than
the report timeout gets no more keepalives. Then the flows use the fallback until the loop handles
reports again, and a service manager's watchdog runs out if that takes too long.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

T = TypeVar("T")

log = logging.getLogger("ccplane.agent")

CALLBACKS_PER_KEEPALIVE: Final = 64
"""Callbacks of algorithms between two keepalives: at 3 ms per callback, the heartbeat is still in time."""

UNANSWERED_S: Final = 5.0
"""Default time without handling reports after which keepalives are withheld [s]."""

PAUSE_S: Final = 1e-6
"""Sleep in each keepalive [s]; a sleep of any length is enough to keep the real-time priority."""


class Keepalive:
    """Refreshes the heartbeat during long work, as long as reports are handled in between.

    Attributes:
        also: Functions called with each keepalive.
        unanswered_s: Time without handling reports after which keepalives are withheld [s].
    """

    def __init__(self, heartbeat: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._heartbeat = heartbeat
        self._clock = clock
        self._answered_s = clock()
        self._withheld = False
        self.unanswered_s = UNANSWERED_S
        self.also: list[Callable[[], None]] = []

    def answered(self) -> None:
        """Record that reports were handled, or a flow was taken over."""
        self._answered_s = self._clock()
        self._withheld = False

    def refresh(self) -> None:
        """Refresh the heartbeat, and wait briefly."""
        if self._clock() - self._answered_s < self.unanswered_s:
            self._heartbeat()
            for emit in self.also:
                emit()
        elif not self._withheld:
            self._withheld = True
            log.warning(
                "no reports were handled for %g s, because of other work (a reload, a parameter, a switch): "
                "flows use the fallback until it is done",
                self.unanswered_s,
            )
        time.sleep(PAUSE_S)

    def between(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items of about one callback each; send a keepalive per `CALLBACKS_PER_KEEPALIVE` items."""
        for count, item in enumerate(items, start=1):
            yield item
            if count % CALLBACKS_PER_KEEPALIVE == 0:
                self.refresh()
