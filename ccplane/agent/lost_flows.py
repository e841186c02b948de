"""Logs and events of flows that the datapath takes from a running agent."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from ccplane.agent.events import Events

log = logging.getLogger("ccplane.agent")

CAUSES: Final = {
    "silent": "the agent's heartbeat was late",
    "unanswered": "reports were not answered in time (--report-timeout)",
}
"""Causes for which the datapath takes flows temporarily, see `FlowStats.fallback_cause`."""


class LostFlows:
    """Compares the datapath's counters with those of the last look."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._before: Mapping[str, int] = {}

    def begin(self, counters: Mapping[str, int]) -> None:
        """Ignore what happened before the agent took the flows over."""
        self._before = counters

    def look(self, counters: Mapping[str, int]) -> None:
        """Log and emit what happened since the last look."""
        before, self._before = self._before, counters

        def new(counter: str) -> int:
            return counters.get(counter, 0) - before.get(counter, 0)

        for cause, reason in CAUSES.items():
            if lost := new(f"fallback_entries_{cause}"):
                log.warning("%s: %d flows temporarily moved to the fallback", reason, lost)
                self._events.emit("flows:fallback", cause=cause, flows=lost)
        if lost := new("flows_reaped"):
            log.warning("flow slots are scarce: %d flows lost their slots after a long silence", lost)
            self._events.emit("flows:reaped", flows=lost)
