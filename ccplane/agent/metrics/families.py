"""The metrics of an agent: counters of the datapath and the loop, and distributions over flows by algorithm.

A scrape runs on a separate thread. The scrape reads the agent's counters without locks, copies the list of
flows in one step, and reads flows' totals from the memory shared with the kernel.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from inspect import cleandoc
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, cast

from ccplane.agent.events import KINDS, Event
from ccplane.agent.exits import CAUSES
from ccplane.agent.flowtable import between
from ccplane.base import clock
from ccplane.base.extras import extra_part
from ccplane.base.flows import COUNTERS, FlowStats

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from ccplane.agent.agent_loop import AgentLoop
    from ccplane.agent.audit import AuditLog
    from ccplane.agent.inbox import Inbox
    from ccplane.agent.telemetry_dispatch import TelemetryDispatch

MAX_ALGORITHMS: Final = 10
"""Maximum algorithms with separate distributions; all others share `other`."""

OTHER: Final = "other"

THROUGHPUT_BOUNDS: Final = (1e4, 1e5, 1e6, 1e7, 1e8, 1e9)
RTT_BOUNDS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
LOSS_BOUNDS: Final = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)

DATAPATH_TOTALS: Final = {"flows_created": "Flows created in the datapath.", **COUNTERS}

FALLBACK_CAUSES: Final = tuple(cause for cause in CAUSES if cause != "new")
"""Causes of a flow's move from an agent to the fallback, see `FlowStats.fallback_cause`."""


@cache
def _attributes(docstring: str) -> Mapping[str, str]:
    found = re.findall(r"^    (\w+): (.+?\.)$", cleandoc(docstring), re.MULTILINE | re.DOTALL)
    return {name: " ".join(text.split()) for name, text in found}


def meanings(counters: object) -> Mapping[str, str]:
    """Return the meaning of each counter, from the docstring of its class."""
    return _attributes(type(counters).__doc__ or "")


@dataclass(slots=True)
class _Distribution:
    """Counts of values by upper bound."""

    bounds: Sequence[float]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        names = [*(f"{bound:g}" for bound in self.bounds), "+Inf"]
        return list(zip(names, accumulate(self.counts), strict=True))


@dataclass(slots=True)
class _Algorithm:
    flows: int = 0
    throughput_bytes_per_s: float = 0.0
    throughput: _Distribution = field(default_factory=lambda: _Distribution(THROUGHPUT_BOUNDS))
    rtt: _Distribution = field(default_factory=lambda: _Distribution(RTT_BOUNDS))
    loss: _Distribution = field(default_factory=lambda: _Distribution(LOSS_BOUNDS))


class AgentCollector:
    """Collects the metrics of one agent at each scrape; a collector of prometheus-client."""

    def __init__(
        self,
        agent_loop: AgentLoop,
        dispatch: TelemetryDispatch | None,
        inbox: Inbox | None,
        *,
        audit_log: AuditLog | None = None,
        clock_us: Callable[[], int] = clock.now_us,
    ) -> None:
        """Prepare.

        Raises:
            LoadError: `load.no_extra`.
        """
        with extra_part():
            import prometheus_client.core as core
        self._core = core
        self._agent_loop = agent_loop
        self._dispatch = dispatch
        self._inbox = inbox
        self._audit_log = audit_log
        self._clock_us = clock_us
        self._events = dict.fromkeys(KINDS, 0)
        agent_loop.events.listen(self._count)
        self._before: dict[int, FlowStats] = {}

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        counters = self._agent_loop.datapath.counters()
        yield from self._datapath(counters)
        yield from self._loop(counters)
        yield from self._flows()
        if self._dispatch is not None and self._inbox is not None:
            yield from self._telemetry(self._dispatch, self._inbox)

    def _count(self, event: Event) -> None:
        if event.kind in self._events:  # an algorithm's own kinds are its own
            self._events[event.kind] += 1

    def _total(self, name: str, about: str, value: float) -> Metric:
        return self._core.CounterMetricFamily(f"ccplane_{name}", about, value=value)

    def _gauge(self, name: str, about: str, value: float) -> Metric:
        return self._core.GaugeMetricFamily(f"ccplane_{name}", about, value=value)

    def _by(self, kind: str, name: str, about: str, label: str, values: Mapping[str, float]) -> Metric:
        of = {"counter": self._core.CounterMetricFamily, "gauge": self._core.GaugeMetricFamily}
        made: Any = of[kind](f"ccplane_{name}", about, labels=[label])
        for value, number in values.items():
            made.add_metric([value], number)
        return cast("Metric", made)

    def _datapath(self, counters: Mapping[str, int]) -> Iterator[Metric]:
        for name, about in DATAPATH_TOTALS.items():
            yield self._total(name, about, counters.get(name, 0))
        used, maximum = counters.get("flows_active", 0), counters.get("max_flows", 0)
        yield self._by(
            "gauge", "slots", "Flow slots, by state.", "state", {"used": used, "free": maximum - used}
        )
        without = {why: counters.get(f"without_slot_{why}", 0) for why in ("limit", "quota")}
        about = "Sockets that run the fallback because they got no flow slot, by cause."
        yield self._by("gauge", "sockets_without_slot", about, "cause", without)
        yield self._by(
            "counter",
            "fallback_entries",
            "Flows that moved from an agent to the fallback, by cause.",
            "cause",
            {cause: counters.get(f"fallback_entries_{cause}", 0) for cause in FALLBACK_CAUSES},
        )

    def _loop(self, counters: Mapping[str, int]) -> Iterator[Metric]:
        about = meanings(self._agent_loop.counters)
        for name, value in asdict(self._agent_loop.counters).items():
            if name != "flows_created":  # the datapath's counter also includes earlier agents
                yield self._total(f"agent_{name}", about[name], value)
        left = "Network namespaces and listeners that keep replaced programs since the last take-over."
        yield self._gauge("not_upgraded", left, len(self._agent_loop.not_renewed))
        age_us = self._clock_us() - counters.get("heartbeat_us", 0)
        yield self._gauge("heartbeat_age_seconds", "Time since the last heartbeat.", age_us / 1e6)
        yield self._by("counter", "events", "Events of the agent, by kind.", "kind", self._events)
        if self._audit_log is not None:
            lost = "Lines of the audit log that could not be written."
            yield self._total("audit_errors", lost, self._audit_log.errors)
        datapath: Any = self._agent_loop.datapath
        if hasattr(datapath, "silences"):
            silences, sum_us = datapath.silences()
            counts = accumulate(count for _, count in silences)
            names = [*(f"{bound_us / 1e6:g}" for bound_us, _ in silences[:-1]), "+Inf"]
            yield self._core.HistogramMetricFamily(
                "ccplane_heartbeat_silence_seconds",
                "Time between two heartbeats.",
                buckets=list(zip(names, counts, strict=True)),
                sum_value=sum_us / 1e6,
            )

    def _flows(self) -> Iterator[Metric]:
        steered = [(flow_id, live.host.name) for flow_id, live in list(self._agent_loop.flows.items())]
        maximum = [name for name, _ in Counter(name for _, name in steered).most_common(MAX_ALGORITHMS)]
        seen: dict[str, _Algorithm] = {name: _Algorithm() for name in maximum}
        fallback: Counter[str] = Counter()
        now: dict[int, FlowStats] = {}
        for flow_id, name in steered:
            stats = self._agent_loop.datapath.stats(flow_id)
            if stats is None:
                continue
            now[flow_id] = stats
            if stats.fallback:
                fallback[stats.fallback_cause] += 1
            self._add(seen.setdefault(name if name in maximum else OTHER, _Algorithm()), stats)
        self._before = now
        yield self._by(
            "gauge",
            "flows_in_fallback",
            "Flows that run the fallback, by cause.",
            "cause",
            {cause: fallback[cause] for cause in CAUSES},
        )
        of = {name: one.flows for name, one in seen.items()}
        yield self._by("gauge", "flows", "Flows by algorithm.", "algorithm", of)
        rates = {name: one.throughput_bytes_per_s for name, one in seen.items()}
        about = "Throughput since the previous scrape, by algorithm."
        yield self._by("gauge", "throughput_bytes_per_second", about, "algorithm", rates)
        for name, unit, about in (
            (
                "throughput",
                "bytes_per_second",
                "Distribution of flows' throughput since the previous scrape [bytes/s].",
            ),
            ("rtt", "seconds", "Distribution of flows' smoothed RTT [s]."),
            (
                "loss",
                "ratio",
                "Distribution of flows' loss ratio since the previous scrape.",
            ),
        ):
            metric = self._core.GaugeHistogramMetricFamily(
                f"ccplane_flow_{name}_{unit}", about, labels=["algorithm"]
            )
            for algorithm, one in seen.items():
                spread: _Distribution = getattr(one, name)
                metric.add_metric([algorithm], buckets=spread.buckets(), gsum_value=spread.total)
            yield metric

    def _add(self, to: _Algorithm, stats: FlowStats) -> None:
        to.flows += 1
        if stats.srtt_us:
            to.rtt.add(stats.srtt_us / 1e6)
        before = self._before.get(stats.flow_id)
        if before is None:
            return
        rate, loss = between(before, stats)
        to.throughput_bytes_per_s += rate
        to.throughput.add(rate)
        if loss is not None:
            to.loss.add(loss)

    def _telemetry(self, dispatch: TelemetryDispatch, inbox: Inbox) -> Iterator[Metric]:
        for name, value in asdict(dispatch.counters).items():
            yield self._total(f"telemetry_{name}", meanings(dispatch.counters)[name], value)
        bus = inbox.counters
        yield self._total(
            "telemetry_invalid", "Received messages that were invalid.", sum(bus.invalid.values())
        )
        connection = bus.connection
        for name in ("published", "samples_dropped", "decisions_dropped", "refused", "connects"):
            yield self._total(f"bus_{name}", meanings(connection)[name], getattr(connection, name))
        about = "Time since the connection to the broker was lost; 0 while connected."
        yield self._gauge("bus_away_seconds", about, inbox.away_s)
        yield self._gauge("inbox_waiting", "Samples queued for the agent's thread.", inbox.waiting)
        yield self._total("inbox_dropped", "Samples dropped because the queue was full.", inbox.dropped)
        now_us = self._clock_us()
        ages = {kind: sample.age_ms(now_us) / 1e3 for kind, sample in list(dispatch.newest.items())}
        about = "Age of the newest sample, by kind."
        yield self._by("gauge", "telemetry_age_seconds", about, "kind", ages)
