"""How decisions reach those who act on them: the bus, and whatever else keeps to the same two calls."""

from __future__ import annotations

from typing import Protocol

from telemetry.bus import Bus
from telemetry.schema import RegimeDecision


class Channel(Protocol):
    """Carries decisions of one receiver."""

    def publish(self, decision: RegimeDecision, ttl_ms: int) -> None:
        """Pass a decision on; called after every window, whether or not it changed. Must not block or raise.

        Args:
            decision: About one peer.
            ttl_ms: How long it is true [ms].
        """

    def close(self) -> None:
        """Give up the channel."""


class BusChannel:
    """The telemetry bus; what a broker keeps is the last decision about each peer."""

    def __init__(self, bus: Bus) -> None:
        """Take a bus that is started; it ends with the channel."""
        self._bus = bus

    def publish(self, decision: RegimeDecision, ttl_ms: int) -> None:
        """Queue it."""
        self._bus.publish(decision, ttl_ms=ttl_ms)

    def close(self) -> None:
        """Stop the bus."""
        self._bus.stop()
