"""A scenario on real sockets of this machine: the datapath `ebpf`.

One thread per flow starts its traffic and waits for its end. The calling thread triggers the events, takes
samples, and monitors the other threads.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
import numpy as np

from ccplane.base import _native, clock
from experiments.agent_process import PIN_DIR
from experiments.disturbance import Watch
from experiments.events import Event
from experiments.features import serving
from experiments.netlab import LabError, namespace
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.runs import artifacts, inband, regimes
from experiments.runs.bus import own_bus
from experiments.runs.quic import quic_agent
from experiments.runs.recording import TCP_CLOSE, FlowRecord, Recording
from experiments.runs.session import Progress, fire, flow_records
from experiments.runs.steering import Steering, turn
from experiments.runs.variants import Variants, variants_of
from experiments.traffic import RunningTraffic, start_traffic
from experiments.traffic.quic import QuicOptions
from experiments.traffic.spec import QUIC, TCP, Transport

if TYPE_CHECKING:
    from experiments.scenario import FlowSpec, Scenario


class MustRun(Protocol):
    """A process that a run depends on."""

    def must_run(self) -> None:
        """Check that the process is running; raise a `RunError` if not."""


_LOOK_S: Final = 0.02
"""Time between two checks of flows and samples [s]."""
_HEALTH_S: Final = 1.0
"""Time between two checks of the emulator [s]."""
_LAST_ROWS_S: Final = 0.5
"""Time for connections to close after their end, so that samples contain their last state [s]."""
_JOIN_S: Final = 10.0
"""Time for a flow's thread to notice that its network is closed [s]."""


def record(scenario: Scenario, recording: Recording, directory: Path, progress: Progress) -> None:
    """Run a scenario on real sockets.

    Raises:
        CcpError: If the run fails.
    """
    variants = variants_of(scenario)
    recording.flows = flow_records(scenario, variants)
    recording.links_csv = directory / artifacts.LINKS_CSV
    with contextlib.ExitStack() as after:
        lock = -1
        if variants.over(TCP) or serving(scenario):
            waiting = "waiting for another run that adds congestion controls to the kernel"
            lock = after.enter_context(turn(lambda: progress(waiting, 0.0)))
        progress("building the network", 0.0)
        broker = None
        listens = bool(variants.over(TCP)) and scenario.network.telemetry is not None
        if artifacts.publishes_regimes(scenario) or listens:
            broker = after.enter_context(own_bus())
        outlet = after.enter_context(
            inband.outlet(scenario, directory, recording.facts, broker if variants.over(TCP) else None)
        )
        joining = after.enter_context(contextlib.ExitStack())  # after the network is closed, in any case
        net = after.enter_context(
            emulated(
                scenario.network,
                seed=scenario.seed,
                samples_path=recording.links_csv,
                sample_interval_us=scenario.sample_interval_us,
                pcap={name: directory / f"{name}.pcapng" for name in scenario.captures},
                summaries_fd=outlet.summaries_fd,
                records_path=artifacts.records_path(scenario, directory),
            )
        )
        if scenario.network.telemetry is not None and scenario.network.telemetry.echo:
            after.enter_context(inband.readers_on(net.hosts.values(), PIN_DIR))
        agent = after.enter_context(_agent(scenario, variants, directory, lock, recording, broker, progress))
        recording.telemetry = artifacts.int_files(scenario, directory)
        recording.addresses = {name: (host.ipv4, host.ipv6) for name, host in net.hosts.items()}
        programs = after.enter_context(regimes.programs(scenario, variants, net, directory, broker, progress))
        recording.reported = artifacts.reports(scenario, directory)
        added = [
            after.enter_context(one.live(scenario, recording, directory, progress))
            for one in serving(scenario)
        ]
        recording.regimes = artifacts.regime_files(scenario, directory)
        inodes = [os.stat(namespace.path_of(host.namespace)).st_ino for host in net.hosts.values()]
        trace = after.enter_context(_native.TcpTrace(scenario.sample_interval_us, inodes))
        quic = after.enter_context(quic_agent(scenario, variants, directory, recording.facts, progress))
        processes = (agent, quic.agent, outlet.publisher, *added, *programs)
        others = [one for one in processes if one is not None]
        agents: dict[Transport, Steering | None] = {TCP: agent, QUIC: quic.agent}
        session = _Session(scenario, recording, net, agents, quic.options, others, variants, trace, progress)
        joining.callback(session.join)
        try:
            with _processors_text(recording.facts):
                session.run()
        finally:
            session.finish()


@contextlib.contextmanager
def _processors_text(facts: dict[str, Any]) -> Iterator[None]:
    """Record the CPU usage of a block, even if it fails, but not if it is interrupted."""
    failed: Exception | None = None
    with Watch() as watch:
        try:
            yield
        except Exception as error:
            failed = error
    facts["processors"] = {
        "own_ratio": watch.seen.own_ratio,
        "stolen_ratio": watch.seen.stolen_ratio,
        "foreign_ratio": watch.seen.competing_ratio,
    }
    if failed is not None:
        raise failed


@contextlib.contextmanager
def _agent(
    scenario: Scenario,
    variants: Variants,
    directory: Path,
    lock: int,
    recording: Recording,
    broker: str | None,
    progress: Progress,
) -> Iterator[Steering | None]:
    if not variants.over(TCP):
        yield None
        return
    progress("starting the agent", 0.0)
    with open(directory / artifacts.AGENT_LOG, "wb") as log:
        agent = Steering(
            variants.over(TCP),
            log,
            lock,
            broker=broker,
            decisions=None if scenario.network.telemetry is None else directory / artifacts.DECISIONS,
            regime_events=directory / artifacts.AGENT_REGIMES
            if artifacts.publishes_regimes(scenario)
            else None,
            features_in=directory,
        )
        try:
            yield agent
        finally:
            agent.stop()
            recording.facts["agent"] = agent.counters


@dataclass
class _Session:
    _scenario: Scenario
    _recording: Recording
    _net: EmulatedNetwork
    _agents: Mapping[Transport, Steering | None]
    _quic: QuicOptions
    _others: Sequence[MustRun]
    _variants: Variants
    _trace: _native.TcpTrace
    _progress: Progress
    _over: threading.Event = field(default_factory=threading.Event)
    _starting: threading.Lock = field(default_factory=threading.Lock)
    _failed: list[BaseException] = field(default_factory=list)
    _rows: list[np.ndarray] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)
    _next_health_s: float = 0.0

    def run(self) -> None:
        for flow, record in zip(self._scenario.flows, self._recording.flows, strict=True):
            record.base_rtt_us = self._net.base_rtt_us(flow.sender, flow.receiver)
            for name in (flow.sender, flow.receiver):
                if flow.ecn:
                    self._net.hosts[name].set_sysctl("net.ipv4.tcp_ecn", 1)
        self._recording.start_us = _now_us()
        for flow, record in zip(self._scenario.flows, self._recording.flows, strict=True):
            thread = threading.Thread(target=self._carry, args=(flow, record), name=f"flow {flow.name}")
            self._threads.append(thread)
            thread.start()
        events = sorted(self._scenario.events, key=lambda event: event.at_s)
        while events or any(thread.is_alive() for thread in self._threads):
            while events and events[0].at_s <= self._now_s():
                self._fire(events.pop(0))
            self._look()
            next_s = events[0].at_s - self._now_s() if events else _LOOK_S
            time.sleep(min(_LOOK_S, max(0.0, next_s)))
        self._look()

    def finish(self) -> None:
        self._over.set()
        self._sample()
        end_s = time.monotonic() + _LAST_ROWS_S
        still_open: set[int] = set()
        new = self._rows[:]
        while True:
            self._note_open(new, still_open)
            if self._failed or not still_open or time.monotonic() > end_s:
                break
            time.sleep(_LOOK_S)
            new = self._sample()
        if self._rows:
            self._recording.socket_rows = np.concatenate(self._rows)
        facts = self._recording.facts
        facts["samples_dropped"] = self._trace.dropped
        if self._scenario.captures:
            facts["captures"] = self._captured()
        with contextlib.suppress(LabError):  # the emulator died; `emulated` reports that
            facts["links"] = msgspec.to_builtins(self._net.stats())
            facts["emulator"] = msgspec.to_builtins(self._net.emulator_stats())

    def _captured(self) -> dict[str, Any]:
        """Return what relates captures to samples: the clocks, and the ports of each connection."""
        ports = {}
        for flow in self._recording.flows:
            rows = self._recording.rows_of(flow)
            firsts = sorted(np.unique(rows["cookie"], return_index=True)[1]) if len(rows) else []
            ports[flow.name] = [[int(rows[end][at]) for end in ("sport", "dport")] for at in firsts]
        ahead_us = time.time_ns() // 1000 - _now_us()
        return {"start_unix_us": self._recording.start_us + ahead_us, "connections": ports}

    def join(self) -> None:
        """Wait for all threads; the network is closed by now."""
        for thread in self._threads:
            thread.join(_JOIN_S)

    # The threads of flows

    def _carry(self, flow: FlowSpec, record: FlowRecord) -> None:
        try:
            if self._over.wait(max(0.0, flow.start_s - self._now_s())):
                return
            traffic = self._start(flow, record)
            try:
                record.traffic = traffic.wait()
            finally:
                traffic.stop()  # removes its files
            record.end_us = traffic.started_us + round(record.traffic.duration_s * 1e6)
            self._recording.note("flow_end", _now_us(), flow=flow.name, complete=record.traffic.complete)
        except BaseException as error:  # raised again where the run is
            self._failed.append(error)

    def _start(self, flow: FlowSpec, record: FlowRecord) -> RunningTraffic:
        with self._starting:  # a host's port allocation is not thread-safe
            stop_s = self._scenario.duration_s if flow.stop_s is None else flow.stop_s
            traffic = start_traffic(
                flow.traffic,
                self._net.hosts[flow.sender],
                self._net.hosts[flow.receiver],
                congestion=record.congestion,
                family=flow.family,
                duration_s=stop_s - flow.start_s,
                seed=self._scenario.seed,
                quic=self._quic,
            )
        record.sockets = traffic.sockets
        record.start_us = traffic.started_us
        record.stop_us = traffic.started_us + round((stop_s - flow.start_s) * 1e6)
        self._recording.note("flow_start", traffic.started_us, flow=flow.name)
        return traffic

    # The thread of the run

    def _look(self) -> None:
        self._sample()
        if self._failed:
            raise self._failed[0]
        for other in self._others:
            other.must_run()
        if self._now_s() >= self._next_health_s:
            self._next_health_s = self._now_s() + _HEALTH_S
            self._net.emulator_stats()  # raises, if it died
        self._progress("flows are sending", min(self._now_s(), self._scenario.duration_s))

    def _sample(self) -> list[np.ndarray]:
        rows = self._trace.drain()
        new = [rows] if len(rows) else []
        self._rows += new
        return new

    def _note_open(self, new: list[np.ndarray], still_open: set[int]) -> None:
        """Update the set of connections that were sampled and are still open."""
        if not new:
            return
        rows = np.concatenate(new)
        for flow in self._recording.flows:
            if flow.sockets is not None:
                own = rows[flow.sockets.has(rows["netns"], rows["sport"], rows["dport"])]
                still_open.update(own["cookie"].tolist())
                still_open.difference_update(own["cookie"][own["state"] == TCP_CLOSE].tolist())

    def _fire(self, event: Event) -> None:
        stated = fire(event, self._net, self._agents, self._variants)
        self._recording.note(str(event.__struct_config__.tag), _now_us(), at_s=event.at_s, **stated)

    def _now_s(self) -> float:
        return (_now_us() - self._recording.start_us) / 1e6


def _now_us() -> int:
    return clock.now_us()
