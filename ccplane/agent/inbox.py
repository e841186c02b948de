"""Queue from the telemetry bus to the agent: the client's threads fill it, the agent's thread drains it.

    inbox = Inbox(BusOptions.from_url(url), sender="host-a", wake=datapath.wake)
    inbox.start()
    ...
    for sample in inbox.drain():       # in each iteration of the loop, in order of arrival
        ...

Nothing here blocks the agent's thread: `drain` returns what has arrived, `publish` fills a bounded queue.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from operator import itemgetter
from typing import Final

from broker.options import BusOptions
from broker.queue import TopicQueue
from broker.topics import BY_KIND
from telemetry.bus import Bus
from telemetry.codec import Format
from telemetry.schema import AgentStatus, Sample

FLOW_KINDS: Final = tuple(kind for kind, topic in BY_KIND.items() if topic.for_agents)
"""Kinds that an agent subscribes to: telemetry about flows, and the status of senders."""

MAX_WAITING: Final = 4096
"""Maximum samples queued, and maximum decisions queued; samples never displace decisions."""


class Inbox(Bus):
    """An agent's connection to the bus, with a queue of samples.

    Attributes:
        delivered: Samples returned by `drain`.
        dropped: Samples dropped because the queue was full: first those with a newer sample on their topic,
            else the oldest.
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
        """Prepare; `start` connects.

        Args:
            options: The broker.
            sender: The agent's name on the bus.
            status: Birth message; None for a minimal one.
            wake: Called from another thread when a sample arrives, to wake the agent; must not block.
            kinds: Kinds to subscribe to.
            form: Format of published messages.
            max_waiting: Maximum samples queued, and maximum decisions queued.

        Raises:
            BusError: `bus.bad_name`, `bus.unknown_kind` or `bus.tls_files`.
        """
        self.delivered = 0
        self.dropped = 0
        self._wake = wake
        self._lock = threading.Lock()
        self._arrived = 0
        self._samples: TopicQueue[tuple[int, Sample]] = TopicQueue(max_waiting)
        self._decisions: TopicQueue[tuple[int, Sample]] = TopicQueue(max_waiting)
        super().__init__(
            options,
            sender=sender,
            status=status or AgentStatus(status="online", role="agent"),
            on_sample=self._take,
            kinds=kinds,
            form=form,
        )

    @property
    def waiting(self) -> int:
        """Number of queued samples and decisions."""
        return len(self._samples) + len(self._decisions)

    def drain(self) -> list[Sample]:
        """Return the samples since the last call, in order of arrival. Never waits."""
        if not self._samples and not self._decisions:
            return []
        with self._lock:
            taken = sorted(self._decisions.clear() + self._samples.clear(), key=itemgetter(0))
        self.delivered += len(taken)
        return [sample for _, sample in taken]

    def _take(self, sample: Sample) -> None:
        """Queue a sample; runs on the client's thread."""
        queue = self._decisions if BY_KIND[sample.kind].decision else self._samples
        with self._lock:
            self._arrived += 1
            self.dropped += queue.put((sample.topic, sample.sender), (self._arrived, sample))
        if self._wake is not None:
            self._wake()
