"""A path that a case lets run step by step, in the simulator; whatever is done to it becomes a scenario.

`real.RealNet` is the same with real sockets.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import types
from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np

from ccp_algs.api import AnyAlgorithm, VectorAlgorithm
from ccplane.agent.agent_loop import POLL_MS
from ccplane.agent.description import Description, assembled, plan
from ccplane.datapath import sim
from experiments.events import SetLink
from experiments.netlab.network_spec import emulator_spec
from experiments.netlab.routes import graph_of
from experiments.runs import sim_traffic
from experiments.runs.recording import FlowRecord
from experiments.runs.session import flow_records
from experiments.runs.sim_network import SimNetwork
from experiments.runs.variants import described, variants_of
from experiments.scenario import Scenario
from experiments.traffic.running import FlowSockets

Watch = Callable[[Any, Any], None]
"""Called with the instance of an algorithm and its report, after each report."""

PAYLOAD_SHARE: Final = 1448 / 1500
"""Payload's share of a full packet with timestamps."""
_TAIL_S: Final = 0.001


class Flow:
    """One flow, by its socket's samples: one a millisecond in which an ACK came.

    Attributes:
        name: As in the scenario.
        algorithm: As in the scenario.
        sockets: Its sockets; None until it starts.
        start_us: Time 0 of the run, on the clock of the samples [us].
    """

    def __init__(self, record: FlowRecord) -> None:
        self.name = record.name
        self.algorithm = record.algorithm
        self.sockets: FlowSockets | None = record.sockets
        self.start_us = 0
        self._kept: np.ndarray | None = None
        self._count = 0

    def add(self, rows: np.ndarray) -> None:
        """Keep this flow's part of new samples."""
        if self.sockets is None:
            return
        own = rows[self.sockets.has(rows["netns"], rows["sport"], rows["dport"])]
        if not len(own):
            return
        end = self._count + len(own)
        if self._kept is None or end > len(self._kept):
            grown = np.empty(2 * end, dtype=own.dtype)
            if self._kept is not None:
                grown[: self._count] = self.rows
            self._kept = grown
        self._kept[self._count : end] = own
        self._count = end

    @property
    def rows(self) -> np.ndarray:
        """All samples, in the columns of `ccplane.base._native.TcpTrace`."""
        return np.empty(0) if self._kept is None else self._kept[: self._count]

    @property
    def last(self) -> Any:
        """The last sample; None before the first."""
        return self.rows[-1] if self._count else None

    def between(self, start_s: float, stop_s: float = float("inf")) -> np.ndarray:
        """Return the samples of a time of the run [s]."""
        rows = self.rows
        if not len(rows):
            return rows
        t_s = (rows["t_us"].astype(np.int64) - self.start_us) / 1e6
        return rows[(t_s >= start_s) & (t_s <= stop_s)]

    @property
    def mss_bytes(self) -> int:
        """Payload of a full segment [bytes]."""
        return 1448 if self.last is None else int(self.last["mss_bytes"])

    @property
    def cwnd_pkts(self) -> float:
        """Window of the last sample [segments]."""
        return 0.0 if self.last is None else float(self.last["cwnd_bytes"]) / self.mss_bytes

    def mean_cwnd_pkts(self, start_s: float, stop_s: float) -> float:
        """Return the mean window of a time of the run [segments]."""
        return self._mean("cwnd_bytes", start_s, stop_s) / self.mss_bytes

    def mean_rtt_ms(self, start_s: float, stop_s: float = float("inf")) -> float:
        """Return the mean RTT of a time of the run [ms]."""
        return self._mean("rtt_us", start_s, stop_s) / 1e3

    def _mean(self, column: str, start_s: float, stop_s: float) -> float:
        rows = self.between(start_s, stop_s)
        return float(rows[column].mean()) if len(rows) else float("nan")

    def grown(self, column: str, start_s: float, stop_s: float = float("inf")) -> float:
        """Return by how much a counter grew in a time of the run."""
        rows = self.between(start_s, stop_s)
        return float(rows[column][-1]) - float(rows[column][0]) if len(rows) else 0.0

    def goodput_mbit(self, start_s: float, stop_s: float) -> float:
        """Return the acknowledged payload of a time of the run [Mbit/s]."""
        return self.grown("bytes_acked", start_s, stop_s) * 8e-6 / (stop_s - start_s)

    def retransmitted(self, start_s: float = 0.0, stop_s: float = float("inf")) -> float:
        """Return the share of bytes sent in a time of the run that were retransmissions."""
        sent = self.grown("bytes_sent", start_s, stop_s)
        return self.grown("bytes_retrans", start_s, stop_s) / sent if sent else 0.0


class Net(contextlib.AbstractContextManager["Net"], abc.ABC):
    """Flows over one path, which run while `run` is called.

    Attributes:
        flows: The flows; `flow` is the first.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.flows: list[Flow] = []
        self._scenario = scenario
        self._events: list[SetLink] = []
        self._link = "link" if len(scenario.flows) == 1 else "bottleneck"

    @property
    @abc.abstractmethod
    def now_us(self) -> int:
        """Time, on the clock of the samples [us]."""

    @property
    @abc.abstractmethod
    def start_us(self) -> int:
        """Time 0 of the run, on that clock [us]."""

    @abc.abstractmethod
    def counters(self) -> dict[str, int]:
        """Return the path's counters: arrived_pkts, queue_pkts, dropped_queue_pkts, marked_pkts and so on."""

    @abc.abstractmethod
    def _pass(self, until_us: int) -> None:
        """Let time pass, and collect samples."""

    @abc.abstractmethod
    def _change(self, link: str, **fields: Any) -> None:
        """Change fields of a link."""

    def _begin(self) -> int:
        """Start the flows, unless they have started; return the time from which `run` counts [us]."""
        return self.now_us

    @property
    def flow(self) -> Flow:
        """The first flow."""
        return self.flows[0]

    @property
    def now_s(self) -> float:
        """Time of the run [s]."""
        return max(0, self.now_us - self.start_us) / 1e6

    @property
    def rate_mbit(self) -> float:
        """Present rate of the path [Mbit/s]; NaN for a trace."""
        rate_bytes_per_s = self._path("rate_bytes_per_s")
        return float("nan") if rate_bytes_per_s is None else float(rate_bytes_per_s) * 8e-6

    @property
    def rtt_s(self) -> float:
        """RTT without queues [s]."""
        return float(self._path("delay_us")) * 2e-6

    @property
    def payload_mbit(self) -> float:
        """Largest possible goodput [Mbit/s]."""
        return self.rate_mbit * PAYLOAD_SHARE

    @property
    def bdp_pkts(self) -> float:
        """Bandwidth-delay product [packets of 1500 bytes]."""
        return self.rate_mbit * 1e6 / 8 * self.rtt_s / 1500

    def _path(self, field: str) -> Any:
        """Return a field of the path as it is now."""
        changed = [one.fields[field] for one in self._events if field in one.fields]
        forward = next(one.forward for one in self._scenario.network.links if one.name == self._link)
        return changed[-1] if changed else getattr(forward, field)

    def run(self, seconds: float, until: Callable[[], object] | None = None, step_s: float = 0.01) -> bool:
        """Let time pass.

        Args:
            seconds: How long, at most.
            until: Ends it as soon as it returns something true, asked every `step_s`.
            step_s: Time between two questions [s].

        Returns:
            Whether `until` held; True without it.
        """
        end_us = self._begin() + round(1e6 * seconds)
        while self.now_us < end_us:
            if until is not None and until():
                return True
            self._pass(min(end_us, self.now_us + round(1e6 * step_s)))
        return until is None or bool(until())

    def change(self, **fields: Any) -> None:
        """Change fields of the path (`Direction`), such as `rate_bytes_per_s`, `loss` or `delay_us`."""
        plain = msgspec.to_builtins(fields)
        self._change(f"{self._link}>", **plain)
        self._events.append(SetLink(round(self.now_s, 6), f"{self._link}>", plain))

    def drop(self, *numbers: int) -> None:
        """Lose the next packet, or those of these numbers, counted from 0 for the next packet."""
        self.change(loss=None)
        self.change(loss={"kind": "pattern", "drop": list(numbers or (0,))})

    def arrivals_pkts(self, seconds: float, step_s: float = 0.001) -> np.ndarray:
        """Let time pass, and return how many packets reached the path in each step."""
        counts = [self.counters()["arrived_pkts"]]
        for _ in range(round(seconds / step_s)):
            self.run(step_s, step_s=step_s)
            counts.append(self.counters()["arrived_pkts"])
        return np.diff(counts)

    def scenario(self) -> Scenario:
        """Return what was run so far as a scenario, for `ccp experiment run`."""
        return self._scenario.replace(
            duration_s=max(round(self.now_s, 6), _TAIL_S), events=tuple(self._events)
        )


class SimNet(Net):
    """Flows over one path in the simulator."""

    def __init__(self, scenario: Scenario, watch: Watch | None = None) -> None:
        """Build it; the contract of the algorithm's callbacks is not checked.

        Raises:
            CcpError: If the algorithm does not exist, or cannot run in the simulator.
            Several: If several things are wrong.
        """
        scenario.validate()
        super().__init__(scenario)
        variants = variants_of(scenario)
        graph = graph_of(scenario.network)
        spec = emulator_spec(graph, scenario.seed) | {"sample_interval_us": scenario.sample_interval_us}
        self._datapath = sim.open_world(spec, host_mtu_bytes=graph.host_mtu_bytes)
        self._net = SimNetwork(self._datapath, graph)
        self._loop = None
        if variants.all:
            ready = plan(_watched(described(variants.all), watch), tries=False)
            self._loop = assembled(ready, self._datapath, clock=lambda: self._datapath.now_us / 1e6)
        hosts = scenario.network.hosts
        for number, record in enumerate(flow_records(scenario, variants)):
            flow = scenario.flows[number]
            record.start_us = sim.START_US + round(1e6 * flow.start_s)
            record.stop_us = sim.START_US + round(1e6 * scenario.duration_s)
            record.sockets = sim_traffic.sockets(flow, number, 1 + hosts.index(flow.sender))
            self._datapath.connect(msgspec.json.encode(sim_traffic.plan(scenario, number, record)))
            self.flows.append(Flow(record))
            self.flows[-1].start_us = sim.START_US

    def __exit__(self, *_exception: object) -> None:
        self._datapath.close()

    @property
    def now_us(self) -> int:
        """Virtual time [us]."""
        return self._datapath.now_us

    @property
    def start_us(self) -> int:
        """Start of virtual time [us]."""
        return sim.START_US

    def counters(self) -> dict[str, int]:
        """As in `Net`."""
        links = msgspec.json.decode(self._datapath.links())
        counted: dict[str, int] = links[f"{self._link}>"]
        return counted

    def _pass(self, until_us: int) -> None:
        self._datapath.horizon_us = until_us
        while self._datapath.now_us < until_us:
            if self._loop is None:
                self._datapath.run_until(until_us)
            else:
                self._loop.turn(POLL_MS)
        rows = self._datapath.rows()
        for flow in self.flows:
            flow.add(rows)

    def _change(self, link: str, **fields: Any) -> None:
        self._net.change(link, **fields)


def _watched(given: Description, watch: Watch | None) -> Description:
    """Let `watch` see each report of the algorithms that have an instance per flow."""
    if watch is None:
        return given
    return dataclasses.replace(given, algorithms=[_seen(one, watch) for one in given.algorithms])


def _seen(base: str | AnyAlgorithm, watch: Watch) -> str | AnyAlgorithm:
    if isinstance(base, str) or issubclass(base, VectorAlgorithm):
        return base

    def on_report(self: Any, report: Any) -> None:
        base.on_report(self, report)
        watch(self, report)

    def fill(namespace: dict[str, Any]) -> None:
        namespace["on_report"] = on_report
        for same in ("name", "__module__", "__qualname__", "__doc__"):
            namespace[same] = getattr(base, same)

    derived: AnyAlgorithm = types.new_class(base.__name__, (base,), exec_body=fill)
    return derived
