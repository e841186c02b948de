"""The loop of `ccp regime apply`: receives decisions, applies them with an actuator, publishes events."""

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
"""Interval of checks for expiry and kernel events [s]; decisions are applied immediately."""

LEAVE_S: Final = 1.0
"""Timeout at the end for sending the last messages [s]."""


class Loop:
    """Applies the regimes of paths, on one thread, until `request_stop`."""

    def __init__(
        self,
        options: BusOptions,
        actuator: Actuator,
        follower: Follower,
        emit: Callable[[RegimeEvent], None],
        *,
        sender: str,
        status: AgentStatus,
    ) -> None:
        """Prepare; `run` connects.

        Args:
            options: The broker.
            actuator: Applies regimes.
            follower: Derives regimes from decisions.
            emit: Called with each event, which is also published on the bus.
            sender: Name on the bus.
            status: Birth message.

        Raises:
            BusError: `bus.bad_name` or `bus.tls_files`.
        """
        self._actuator = actuator
        self._follower = follower
        self._report = emit
        self._stopping = False
        self._woken = threading.Event()
        kinds = ("regime_decision", "agent_status")
        self._inbox = Inbox(options, sender=sender, status=status, wake=self._woken.set, kinds=kinds)

    def request_stop(self) -> None:
        """Make `run` stop after its current iteration; safe in a signal handler."""
        self._stopping = True

    def run(self, *, leave: bool, on_start: Callable[[], None]) -> None:
        """Apply regimes until `request_stop`; then restore the state before the start.

        Raises:
            CcpError: An error of the actuator.
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
                self._reported(self._actuator.close(leave=leave))
                self._inbox.flush(LEAVE_S)
            finally:
                self._inbox.stop()

    def turn(self, now_us: int) -> None:
        """Run one iteration at a time of CLOCK_MONOTONIC [us]."""
        for sample in self._inbox.drain():
            self._follower.take(sample)
        self._follower.set_connected(self._inbox.connected, now_us)
        self._reported(self._actuator.apply(self._follower.regimes(now_us)))

    def _reported(self, events: list[RegimeEvent]) -> None:
        for event in events:
            self._report(event)
            self._inbox.publish(event.message(event.after or event.wanted or "-"))
