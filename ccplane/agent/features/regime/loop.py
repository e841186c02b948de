"""Decisions come from the bus, an actuator does what they ask for, and what happened is told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from broker.options import BusOptions
from ccplane.agent.features.regime.actuator import Actuator, RegimeEvent
from ccplane.agent.inbox import Inbox
from telemetry.bus import mono_us
from telemetry.regime.follow import Follower
from telemetry.schema import AgentStatus

TURN_S: Final = 0.1
"""A decision is done at once; what ages, and what the kernel tells, is looked at so often [s]."""

LEAVE_S: Final = 1.0
"""How long to wait at the end until what was told has left [s]."""


class Loop:
    """Follows the regimes of paths, on one thread, until it is told to stop."""

    def __init__(
        self,
        options: BusOptions,
        actuator: Actuator,
        follower: Follower,
        tell: Callable[[RegimeEvent], None],
        *,
        sender: str,
        status: AgentStatus,
    ) -> None:
        """Prepare; nothing is connected before `run`.

        Args:
            options: Which broker.
            actuator: What does it.
            follower: What decisions come to.
            tell: Called with what happened, which also goes to the bus.
            sender: Our name on the bus.
            status: Our birth message.

        Raises:
            BusError: `bus.bad_name` or `bus.tls_files`.
        """
        self._actuator = actuator
        self._follower = follower
        self._tell = tell
        self._stopping = False
        self._woken = threading.Event()
        kinds = ("regime_decision", "agent_status")
        self._inbox = Inbox(options, sender=sender, status=status, wake=self._woken.set, kinds=kinds)

    def request_stop(self) -> None:
        """End `run` after its turn; may be called by a signal handler."""
        self._stopping = True

    def run(self, *, leave: bool, on_start: Callable[[], None]) -> None:
        """Follow until `request_stop`; then put back what was there before.

        Args:
            leave: Leave it as it is at the end instead.
            on_start: Called once all that holds without a decision is done.

        Raises:
            CcpError: What the actuator cannot do.
        """
        self._inbox.start()
        try:
            self.turn(mono_us())
            on_start()
            while not self._stopping:
                self.turn(mono_us())
                self._woken.wait(TURN_S)
                self._woken.clear()
        finally:
            try:
                self._told(self._actuator.close(leave=leave))
                self._inbox.flush(LEAVE_S)
            finally:
                self._inbox.stop()

    def turn(self, now_us: int) -> None:
        """Do what there is to be done now.

        Args:
            now_us: CLOCK_MONOTONIC [us].
        """
        for sample in self._inbox.drain():
            self._follower.take(sample)
        self._follower.set_connected(self._inbox.connected, now_us)
        self._told(self._actuator.apply(self._follower.regimes(now_us)))

    def _told(self, events: list[RegimeEvent]) -> None:
        for event in events:
            self._tell(event)
            self._inbox.publish(event.message(event.after or event.wanted or "-"))
