"""Running algorithms: how each kind gets its flows, its reports and its farewells.

An `Algorithm` has one instance a flow (`SingleHost`), a `VectorAlgorithm` one for all its flows
(`VectorHost`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import numpy as np

from agent.algorithms import Running
from agent.events import Detail, Events
from agent.flow import FlowControl, Update
from agent.programs import ProgramSet
from agent.source import Past, Version, version_of
from agent.vector import send
from ccp_algs import Algorithm, Updates, VectorAlgorithm
from ccp_algs.api import AnyAlgorithm, Decided
from ccp_algs.params import changes, set_since
from ccp_base.flows import FlowInfo, FlowStats
from datapath.protocol import Datapath, Reports

RECENT_ROWS: Final = 65_536
"""How many reports of a vectorised algorithm are kept for who wants to see them: some megabytes."""


class Live:
    """One flow that is there.

    Attributes:
        flow: Its way to the datapath.
        host: Its algorithm.
        instance: The algorithm's instance of this flow; None before `start`, and for vectorised algorithms.
        on_report: The instance's callback; None if reports come as arrays.
        failed: The algorithm raised; the fallback law steers.
        failure: What it raised, and where; None unless it failed.
        last_report: The last report that the instance got; None before that, and if reports come as arrays.
        params_at: Number of the last change of parameters that the instance knows of.
    """

    __slots__ = ("failed", "failure", "flow", "host", "instance", "last_report", "on_report", "params_at")

    def __init__(self, host: Host, flow: FlowControl) -> None:
        """Make the flow; `Host.start` hands it to the algorithm."""
        self.flow = flow
        self.host = host
        self.instance: Algorithm | None = None
        self.on_report: Callable[[Any], None] | None = None
        self.failed = False
        self.failure: str | None = None
        self.last_report: Any = None
        self.params_at = changes()

    def tell_params(self) -> None:
        """Tell the instance which parameters were set since it was told last; raises what it raises."""
        since, self.params_at = self.params_at, changes()
        if self.instance is not None and (names := set_since(self.instance, since)):
            self.instance.on_params(names)


class Host:
    """One running algorithm.

    Attributes:
        vectorised: Whether reports come as arrays.
        name: Name of the algorithm.
        cc_name: Congestion-control name of its own, empty for none.
        algorithm: Its class.
        programs: Its installed programs.
        version: What the class was made of.
        update: What its flows write with.
        settle: Sets what was set for flows like a new one before it is given to the algorithm.
    """

    vectorised: bool

    def __init__(self, running: Running, datapath: Datapath, events: Events) -> None:
        """Install the programs.

        Args:
            running: The algorithm.
            datapath: Where its flows are.
            events: Where it tells what happens to them.

        Raises:
            VerifierError: If the kernel refuses one; none is left installed then.
            LoadError: `load.extension`, if the datapath has not what the algorithm uses.
        """
        self.name = running.name
        self.cc_name = running.cc_name
        self.algorithm = running.algorithm
        self.programs = ProgramSet(
            running.name,
            datapath,
            running.programs,
            running.initial,
            extensions=running.algorithm.extensions,
        )
        self.version: Version = version_of(running.algorithm)
        self.update: Update = datapath.update
        self.settle: Callable[[Live], None] | None = None
        self._datapath = datapath
        self._events = events

    @property
    def past(self) -> Past:
        """The version that runs, to be kept for later."""
        return Past.of(self.algorithm, self.version)

    def live(self, info: FlowInfo) -> Live:
        """Return a flow of this algorithm, not yet started."""
        return Live(self, self.flow(info, self.programs))

    def flow(self, info: FlowInfo, programs: ProgramSet) -> FlowControl:
        """Return what an instance holds as `self.flow`, not yet opened, for programs of this algorithm."""
        return FlowControl(info, programs, self.update, self._tell, one_of_many=self.vectorised)

    def _tell(self, kind: str, info: FlowInfo, detail: Detail) -> None:
        self._events.tell(kind, self.name, info, **detail)

    def start(self, live: Live) -> None:
        """Let the algorithm take the flow over; raises what the algorithm raises."""
        raise NotImplementedError

    def tell_extension(self, live: Live, extension: str, octets: bytes) -> None:
        """Tell the algorithm what an extension tells of a flow; raises what the algorithm raises."""
        raise NotImplementedError

    def end(self, live: Live, stats: FlowStats | None) -> None:
        """Tell the algorithm that the flow closed; raises what the algorithm raises."""
        raise NotImplementedError


class SingleHost(Host):
    """An algorithm with one instance a flow."""

    vectorised = False

    def start(self, live: Live) -> None:
        """Make the instance, call `on_create`, and give the flow its program, in one letter."""
        instance = cast("type[Algorithm]", self.algorithm)()
        instance.flow = live.flow
        live.instance = instance
        if self.settle is not None:
            self.settle(live)
        live.params_at = changes()
        instance.on_create(live.flow.info)
        live.flow.open()
        live.on_report = instance.on_report

    def tell_extension(self, live: Live, extension: str, octets: bytes) -> None:
        """Call `on_extension`."""
        if live.instance is not None:
            live.instance.on_extension(extension, octets)

    def end(self, live: Live, stats: FlowStats | None) -> None:
        """Call `on_close`; totals of a flow whose close event was lost are unknown."""
        if live.instance is not None:
            live.instance.on_close(stats or FlowStats(live.flow.info.flow_id))


class VectorHost(Host):
    """An algorithm with one instance for all its flows.

    Attributes:
        instance: The instance; None before the first flow.
        params_at: As of `Live`.
        on_updates: Is shown what the instance decided.
    """

    vectorised = True

    def __init__(self, running: Running, datapath: Datapath, events: Events) -> None:
        """Install the programs; the first flow makes the instance."""
        super().__init__(running, datapath, events)
        self.instance: VectorAlgorithm | None = None
        self.params_at = changes()
        self.on_updates: Callable[[Updates], None] | None = None
        self._flows: dict[int, FlowControl] = {}
        self._failed: set[int] = set()
        self._recent: deque[Reports] = deque()
        self._recent_rows = 0

    def restart(self) -> None:
        """Give up the instance, because it raised; the next flow makes another."""
        self.instance = None
        self._flows = {}

    def ready(self) -> VectorAlgorithm:
        """Return the instance, which is made now if there is none; raises what making it raises."""
        if self.instance is None:
            self.params_at = changes()
            self.instance = made(self.algorithm, self._flows)
        return self.instance

    def join(self, flow: FlowControl) -> None:
        """Hand a flow, not yet opened, to the instance; raises what the algorithm raises."""
        instance = self.ready()
        self._flows[flow.info.flow_id] = flow
        try:
            instance.on_create(flow.info)
        except BaseException:
            del self._flows[flow.info.flow_id]
            raise

    def leave(self, flow_id: int) -> None:
        """Take a flow from the instance; raises what the algorithm raises."""
        try:
            if self.instance is not None:
                self.instance.on_close(flow_id)
        finally:
            self._flows.pop(flow_id, None)

    def start(self, live: Live) -> None:
        """Call `on_create` and give the flow its program."""
        self.join(live.flow)
        live.flow.open()

    def end(self, live: Live, stats: FlowStats | None) -> None:
        """Call `on_close`."""
        flow_id = live.flow.info.flow_id
        if live.failed:
            self._failed.discard(flow_id)
        else:
            self.leave(flow_id)

    def tell_extension(self, live: Live, extension: str, octets: bytes) -> None:
        """Call `on_extension`."""
        if self.instance is not None:
            self.instance.on_extension(live.flow.info.flow_id, extension, octets)

    def tell_params(self) -> None:
        """Tell the instance which parameters were set since it was told last; raises what it raises."""
        since, self.params_at = self.params_at, changes()
        if self.instance is not None and (names := set_since(self.instance, since)):
            self.write(self.instance.on_params(names))

    def fail(self, flow_id: int) -> None:
        """Keep the reports of a flow from the instance, because the fallback law has it."""
        self._failed.add(flow_id)
        self._flows.pop(flow_id, None)

    def feed(self, reports: Reports, program: str) -> int:
        """Hand reports to the instance and write its decisions; raises what the algorithm raises.

        Args:
            reports: Of one program of this algorithm, in order of arrival.
            program: Its name.

        Returns:
            How many of them the instance got: those of flows that it steers.
        """
        if self._failed:
            failed = np.fromiter(self._failed, np.uint64, len(self._failed))
            reports = reports[~np.isin(reports["flow_id"], failed)]
        if self.instance is not None and len(reports):
            self._keep(reports)
            self.write(self.instance.on_reports(reports, program))
        return len(reports)

    def _keep(self, reports: Reports) -> None:
        """Keep the last arrays: to keep each flow's row would cost time at every report."""
        self._recent.append(reports)
        self._recent_rows += len(reports)
        while self._recent_rows > RECENT_ROWS and len(self._recent) > 1:
            self._recent_rows -= len(self._recent.popleft())

    def last_report(self, flow_id: int) -> Reports | None:
        """Return the last report of a flow, an array of one; None if it is not among the last of all."""
        for reports in reversed(self._recent):
            rows = np.flatnonzero(reports["flow_id"] == flow_id)
            if len(rows):
                return reports[rows[-1:]]
        return None

    def write(self, decided: Decided) -> None:
        """Write what the instance decided.

        Raises:
            ParamError: As `agent.vector.send`.
            RegisterError: Likewise.
        """
        if decided is None:
            return
        for updates in (decided,) if isinstance(decided, Updates) else decided:
            send(self._datapath, updates)
            if self.on_updates is not None:
                self.on_updates(updates)

    def replace(self, instance: VectorAlgorithm | None, flows: dict[int, FlowControl]) -> None:
        """Take another instance, which has all these flows, those that failed included."""
        self.instance, self._flows, self.params_at = instance, flows, changes()
        self._failed.clear()

    def forget(self, flow_id: int) -> None:
        """Forget that a flow failed, because another algorithm has it now."""
        self._failed.discard(flow_id)


def made(algorithm: AnyAlgorithm, flows: Mapping[int, FlowControl]) -> VectorAlgorithm:
    """Return a new instance of a vectorised algorithm that has these flows."""
    instance = cast("type[VectorAlgorithm]", algorithm)()
    instance.flows = flows
    return instance


def host_for(running: Running, datapath: Datapath, events: Events) -> SingleHost | VectorHost:
    """Return the host for an algorithm, its programs installed.

    Raises:
        VerifierError: If the kernel refuses a program.
    """
    kind = VectorHost if issubclass(running.algorithm, VectorAlgorithm) else SingleHost
    return kind(running, datapath, events)
