"""What happens to algorithms and flows, told to whoever listens: streams, the log, the telemetry bus."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ccplane.base.flows import FlowInfo

log = logging.getLogger("ccplane.agent")

Detail = dict[str, Any]
"""What else there is to say: text, numbers, None, and lists and dicts of these."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened.

    Attributes:
        kind: What: `flow:created`, `flow:closed`, `flow:failed`, `flows:law`, `flows:reaped`, `param:set`,
            `algorithm:reloaded`, `algorithm:refused`, `algorithm:loaded`, `algorithm:switched`,
            `program:replaced`, `telemetry:lost`, `canary:started`, `canary:widened`,
            `canary:taken_back`; and what algorithms tell of their flows.
        algorithm: Name of the algorithm; empty if it is about none.
        flow: The flow, if it is about one.
        detail: What else there is to say.
        t_us: When, CLOCK_MONOTONIC [us].
        t_wall_us: When, wall clock [us].
    """

    kind: str
    algorithm: str = ""
    flow: FlowInfo | None = None
    detail: Detail = field(default_factory=dict)
    t_us: int = field(default_factory=lambda: time.monotonic_ns() // 1000)
    t_wall_us: int = field(default_factory=lambda: time.time_ns() // 1000)


Listener = Callable[[Event], None]
"""Must be quick, and must not raise."""


class Events:
    """Hands events on, on the agent's thread."""

    def __init__(self) -> None:
        """Start without listeners."""
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Hand events to a listener from now on; what is returned ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def tell(self, kind: str, algorithm: str = "", flow: FlowInfo | None = None, /, **detail: Any) -> None:
        """Tell all listeners of an event."""
        if not self._listeners:
            return
        event = Event(kind, algorithm, flow, detail)
        for listener in tuple(self._listeners):
            listener(event)
