"""A scenario in the simulator: the datapath `sim`.

The simulator needs no root, kernel feature or other process. Virtual time passes while the simulator carries
packets, and stands still while an algorithm computes. One thread does everything: it triggers events,
delivers telemetry, and lets the agent take its turns. The same scenario always gives the same result.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ccplane.agent.agent_loop import POLL_MS, AgentLoop
from ccplane.agent.description import assembled, plan
from ccplane.agent.inbox import FLOW_KINDS
from ccplane.agent.reload import Loader, T
from ccplane.agent.rules import Which
from ccplane.agent.source import read
from ccplane.agent.telemetry_dispatch import TelemetryDispatch
from ccplane.datapath import ebpf, sim
from experiments.events import Event, ParamValue
from experiments.features import serving
from experiments.netlab import inband
from experiments.netlab.network_spec import addresses, emulator_spec
from experiments.netlab.routes import Graph, graph_of
from experiments.runs import artifacts, sim_traffic
from experiments.runs.noted import notes
from experiments.runs.recording import Recording
from experiments.runs.session import Progress, fire, flow_records
from experiments.runs.sim_network import SimNetwork
from experiments.runs.sim_telemetry import Telemetry
from experiments.runs.variants import Variant, Variants, described, variants_of
from experiments.traffic.spec import TCP
from telemetry.local import LocalBus

if TYPE_CHECKING:
    from ccplane.base._native import SimDatapath
    from experiments.scenario import Scenario

AGENT: Final = "sim"
"""The agent's name on the bus."""

LINGER_US: Final = 5_000_000
"""Time for connections to close after the end of a run, so that samples contain their last state [us]."""

_STEP_US: Final = 100_000
"""Maximum virtual time between two checks for other work, such as Ctrl-C [us]."""
_REPORT_S: Final = 0.1
"""Time between two progress reports [s]."""


def record(
    scenario: Scenario,
    recording: Recording,
    directory: Path,
    progress: Progress,
    alongside: Callable[[AgentLoop, SimDatapath], AbstractContextManager[None]] | None = None,
) -> None:
    """Run a scenario in the simulator.

    Raises:
        CcpError: If the run fails.
    """
    variants = variants_of(scenario)
    recording.flows = flow_records(scenario, variants)
    recording.addresses = {name: addresses(i) for i, name in enumerate(scenario.network.hosts, 1)}
    recording.facts["simulator"] = facts_of(scenario)
    progress("building the network", 0.0)
    graph = graph_of(scenario.network)
    spec = _spec_of(scenario, graph, directory)
    recording.links_csv = directory / artifacts.LINKS_CSV
    recording.telemetry = artifacts.int_files(scenario, directory)
    recording.regimes = artifacts.regime_files(scenario, directory)
    recording.reported = artifacts.reports(scenario, directory)
    with contextlib.ExitStack() as after:
        datapath = sim.open_world(
            spec, host_mtu_bytes=graph.host_mtu_bytes, arrivals=bool(scenario.receivers)
        )
        after.callback(datapath.close)

        def clock_us() -> int:
            return datapath.now_us

        bus = LocalBus(clock_us)
        stated = Telemetry(scenario, datapath, bus, directory, recording.addresses, after)
        recording.start_us = stated.ready_us
        agent_loop = None
        if variants.all:
            after.enter_context(_logged(directory / artifacts.AGENT_LOG))
            agent_loop = after.enter_context(
                _loop(scenario, variants, datapath, bus, stated, directory, clock_us)
            )
            if alongside is not None:
                after.enter_context(alongside(agent_loop, datapath))
        added = [
            after.enter_context(one.simulated(scenario, recording, directory, datapath))
            for one in serving(scenario)
        ]
        net = SimNetwork(datapath, graph)
        session = _Session(scenario, recording, variants, datapath, net, agent_loop, stated, added)
        try:
            session.run(progress)
        finally:
            session.finish()


def _spec_of(scenario: Scenario, graph: Graph, directory: Path) -> dict[str, Any]:
    """Return a scenario's network as the simulator's input: `Spec` in `native/ccp-emu/src/spec.rs`.

    Raises:
        LabError: `lab.bad_value`, if a trace cannot be read.
    """
    spec = emulator_spec(graph, scenario.seed)
    spec["sample_interval_us"] = scenario.sample_interval_us
    spec["samples_path"] = str((directory / artifacts.LINKS_CSV).absolute())
    if graph.telemetry is not None:
        # No descriptor for summaries: this process fetches them.
        spec["int"] = inband.plain(graph, -1, artifacts.records_path(scenario, directory)) | {
            "summaries_fd": None
        }
    return spec


def facts_of(scenario: Scenario) -> dict[str, Any]:
    """Return a result's metadata of the simulator."""
    return {
        "name": "ccp-sim",
        "version": metadata.version("ccplane"),
        "seed": scenario.seed,
        "agent_latency_us": sim.LATENCY_US,
    }


@contextlib.contextmanager
def _loop(
    scenario: Scenario,
    variants: Variants,
    datapath: SimDatapath,
    bus: LocalBus,
    stated: Telemetry,
    directory: Path,
    clock_us: Callable[[], int],
) -> Iterator[AgentLoop]:
    telemetry = scenario.network.telemetry is not None
    with notes(
        decisions=directory / artifacts.DECISIONS if telemetry else None,
        regime_events=directory / artifacts.AGENT_REGIMES if artifacts.publishes_regimes(scenario) else None,
        features_in=directory,
        clock_us=clock_us,
    ) as noted:
        ready = plan(described(variants.all, noted.note))
        agent_loop = assembled(ready, datapath, clock=lambda: clock_us() / 1e6)
        noted.begin(agent_loop)
        agent_loop.each_turn.append(stated.feed)
        TelemetryDispatch(agent_loop, bus.join(AGENT, kinds=FLOW_KINDS), AGENT, clock_us)
        yield agent_loop


@contextlib.contextmanager
def _logged(file: Path) -> Iterator[None]:
    """Also write the log of this thread's agent to a file."""
    handler = logging.FileHandler(file)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    own = threading.get_ident()
    handler.addFilter(lambda entry: entry.thread == own)
    log = logging.getLogger("ccplane")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()


class _Agent:
    def __init__(self, agent_loop: AgentLoop) -> None:
        self._loop = agent_loop

    def set_param(self, variant: Variant, param: str, value: ParamValue) -> None:
        self._loop.changes.set_params({f"{variant.name}.{param}": value}, Which())

    def edit(self, variant: Variant, file: Path) -> None:
        _Here(self._loop, ebpf.compile_program).load(read(str(file)), variant.name)


class _Here(Loader):
    """Loads versions while virtual time stands still, because there is one thread."""

    def on_agent(self, what: Callable[[], T]) -> T:
        return what()


@dataclass
class _Session:
    _scenario: Scenario
    _recording: Recording
    _variants: Variants
    _datapath: SimDatapath
    _net: SimNetwork
    _loop: AgentLoop | None
    _stated: Telemetry
    _added: Sequence[Callable[[], None]]
    _next_report_s: float = 0.0

    def run(self, progress: Progress) -> None:
        self._connect()
        start_us = self._recording.start_us
        last_us = start_us + round(self._scenario.duration_s * 1e6) + LINGER_US
        events = sorted(self._scenario.events, key=lambda event: event.at_s)
        while self._datapath.now_us < last_us and (events or not self._datapath.finished):
            while events and start_us + round(events[0].at_s * 1e6) <= self._datapath.now_us:
                self._fire(events.pop(0))
            due_us = start_us + round(events[0].at_s * 1e6) if events else last_us
            self._pass(min(due_us, self._stated.due_us, last_us))
            if time.monotonic() >= self._next_report_s:
                self._next_report_s = time.monotonic() + _REPORT_S
                passed_s = max(0, self._datapath.now_us - start_us) / 1e6
                progress("flows are sending", min(passed_s, self._scenario.duration_s))

    def finish(self) -> None:
        self._recording.socket_rows = self._datapath.rows()
        outcomes = msgspec.json.decode(self._datapath.outcomes(), type=list[sim_traffic.Outcome])
        for spec, flow, outcome in zip(self._scenario.flows, self._recording.flows, outcomes, strict=False):
            if outcome.start_us is None:
                continue
            self._recording.note("flow_start", outcome.start_us, flow=flow.name)
            flow.traffic = sim_traffic.result(outcome, spec.traffic)
            flow.end_us = outcome.end_us
            if outcome.end_us is not None:
                self._recording.note("flow_end", outcome.end_us, flow=flow.name, complete=outcome.complete)
        facts = self._recording.facts
        facts["links"] = msgspec.json.decode(self._datapath.links())
        if self._loop is not None:
            facts["agent"] = asdict(self._loop.counters)
        if self._scenario.network.telemetry is not None:
            facts["telemetry"] = {"published": self._stated.published}

    def _connect(self) -> None:
        hosts = self._scenario.network.hosts
        for number, (flow, record) in enumerate(
            zip(self._scenario.flows, self._recording.flows, strict=True)
        ):
            stop_s = self._scenario.duration_s if flow.stop_s is None else flow.stop_s
            record.base_rtt_us = self._net.base_rtt_us(flow.sender, flow.receiver)
            record.start_us = self._recording.start_us + round(flow.start_s * 1e6)
            record.stop_us = self._recording.start_us + round(stop_s * 1e6)
            record.sockets = sim_traffic.sockets(flow, number, 1 + hosts.index(flow.sender))
            plan = sim_traffic.plan(self._scenario, number, record)
            self._datapath.connect(msgspec.json.encode(plan))

    def _pass(self, until_us: int) -> None:
        """Let virtual time pass, at most until `until_us`."""
        until_us = min(until_us, self._datapath.now_us + _STEP_US)
        self._datapath.horizon_us = until_us
        if self._loop is not None:
            self._loop.turn(POLL_MS)
        else:
            self._datapath.run_until(until_us)
            self._stated.feed()
        for turn in self._added:
            turn()

    def _fire(self, event: Event) -> None:
        agent = None if self._loop is None else _Agent(self._loop)
        stated = fire(event, self._net, {TCP: agent}, self._variants)
        now_us = self._datapath.now_us
        self._recording.note(str(event.__struct_config__.tag), now_us, at_s=event.at_s, **stated)
