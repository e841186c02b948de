"""Dispatches telemetry to algorithms: joins samples to flows, delivers them in order, reports expiry.

Runs on the agent's thread. The inbox wakes the loop when a sample arrives, so a sample waits only for the end
of the current batch.

Decisions on regimes, which the broker retains, are also kept here for flows that start later. When the last
will of a sender arrives, all its samples count as expired immediately.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from broker.topics import BY_KIND
from ccplane.agent.events import Event
from ccplane.agent.hosts import Host, Live, Source
from ccplane.base.flows import FlowInfo
from telemetry.join import FlowIndex
from telemetry.schema import AgentStatus, Sample

if TYPE_CHECKING:
    from ccplane.agent.agent_loop import AgentLoop

MAX_STANDING: Final = 10_000
"""Maximum decisions kept for future flows; the oldest is dropped first."""

SPARE_EXPIRIES: Final = 1000
"""Expiries of closed flows are removed when they exceed this number and the number of live expiries."""


class Arriving(Protocol):
    """The source of samples, see `ccplane.agent.inbox`."""

    def drain(self) -> list[Sample]:
        """Return the samples since the last call, in order of arrival."""
        ...


@dataclass(slots=True)
class DispatchCounters:
    """Counts of telemetry samples.

    Attributes:
        samples: Samples received.
        delivered: Deliveries; a sample for three flows counts three times.
        unclaimed: Samples that match no flow.
        expired: Samples that had expired on arrival.
        lost: Notifications of algorithms that telemetry is lost.
    """

    samples: int = 0
    delivered: int = 0
    unclaimed: int = 0
    expired: int = 0
    lost: int = 0


class TelemetryDispatch:
    """Delivers the samples of an inbox to the algorithms of an agent loop.

    Attributes:
        counters: Counts of samples.
        newest: The last sample of each kind, expired or not.
        on_sample: Called with each sample and the flows that it matches; may be None.
    """

    def __init__(
        self,
        agent_loop: AgentLoop,
        inbox: Arriving,
        host_name: str,
        clock_us: Callable[[], int] = lambda: time.monotonic_ns() // 1000,
    ) -> None:
        self.counters = DispatchCounters()
        self.newest: dict[str, Sample] = {}
        self.on_sample: Callable[[Sample, list[int]], None] | None = None
        self._loop = agent_loop
        self._inbox = inbox
        self._clock_us = clock_us
        self._index = FlowIndex(host_name)
        self._received: dict[int, dict[Source, Sample]] = {}
        self._expiries: list[tuple[int, int, Source]] = []
        self._waited_for: set[tuple[int, Source]] = set()
        self._standing: dict[tuple[str, str], Sample] = {}
        self._new: list[int] = []
        for live in agent_loop.flows.values():
            self._add(live.flow.info)
        agent_loop.events.listen(self._event)
        agent_loop.each_turn.append(self.turn)

    def turn(self) -> None:
        """Deliver new samples, and report expired telemetry."""
        if self._new:
            self._report_new()
        samples = self._inbox.drain()
        if samples:
            self._take(samples)
        if self._expiries and self._expiries[0][0] <= self._clock_us():
            self._expire()

    def received(self, flow_id: int) -> list[Sample]:
        """Return the last unexpired sample of each kind and sender that a flow received."""
        return list(self._received.get(flow_id, {}).values())

    # Flows

    def _event(self, event: Event) -> None:
        if event.flow is None:
            return
        if event.kind == "flow:created":
            self._add(event.flow)
            if self._standing:
                self._new.append(event.flow.flow_id)
        elif event.kind == "flow:closed":
            self._index.remove(event.flow.flow_id)
            for source in self._received.pop(event.flow.flow_id, {}):
                self._waited_for.discard((event.flow.flow_id, source))

    def _add(self, info: FlowInfo) -> None:
        self._index.add(info.flow_id, info.src_addr, info.src_port, info.dst_addr, info.dst_port)

    def _report_new(self) -> None:
        """Deliver the decisions in force to new flows."""
        new, self._new = set(self._new), []
        now_us = self._clock_us()
        for place, sample in list(self._standing.items()):
            if sample.expired(now_us):
                del self._standing[place]
                continue
            self._deliver([(flow_id, sample) for flow_id in self._index.find(sample.body) if flow_id in new])

    # Samples

    def _take(self, samples: Sequence[Sample]) -> None:
        self.counters.samples += len(samples)
        now_us = self._clock_us()
        pairs: list[tuple[int, Sample]] = []
        for sample in samples:
            if isinstance(sample.body, AgentStatus):
                if sample.body.status == "offline":
                    self._deliver(pairs)
                    pairs = []
                    self._sender_gone(sample.sender)
                continue
            self.newest[sample.kind] = sample
            if sample.expired(now_us):
                self.counters.expired += 1
                continue
            if BY_KIND[sample.kind].retain:
                self._keep(sample, now_us)
            flow_ids = self._index.find(sample.body)
            if not flow_ids:
                self.counters.unclaimed += 1
            pairs += [(flow_id, sample) for flow_id in flow_ids]
            if self.on_sample is not None:
                self.on_sample(sample, flow_ids)
        self._deliver(pairs)

    def _deliver(self, pairs: Sequence[tuple[int, Sample]]) -> None:
        """Deliver samples in order: one by one to each flow, as one list to each vectorised algorithm."""
        gathered: dict[Host, list[tuple[Live, Sample]]] = {}
        for flow_id, sample in self._loop.keepalive.between(pairs):
            live = self._loop.flows.get(flow_id)
            if live is None or live.failed:
                continue
            self._remember(flow_id, sample)
            self.counters.delivered += 1
            gathered.setdefault(live.host, []).append((live, sample))
        for host, selected in gathered.items():
            host.deliver(selected, self._loop, self._loop.keepalive)

    def _keep(self, sample: Sample, now_us: int) -> None:
        """Keep a decision for future flows."""
        standing = self._standing
        standing.pop((sample.topic, sample.sender), None)  # the newest is the last
        if len(standing) >= MAX_STANDING:
            for place in [place for place, kept in standing.items() if kept.expired(now_us)]:
                del standing[place]
        if len(standing) >= MAX_STANDING:
            del standing[next(iter(standing))]
        standing[sample.topic, sample.sender] = sample

    def _remember(self, flow_id: int, sample: Sample) -> None:
        source = (sample.kind, sample.sender)
        self._received.setdefault(flow_id, {})[source] = sample
        if sample.expires_us is not None and (flow_id, source) not in self._waited_for:
            self._wait_for(sample.expires_us, flow_id, source)

    def _wait_for(self, expires_us: int, flow_id: int, source: Source) -> None:
        """Schedule the check whether a flow's telemetry from a source expired; one entry per source."""
        self._waited_for.add((flow_id, source))
        if len(self._expiries) > 2 * len(self._waited_for) + SPARE_EXPIRIES:
            self._expiries = [entry for entry in self._expiries if entry[1:] in self._waited_for]
            heapq.heapify(self._expiries)
        heapq.heappush(self._expiries, (expires_us, flow_id, source))

    # Loss

    def _expire(self) -> None:
        now_us = self._clock_us()
        lost: dict[tuple[int, Source], None] = {}
        while self._expiries and self._expiries[0][0] <= now_us:
            _, flow_id, source = heapq.heappop(self._expiries)
            self._waited_for.discard((flow_id, source))
            last = self._received.get(flow_id, {}).get(source)
            if last is None or last.expires_us is None:
                continue
            if last.expired(now_us):
                lost[flow_id, source] = None
            else:
                self._wait_for(last.expires_us, flow_id, source)
        self._lose(list(lost))

    def _sender_gone(self, sender: str) -> None:
        for place in [place for place in self._standing if place[1] == sender]:
            del self._standing[place]
        self._lose(
            [
                (flow_id, source)
                for flow_id, sources in self._received.items()
                for source in sources
                if source[1] == sender
            ]
        )

    def _lose(self, lost: Sequence[tuple[int, Source]]) -> None:
        gathered: dict[tuple[Host, Source], list[Live]] = {}
        for flow_id, source in self._loop.keepalive.between(lost):
            self._received.get(flow_id, {}).pop(source, None)
            live = self._loop.flows.get(flow_id)
            if live is None or live.failed:
                continue
            self.counters.lost += 1
            self._loop.events.emit(
                "telemetry:lost", live.host.name, live.flow.info, telemetry=source[0], sender=source[1]
            )
            gathered.setdefault((live.host, source), []).append(live)
        for (host, source), lives in gathered.items():
            host.lose(lives, source, self._loop, self._loop.keepalive)
