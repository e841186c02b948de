"""Running algorithms: how each kind gets its flows, its reports and its farewells.

An `Algorithm` has one instance a flow (`SingleHost`), a `VectorAlgorithm` one for all its flows
(`VectorHost`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol, cast

import numpy as np

from ccp_algs import Algorithm, Updates, VectorAlgorithm
from ccp_algs.api import AnyAlgorithm, Decided
from ccp_algs.params import changes
from ccplane.agent.algorithms import Running
from ccplane.agent.breath import Breath
from ccplane.agent.events import Detail, Events
from ccplane.agent.flow import FlowControl
from ccplane.agent.programs import ProgramSet
from ccplane.agent.rows import row_of, rows_of
from ccplane.agent.source import Past, Version, version_of
from ccplane.agent.writer import Writer
from ccplane.base.errors import FlowGone
from ccplane.base.flows import FlowInfo, FlowStats
from ccplane.datapath.protocol import Datapath, Reports
from telemetry.schema import Sample

Source = tuple[str, str]
"""Kind and sender of samples."""

Changed = Mapping[str, int]
"""Number of the last change by name of a parameter."""

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
        params_at: Number of the last change of parameters before the instance was made.
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


class Failures(Protocol):
    """Where exceptions of algorithms go: the plane."""

    def fail(self, live: Live, error: BaseException, callback: str) -> None:
        """Give one flow to the fallback, because its algorithm raised."""
        ...

    def fail_all(self, host: Host, error: BaseException, callback: str) -> None:
        """Give all flows of an algorithm to the fallback, because the instance that they share raised."""
        ...


class Host:
    """One running algorithm.

    Attributes:
        vectorised: Whether reports come as arrays.
        name: Name of the algorithm.
        cc_name: Congestion-control name of its own, empty for none.
        algorithm: Its class.
        programs: Its installed programs.
        version: What the class was made of.
        settle: Sets what was set for flows like a new one before it is given to the algorithm.
    """

    vectorised: bool

    def __init__(self, running: Running, datapath: Datapath, events: Events, writer: Writer) -> None:
        """Install the programs.

        Args:
            running: The algorithm.
            datapath: Where its flows are.
            events: Where it tells what happens to them.
            writer: What they write with.

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
        self.settle: Callable[[Live], None] | None = None
        self._writer = writer
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
        return FlowControl(info, programs, self._writer, self._tell, one_of_many=self.vectorised)

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

    def give_away(self, flow_id: int, instance: Algorithm | None, stats: FlowStats | None) -> None:
        """Tell the algorithm that another one has the flow now; raises what the algorithm raises.

        Args:
            flow_id: The flow.
            instance: What steered it; None if all flows share an instance, or it had failed.
            stats: Its totals.
        """
        raise NotImplementedError

    def deliver(self, pairs: Sequence[tuple[Live, Sample]], failures: Failures, breath: Breath) -> None:
        """Hand samples to flows that this algorithm steers, in order."""
        raise NotImplementedError

    def lose(self, lives: Sequence[Live], source: Source, failures: Failures, breath: Breath) -> None:
        """Tell flows that a source of telemetry is lost: its kind and sender."""
        raise NotImplementedError

    def tell_params(
        self, lives: Sequence[Live], changed: Changed, failures: Failures, breath: Breath
    ) -> None:
        """Tell instances which parameters were set since they were made, for their class or for themselves.

        Args:
            lives: The flows that this algorithm steers.
            changed: Number of the last change by name of the parameter.
            failures: Where exceptions go.
            breath: Drawn every now and then.
        """
        raise NotImplementedError

    def owns(self, instance: object) -> bool:
        """Return whether this is the instance that all flows share."""
        return False

    def row_of_last(self, live: Live) -> dict[str, Any] | None:
        """Return the last report of a flow as streams have it; None if there is none."""
        raise NotImplementedError

    def failed(self, flow_id: int) -> None:
        """Take note that the fallback has a flow."""

    def forget(self, flow_id: int) -> None:
        """Forget that a flow failed, because another algorithm has it now."""

    def restart(self) -> None:
        """Give up the instance that all flows share, because it raised; the next flow makes another."""


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

    def give_away(self, flow_id: int, instance: Algorithm | None, stats: FlowStats | None) -> None:
        """Call `on_close`."""
        if instance is not None:
            with suppress(FlowGone):
                instance.on_close(stats or FlowStats(flow_id))

    def deliver(self, pairs: Sequence[tuple[Live, Sample]], failures: Failures, breath: Breath) -> None:
        """Call `on_telemetry` sample by sample."""
        for live, sample in breath.between(pairs):
            if live.instance is not None and not live.failed:
                with _guarded(live, failures, "on_telemetry"):
                    live.instance.on_telemetry(sample)

    def lose(self, lives: Sequence[Live], source: Source, failures: Failures, breath: Breath) -> None:
        """Call `on_telemetry_lost` flow by flow."""
        for live in breath.between(lives):
            if live.instance is not None and not live.failed:
                with _guarded(live, failures, "on_telemetry_lost"):
                    live.instance.on_telemetry_lost(*source)

    def tell_params(
        self, lives: Sequence[Live], changed: Changed, failures: Failures, breath: Breath
    ) -> None:
        """Call `on_params` flow by flow."""
        for live in breath.between(lives):
            names = frozenset(name for name, change in changed.items() if change > live.params_at)
            if names and live.instance is not None:
                with _guarded(live, failures, "on_params"):
                    live.instance.on_params(names)

    def row_of_last(self, live: Live) -> dict[str, Any] | None:
        """Return the last report that the instance got."""
        return None if live.last_report is None else row_of(live.last_report)


class VectorHost(Host):
    """An algorithm with one instance for all its flows.

    Attributes:
        instance: The instance; None before the first flow.
        params_at: As of `Live`.
    """

    vectorised = True

    def __init__(self, running: Running, datapath: Datapath, events: Events, writer: Writer) -> None:
        """Install the programs; the first flow makes the instance."""
        super().__init__(running, datapath, events, writer)
        self.instance: VectorAlgorithm | None = None
        self.params_at = changes()
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

    def give_away(self, flow_id: int, instance: Algorithm | None, stats: FlowStats | None) -> None:
        """Call `on_close`."""
        self.leave(flow_id)

    def deliver(self, pairs: Sequence[tuple[Live, Sample]], failures: Failures, breath: Breath) -> None:
        """Call `on_telemetry` once."""
        if self.instance is not None:
            with _guarded_all(self, failures, "on_telemetry"):
                theirs = [(live.flow.info.flow_id, sample) for live, sample in pairs]
                self.write(self.instance.on_telemetry(theirs))

    def lose(self, lives: Sequence[Live], source: Source, failures: Failures, breath: Breath) -> None:
        """Call `on_telemetry_lost` once."""
        if self.instance is not None:
            with _guarded_all(self, failures, "on_telemetry_lost"):
                self.instance.on_telemetry_lost([live.flow.info.flow_id for live in lives], *source)

    def tell_params(
        self, lives: Sequence[Live], changed: Changed, failures: Failures, breath: Breath
    ) -> None:
        """Call `on_params` once."""
        names = frozenset(name for name, change in changed.items() if change > self.params_at)
        if names and self.instance is not None:
            with _guarded_all(self, failures, "on_params"):
                self.write(self.instance.on_params(names))

    def owns(self, instance: object) -> bool:
        """Return whether this is the instance of all flows."""
        return self.instance is instance

    def failed(self, flow_id: int) -> None:
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

    def row_of_last(self, live: Live) -> dict[str, Any] | None:
        """Return the last report of a flow; None if it is not among the last of all."""
        for reports in reversed(self._recent):
            rows = np.flatnonzero(reports["flow_id"] == live.flow.info.flow_id)
            if len(rows):
                (row,) = rows_of(reports[rows[-1:]], lambda flow_id: True)
                return row
        return None

    def write(self, decided: Decided) -> None:
        """Write what the instance decided.

        Raises:
            ParamError: As `ccplane.agent.vector.send`.
            RegisterError: Likewise.
        """
        if decided is None:
            return
        for updates in (decided,) if isinstance(decided, Updates) else decided:
            self._writer.send(updates)

    def replace(self, instance: VectorAlgorithm | None, flows: dict[int, FlowControl]) -> None:
        """Take another instance, which has all these flows, those that failed included."""
        self.instance, self._flows, self.params_at = instance, flows, changes()
        self._failed.clear()

    def forget(self, flow_id: int) -> None:
        """Forget that a flow failed, because another algorithm has it now."""
        self._failed.discard(flow_id)


@contextmanager
def _guarded(live: Live, failures: Failures, callback: str) -> Iterator[None]:
    try:
        yield
    except FlowGone:
        pass  # its close event follows
    except BaseException as error:
        failures.fail(live, error, callback)


@contextmanager
def _guarded_all(host: Host, failures: Failures, callback: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        failures.fail_all(host, error, callback)


def made(algorithm: AnyAlgorithm, flows: Mapping[int, FlowControl]) -> VectorAlgorithm:
    """Return a new instance of a vectorised algorithm that has these flows."""
    instance = cast("type[VectorAlgorithm]", algorithm)()
    instance.flows = flows
    return instance


def host_for(running: Running, datapath: Datapath, events: Events, writer: Writer) -> SingleHost | VectorHost:
    """Return the host for an algorithm, its programs installed.

    Raises:
        VerifierError: If the kernel refuses a program.
    """
    kind = VectorHost if issubclass(running.algorithm, VectorAlgorithm) else SingleHost
    return kind(running, datapath, events, writer)
