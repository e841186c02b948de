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
"""What an agent listens to: what is about flows, and who comes and goes."""

MAX_WAITING: Final = 4096
"""How many samples wait for the agent's thread, and how many decisions; samples never push decisions out."""


class Inbox(Bus):
    """An agent's connection to the bus, with a place where samples wait.

    Attributes:
        delivered: Samples that `drain` handed out.
        dropped: What was pushed out because the inbox was full: what has a successor on its topic, else the
            oldest.
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
            max_waiting: How many samples may wait for `drain`, and how many decisions.

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
        """How many samples wait for `drain`."""
        return len(self._samples) + len(self._decisions)

    def drain(self) -> list[Sample]:
        """Return what came since the last call, in order of arrival. Never waits."""
        if not self._samples and not self._decisions:
            return []
        with self._lock:
            taken = sorted(self._decisions.clear() + self._samples.clear(), key=itemgetter(0))
        self.delivered += len(taken)
        return [sample for _, sample in taken]

    def _take(self, sample: Sample) -> None:
        """Keep a sample for `drain`; on the client's thread."""
        queue = self._decisions if BY_KIND[sample.kind].decision else self._samples
        with self._lock:
            self._arrived += 1
            self.dropped += queue.put((sample.topic, sample.sender), (self._arrived, sample))
        if self._wake is not None:
            self._wake()
