"""Events of algorithms and flows, for streams, the log and the telemetry bus."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from ccplane.base import clock
from ccplane.base.flows import FlowInfo

log = logging.getLogger("ccplane.agent")

KINDS: Final[dict[str, str]] = {
    "flow:created": "a flow chose an algorithm",
    "flow:closed": "a flow closed",
    "flow:failed": "an algorithm raised; the event has callback, error and line",
    "flows:fallback": "the number of flows that the fallback took from the agent, and the cause",
    "flows:reaped": "flow slots were scarce; the event has the number of silent flows that lost a slot",
    "param:set": "a parameter was set",
    "algorithm:loaded": "an algorithm was added",
    "algorithm:reloaded": "a new version runs; the event has both sources' SHA-256, and the time `took_us`",
    "algorithm:refused": "a new version was refused; the event has both sources' SHA-256",
    "algorithm:switched": "flows moved to another algorithm",
    "program:replaced": "a fold program was replaced, but not its algorithm",
    "canary:started": "a trial of a new version began",
    "canary:widened": "a trial ended, and all flows have the new version",
    "canary:taken_back": "a trial ended, and all flows have the old version; the event has the reason",
    "telemetry:lost": "the last sample of a kind and sender expired for a flow",
}
"""Kinds of events of the agent -> their meanings."""

Detail = dict[str, Any]
"""Details of an event: text, numbers, None, and lists and dicts of these."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event.

    Attributes:
        kind: One of `KINDS`, or a kind that an algorithm emitted for its flow.
        algorithm: Name of the algorithm; empty if the event concerns none.
        flow: The flow, if the event concerns one.
        detail: Details.
        t_us: Time, CLOCK_MONOTONIC [us].
        t_wall_us: Time, wall clock [us].
    """

    kind: str
    algorithm: str = ""
    flow: FlowInfo | None = None
    detail: Detail = field(default_factory=dict)
    t_us: int = field(default_factory=clock.now_us)
    t_wall_us: int = field(default_factory=lambda: time.time_ns() // 1000)


Listener = Callable[[Event], None]
"""Takes an event; must be fast, and must not raise."""


class Events:
    """Passes events to listeners, on the agent's thread."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Add a listener; return a function that removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def emit(self, kind: str, algorithm: str = "", flow: FlowInfo | None = None, /, **detail: Any) -> None:
        """Emit an event to all listeners."""
        if not self._listeners:
            return
        event = Event(kind, algorithm, flow, detail)
        for listener in tuple(self._listeners):
            listener(event)
