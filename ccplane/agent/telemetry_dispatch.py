"""Dispatches telemetry to algorithms: joins samples to flows, delivers them in order, reports expiry.

Runs on the agent's thread. The inbox wakes the loop when a sample arrives, so a sample waits only for the end
of the current batch.

All work is divided into steps: one message, one delivery to a flow, or one notification of a loss. Each turn
of the loop does a bounded number of steps, then reports have precedence, and the next turn continues.
Messages that have not been taken wait in the inbox, which is bounded.

Decisions on regimes, which the broker retains, are also kept for flows that start later. When the last
will of a sender arrives, all its samples count as expired immediately.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from broker.topics import BY_KIND
from ccplane.agent.events import Event
from ccplane.agent.hosts import Host, Live, Source
from ccplane.agent.keepalive import CALLBACKS_PER_KEEPALIVE
from ccplane.agent.standing import Standing
from ccplane.base import clock
from ccplane.base.flows import FlowInfo
from telemetry.join import FlowIndex
from telemetry.schema import AgentStatus, Sample

if TYPE_CHECKING:
    from ccplane.agent.agent_loop import AgentLoop

STEPS: Final = CALLBACKS_PER_KEEPALIVE
"""Steps done together: a vectorised algorithm gets their samples as one list."""

MAX_STEPS_PER_TURN: Final = 16 * STEPS
"""Steps of arriving telemetry per turn of the loop, and of expiring telemetry."""

SLICE_US: Final = 10_000
"""Time per turn of the loop after which no further steps begin [us]."""

MAX_SOURCES: Final = 8
"""Maximum sources (kind and sender) whose last sample is kept for a flow; the oldest counts as lost."""

SPARE_EXPIRIES: Final = 1000
"""Expiries of closed flows are removed when they exceed this number and the number of live expiries."""

Step = tuple[Live, Sample] | tuple[Live, Source] | None
"""A sample for a flow, a source that a flow has lost, or nothing to deliver."""


class Arriving(Protocol):
    """The source of samples, see `ccplane.agent.inbox`."""

    def take(self) -> Sample | None:
        """Return the next sample; None if there is none."""
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
        clock_us: Callable[[], int] = clock.now_us,
    ) -> None:
        self.counters = DispatchCounters()
        self.newest: dict[str, Sample] = {}
        self.on_sample: Callable[[Sample, list[int]], None] | None = None
        self._loop = agent_loop
        self._inbox = inbox
        self._clock_us = clock_us
        self._index = FlowIndex(host_name)
        self._received: dict[int, dict[Source, Sample]] = {}
        self._reached: dict[str, dict[tuple[int, Source], None]] = {}
        self._expiries: list[tuple[int, tuple[int, Source]]] = []
        self._due: dict[tuple[int, Source], int] = {}  # the other entries of the heap are obsolete
        self._standing = Standing(host_name)
        self._new: deque[FlowInfo] = deque()
        self._arriving = self._arrivals()
        for live in agent_loop.flows.values():
            self._add(live.flow.info)
        agent_loop.events.listen(self._event)
        agent_loop.each_turn.append(self.turn)

    def turn(self) -> None:
        """Deliver new samples and report expired telemetry, both within the bounds of a turn."""
        until_us = self._clock_us() + SLICE_US
        done = self._work(self._arriving, until_us)
        if done:
            self._arriving = self._arrivals()
        if self._expiries and self._expiries[0][0] <= self._clock_us():
            done = self._work(self._expired(), until_us) and done
        if not done:
            self._loop.datapath.wake()  # the next turn continues

    def received(self, flow_id: int) -> list[Sample]:
        """Return the last unexpired sample of each kind and sender that a flow received."""
        return list(self._received.get(flow_id, {}).values())

    # Steps

    def _work(self, steps: Iterator[Step], until_us: int) -> bool:
        """Do steps; return whether all are done."""
        for begun in range(0, MAX_STEPS_PER_TURN, STEPS):
            if begun:
                self._loop.keepalive.refresh()
            done = list(islice(steps, STEPS))
            self._deliver(done)
            if len(done) < STEPS:
                return True
            if self._clock_us() >= until_us:
                break
        return False

    def _deliver(self, steps: Sequence[Step]) -> None:
        """Deliver in order: samples and losses one by one to each flow, as lists to vectorised algorithms."""
        samples: list[tuple[Live, Sample]] = []
        lost: list[tuple[Live, Source]] = []
        for step in steps:
            if step is None:
                continue
            live, what = step
            if live.failed or self._loop.flows.get(live.flow.info.flow_id) is not live:
                continue
            if isinstance(what, Sample):
                if lost:
                    self._report_lost(lost)
                    lost = []
                samples.append((live, what))
            else:
                if samples:
                    self._report_samples(samples)
                    samples = []
                lost.append((live, what))
        self._report_samples(samples)
        self._report_lost(lost)

    def _report_samples(self, pairs: Sequence[tuple[Live, Sample]]) -> None:
        self.counters.delivered += len(pairs)
        gathered: dict[Host, list[tuple[Live, Sample]]] = {}
        for live, sample in pairs:
            gathered.setdefault(live.host, []).append((live, sample))
        for host, selected in gathered.items():
            host.deliver(selected, self._loop, self._loop.keepalive)

    def _report_lost(self, pairs: Sequence[tuple[Live, Source]]) -> None:
        self.counters.lost += len(pairs)
        gathered: dict[tuple[Host, Source], list[Live]] = {}
        for live, source in pairs:
            self._loop.events.emit(
                "telemetry:lost", live.host.name, live.flow.info, telemetry=source[0], sender=source[1]
            )
            gathered.setdefault((live.host, source), []).append(live)
        for (host, source), lives in gathered.items():
            host.lose(lives, source, self._loop, self._loop.keepalive)

    # Flows

    def _event(self, event: Event) -> None:
        if event.flow is None:
            return
        flow_id = event.flow.flow_id
        if event.kind == "flow:created":
            self._add(event.flow)
            if len(self._standing):
                self._new.append(event.flow)
        elif event.kind == "flow:closed":
            self._index.remove(flow_id)
            for source in list(self._received.get(flow_id, ())):
                self._forget(flow_id, source)

    def _add(self, info: FlowInfo) -> None:
        self._index.add(info.flow_id, info.src_addr, info.src_port, info.dst_addr, info.dst_port)

    # Samples

    def _arrivals(self) -> Iterator[Step]:
        """Yield the steps of new flows and of arrived samples."""
        while True:
            if self._new:
                info = self._new.popleft()
                for decision in self._standing.of(info, self._clock_us()):
                    yield from self._sample_for(info.flow_id, (decision.kind, decision.sender), decision)
                yield None
                continue
            sample = self._inbox.take()
            if sample is None:
                return
            yield from self._steps_of(sample)

    def _steps_of(self, sample: Sample) -> Iterator[Step]:
        self.counters.samples += 1
        yield None
        if isinstance(sample.body, AgentStatus):
            if sample.body.status == "offline":
                yield from self._sender_gone(sample.sender)
            return
        self.newest[sample.kind] = sample
        if sample.expired(self._clock_us()):
            self.counters.expired += 1
            return
        if BY_KIND[sample.kind].retain:
            self._standing.keep(sample)
        flow_ids = self._index.find(sample.body)
        if not flow_ids:
            self.counters.unclaimed += 1
        if self.on_sample is not None:
            self.on_sample(sample, flow_ids)
        source = (sample.kind, sample.sender)
        for flow_id in flow_ids:
            yield from self._sample_for(flow_id, source, sample)

    def _sample_for(self, flow_id: int, source: Source, sample: Sample) -> Iterator[Step]:
        live = self._loop.flows.get(flow_id)
        if live is None or live.failed:
            yield None
            return
        place = (flow_id, source)
        received = self._received.setdefault(flow_id, {})
        evicted: Source | None = None
        if received.pop(source, None) is None:
            self._reached.setdefault(sample.sender, {})[place] = None
            if len(received) >= MAX_SOURCES:
                evicted = next(iter(received))
        received[source] = sample  # the most recent is the last
        if sample.expires_us is not None and place not in self._due:
            self._wait_for(sample.expires_us, place)
        if evicted is not None:
            yield from self._lost(flow_id, evicted)
        yield live, sample

    def _wait_for(self, expires_us: int, place: tuple[int, Source]) -> None:
        """Schedule the check whether a flow's telemetry from a source expired; one entry per source."""
        self._due[place] = expires_us
        if len(self._expiries) > 2 * len(self._due) + SPARE_EXPIRIES:
            self._expiries = list({entry for entry in self._expiries if self._is_due(entry)})
            heapq.heapify(self._expiries)
        heapq.heappush(self._expiries, (expires_us, place))

    def _is_due(self, entry: tuple[int, tuple[int, Source]]) -> bool:
        return self._due.get(entry[1]) == entry[0]

    # Loss

    def _expired(self) -> Iterator[Step]:
        now_us = self._clock_us()
        while self._expiries and self._expiries[0][0] <= now_us:
            entry = heapq.heappop(self._expiries)
            if not self._is_due(entry):
                yield None
                continue
            place = entry[1]
            del self._due[place]
            flow_id, source = place
            last = self._received[flow_id][source]
            if last.expires_us is None:
                yield None
            elif last.expired(now_us):
                yield from self._lost(flow_id, source)
            else:
                self._wait_for(last.expires_us, place)
                yield None

    def _sender_gone(self, sender: str) -> Iterator[Step]:
        self._standing.forget(sender)
        for flow_id, source in list(self._reached.get(sender, ())):
            yield from self._lost(flow_id, source)

    def _lost(self, flow_id: int, source: Source) -> Iterator[Step]:
        self._forget(flow_id, source)
        live = self._loop.flows.get(flow_id)
        yield None if live is None else (live, source)

    def _forget(self, flow_id: int, source: Source) -> None:
        """Forget the last sample of a source for a flow."""
        received = self._received.get(flow_id, {})
        if received.pop(source, None) is None:
            return
        if not received:
            del self._received[flow_id]
        reached = self._reached[source[1]]
        del reached[flow_id, source]
        if not reached:
            del self._reached[source[1]]
        self._due.pop((flow_id, source), None)
