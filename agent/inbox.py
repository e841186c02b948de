"""The agent's ear: telemetry comes on the client's threads, waits here, and is taken on the agent's thread.

    inbox = Inbox(BusOptions.from_url(url), sender="host-a", wake=datapath.wake)
    inbox.start()
    ...
    for sample in inbox.drain():       # each turn of the loop, in order of arrival
        ...

Nothing here blocks the agent's thread: `drain` takes what is there, `publish` puts into a bounded queue.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection
from typing import Final

from broker.options import BusOptions
from broker.topics import BY_KIND
from telemetry.bus import Bus
from telemetry.codec import Format
from telemetry.schema import AgentStatus, Sample

FLOW_KINDS: Final = ("receiver_signal", "regime_decision", "int_summary", "agent_status")
"""What an agent listens to: what is about flows, and who comes and goes."""

MAX_WAITING: Final = 4096
"""How many samples wait for the agent's thread before the oldest is dropped; decisions are not counted."""


class Inbox(Bus):
    """An agent's connection to the bus, with a place where samples wait.

    Attributes:
        delivered: Samples that `drain` handed out.
        dropped: Samples that were pushed out because the inbox was full.
    """

    def __init__(
        self,
        options: BusOptions,
        *,
        sender: str,
        status: AgentStatus | None = None,
        wake: Callable[[], None] | None = None,
        kinds: Collection[str] = FLOW_KINDS,
        form: Format = "json",
        max_waiting: int = MAX_WAITING,
    ) -> None:
        """Prepare; nothing is connected before `start`.

        Args:
            options: Which broker.
            sender: Our name on the bus.
            status: What to tell as birth; None for an agent that says nothing more.
            wake: Called from another thread when something came, to end the agent's waiting; must not block.
            kinds: What to subscribe to.
            form: How to write what is published.
            max_waiting: How many samples may wait for `drain`.

        Raises:
            BusError: `bus.bad_name`, `bus.unknown_kind` or `bus.tls_files`.
        """
        self.delivered = 0
        self.dropped = 0
        self._wake = wake
        self._max_waiting = max_waiting
        self._lock = threading.Lock()
        self._waiting: deque[Sample] = deque()
        self._waiting_samples = 0
        super().__init__(
            options,
            sender=sender,
            status=status or AgentStatus(status="online", role="agent"),
            on_sample=self._take,
            kinds=kinds,
            form=form,
        )

    def drain(self) -> list[Sample]:
        """Return what came since the last call, in order of arrival. Never waits."""
        if not self._waiting:
            return []
        with self._lock:
            taken = list(self._waiting)
            self._waiting.clear()
            self._waiting_samples = 0
        self.delivered += len(taken)
        return taken

    def _take(self, sample: Sample) -> None:
        """Keep a sample for `drain`; on the client's thread."""
        decision = BY_KIND[sample.kind].decision
        with self._lock:
            self._waiting.append(sample)
            if not decision:
                self._waiting_samples += 1
                if self._waiting_samples > self._max_waiting:
                    self._drop_oldest()
        if self._wake is not None:
            self._wake()

    def _drop_oldest(self) -> None:
        for place, waiting in enumerate(self._waiting):
            if not BY_KIND[waiting.kind].decision:
                del self._waiting[place]
                self._waiting_samples -= 1
                self.dropped += 1
                return
