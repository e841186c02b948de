"""Sends data to the browser, with flow control."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from ccplane.agent.panel.samples import History, Times, Values, thinned, together

Send = Callable[[dict[str, Any], list[bytes]], None]
"""Sends a message with its binary parts to every page that shows the panel."""

AHEAD: Final = 20
"""Maximum unconfirmed messages in transit."""

SLOW_S: Final = 1.0
"""Interval of messages while no message is confirmed: no page is open, or kernel or connection are busy."""

MAX_ROWS: Final = 20
"""Maximum rows of one message; more rows are thinned out."""

MAX_HISTORY_ROWS: Final = 600
"""Maximum rows of the past sent to a new page."""


class Feed:
    """Sends rows, fewer and thinned if the browser does not keep up. Thread-safe.

    Attributes:
        messages: Number of messages sent.
        raw: Size of their binary parts [bytes].
    """

    def __init__(self, send: Send) -> None:
        self.messages = 0
        self.raw = 0
        self._raw = send
        self._lock = threading.Lock()
        self._history = History()
        self._waiting: list[tuple[float, Values]] = []
        self._number = 0
        self._confirmed = 0
        self._sent_s = 0.0

    def emit(self, content: dict[str, Any]) -> None:
        """Send a message without rows."""
        with self._lock:
            self._send(content, [])

    def add(self, time_s: float, values: Values) -> None:
        """Send the rows of one time on the panel's clock [s], now or together with later rows."""
        with self._lock:
            self._history.add(time_s, values)
            self._waiting.append((time_s, values))
            now_s = time.monotonic()
            if self._number - self._confirmed >= AHEAD and now_s < self._sent_s + SLOW_S:
                return
            self._sent_s = now_s
            waiting, self._waiting = self._waiting, []
            self._rows("rows", *thinned(*together(waiting), MAX_ROWS))

    def confirm(self, number: int) -> None:
        """Record that a page has received a message."""
        with self._lock:
            self._confirmed = max(self._confirmed, number)

    def replay(self) -> None:
        """Send the past to all pages, because a new page was opened."""
        with self._lock:
            self._waiting.clear()
            self._confirmed = self._number
            if (past := self._history.all()) is not None:
                self._rows("past", *thinned(*past, MAX_HISTORY_ROWS))

    def clear(self, *, column: int | None = None) -> None:
        """Clear the past values of a column, or, without a column, of the report field."""
        with self._lock:
            if column is not None:
                self._history.clear_column(column)
            else:
                self._history.clear_reported()

    def _rows(self, kind: str, times: Times, values: Values) -> None:
        self._number += 1
        shape = list(values.shape)
        self._send(
            {"kind": kind, "number": self._number, "shape": shape}, [times.tobytes(), values.tobytes()]
        )

    def _send(self, content: dict[str, Any], buffers: list[bytes]) -> None:
        self.messages += 1
        self.raw += sum(map(len, buffers))
        self._raw(content, buffers)
