"""Queue from the telemetry bus to the agent: the client's threads fill it, the agent's thread drains it.

    inbox = Inbox(BusOptions.from_url(url), sender="host-a", wake=datapath.wake)
    inbox.start()
    ...
    while sample := inbox.take():      # in each iteration of the loop, as long as there is time
        ...

Nothing here blocks the agent's thread: `take` returns what has arrived, `publish` fills a bounded queue.

`take` alternates between the senders, and a full queue drops messages of the sender with the most messages in
the queue, so a flood from one sender neither delays nor displaces the messages of another.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection
from operator import itemgetter
from typing import Final

from broker.options import BusOptions
from broker.queue import FairQueue
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
        delivered: Samples returned by `take` and `drain`.
        dropped: Samples dropped because the queue was full. The sender with the most loses one: first those
            with a newer sample on their topic, else the oldest.
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
        self._samples: FairQueue[tuple[int, Sample]] = FairQueue(max_waiting)
        self._decisions: FairQueue[tuple[int, Sample]] = FairQueue(max_waiting)
        self._next: OrderedDict[str, None] = OrderedDict()
        super().__init__(
            options,
            sender=sender,
            status=status or AgentStatus(status="online", role="agent"),
            on_sample=self._queue,
            kinds=kinds,
            form=form,
        )

    @property
    def waiting(self) -> int:
        """Number of queued samples and decisions."""
        return len(self._samples) + len(self._decisions)

    def take(self) -> Sample | None:
        """Return the first sample of the next sender; None if there is none. Never waits."""
        if not self._next:
            return None
        with self._lock:
            while self._next:
                sender, _ = self._next.popitem(last=False)
                waiting = [
                    (first[0], queue)
                    for queue in (self._decisions, self._samples)
                    if (first := queue.first(sender)) is not None
                ]
                if not waiting:
                    continue  # taken or dropped
                self._next[sender] = None
                _, sample = min(waiting, key=itemgetter(0))[1].pop(sender)
                self.delivered += 1
                return sample
        return None

    def drain(self) -> list[Sample]:
        """Return all samples since the last call, in order of arrival. Never waits."""
        if not self._next:
            return []
        with self._lock:
            taken = sorted(self._decisions.clear() + self._samples.clear(), key=itemgetter(0))
            self._next.clear()
        self.delivered += len(taken)
        return [sample for _, sample in taken]

    def _queue(self, sample: Sample) -> None:
        """Queue a sample; runs on the client's thread."""
        queue = self._decisions if BY_KIND[sample.kind].decision else self._samples
        # Of a sender's births and last wills, only the last of each counts.
        status = sample.body.status if isinstance(sample.body, AgentStatus) else None
        with self._lock:
            self._arrived += 1
            self.dropped += queue.put(
                sample.sender, (sample.topic, status), (self._arrived, sample), only_last=status is not None
            )
            self._next[sample.sender] = None
        if self._wake is not None:
            self._wake()
