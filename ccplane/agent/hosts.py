"""Running algorithms: how each kind receives flows, reports, telemetry and closes.

An `Algorithm` has one instance per flow (`SingleHost`), a `VectorAlgorithm` one for all its flows
(`VectorHost`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol, cast

from ccp_algs import Algorithm, Updates, VectorAlgorithm
from ccp_algs.api import AnyAlgorithm, Decided
from ccp_algs.params import changes
from ccplane.agent.algorithms import Running
from ccplane.agent.events import Detail, Events
from ccplane.agent.flow import FlowControl
from ccplane.agent.keepalive import Keepalive
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
"""Number of the last change by parameter name."""

RECENT_ROWS: Final = 65_536
"""Reports of a vectorised algorithm kept for display: a few megabytes."""


class Live:
    """An open flow.

    Attributes:
        flow: Writes to the datapath.
        host: Its algorithm.
        instance: The algorithm's instance for this flow; None before `start`, and for vectorised algorithms.
        on_report: The instance's callback; None if reports come as arrays.
        failed: The algorithm raised; the flow runs the fallback.
        failure: The exception and its place; None unless it failed.
        last_report: The last report delivered; None before the first, and if reports come as arrays.
        params_at: Number of the last parameter change before the instance was created.
    """

    __slots__ = ("failed", "failure", "flow", "host", "instance", "last_report", "on_report", "params_at")

    def __init__(self, host: Host, flow: FlowControl) -> None:
        self.flow = flow
        self.host = host
        self.instance: Algorithm | None = None
        self.on_report: Callable[[Any], None] | None = None
        self.failed = False
        self.failure: str | None = None
        self.last_report: Any = None
        self.params_at = changes()


class Failures(Protocol):
    """Handles exceptions of algorithms; implemented by the agent loop."""

    def fail(self, live: Live, error: BaseException, callback: str) -> None:
        """Move a flow to the fallback, because its algorithm raised."""
        ...

    def fail_all(self, host: Host, error: BaseException, callback: str) -> None:
        """Move all flows of an algorithm to the fallback, because their shared instance raised."""
        ...


class Host:
    """One running algorithm.

    Attributes:
        vectorised: Whether reports come as arrays.
        name: Name of the algorithm.
        cc_name: Its congestion-control name; empty if it has none.
        algorithm: Its class.
        programs: Its installed programs.
        version: The source of the class.
        settle: Sets the parameters of matching rules on a new flow, before `on_create`.
    """

    vectorised: bool

    def __init__(self, running: Running, datapath: Datapath, events: Events, writer: Writer) -> None:
        """Install the programs.

        Raises:
            VerifierError: If the kernel refuses a program; none stays installed then.
            LoadError: `load.extension`, if the datapath lacks an extension that the algorithm uses.
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
        """The running version, for a later rollback."""
        return Past.of(self.algorithm, self.version)

    def live(self, info: FlowInfo) -> Live:
        """Return a flow of this algorithm, not yet started."""
        return Live(self, self.flow(info, self.programs))

    def flow(self, info: FlowInfo, programs: ProgramSet) -> FlowControl:
        """Return the flow object for an instance, not yet opened."""
        return FlowControl(info, programs, self._writer, self._report, one_of_many=self.vectorised)

    def _report(self, kind: str, info: FlowInfo, detail: Detail) -> None:
        self._events.emit(kind, self.name, info, **detail)

    def start(self, live: Live) -> None:
        """Start the algorithm on the flow; propagates the algorithm's exceptions."""
        raise NotImplementedError

    def message_extension(self, live: Live, extension: str, message: bytes) -> None:
        """Deliver an extension's event about a flow; propagates the algorithm's exceptions."""
        raise NotImplementedError

    def end(self, live: Live, stats: FlowStats | None) -> None:
        """Notify the algorithm that the flow closed; propagates the algorithm's exceptions."""
        raise NotImplementedError

    def give_away(self, flow_id: int, instance: Algorithm | None, stats: FlowStats | None) -> None:
        """Notify the algorithm that the flow moved to another algorithm; propagates its exceptions.

        Args:
            flow_id: The flow.
            instance: Its instance; None if all flows share one, or the flow had failed.
            stats: Its totals.
        """
        raise NotImplementedError

    def deliver(self, pairs: Sequence[tuple[Live, Sample]], failures: Failures, keepalive: Keepalive) -> None:
        """Deliver telemetry samples to flows of this algorithm, in order."""
        raise NotImplementedError

    def lose(self, lives: Sequence[Live], source: Source, failures: Failures, keepalive: Keepalive) -> None:
        """Notify flows that a source of telemetry (kind, sender) is lost."""
        raise NotImplementedError

    def report_params(
        self, lives: Sequence[Live], changed: Changed, failures: Failures, keepalive: Keepalive
    ) -> None:
        """Notify instances which parameters were set since their creation, on the class or on themselves."""
        raise NotImplementedError

    def owns(self, instance: object) -> bool:
        """Return whether `instance` is one that all flows share."""
        return False

    def row_of_last(self, live: Live) -> dict[str, Any] | None:
        """Return the last report of a flow in the format of the streams; None if there is none."""
        raise NotImplementedError

    def failed(self, flow_id: int) -> None:
        """Record that a flow runs the fallback."""

    def forget(self, flow_id: int) -> None:
        """Clear the failure of a flow that moved to another algorithm."""

    def restart(self) -> None:
        """Discard the shared instance after an exception; the next flow creates a new one."""


class SingleHost(Host):
    """An algorithm with one instance per flow."""

    vectorised = False

    def start(self, live: Live) -> None:
        """Create the instance, call `on_create`, and send its settings and the program in one update."""
        instance = cast("type[Algorithm]", self.algorithm)()
        instance.flow = live.flow
        live.instance = instance
        if self.settle is not None:
            self.settle(live)
        live.params_at = changes()
        instance.on_create(live.flow.info)
        live.flow.open()
        live.on_report = instance.on_report

    def message_extension(self, live: Live, extension: str, message: bytes) -> None:
        """Call `on_extension`."""
        if live.instance is not None:
            live.instance.on_extension(extension, message)

    def end(self, live: Live, stats: FlowStats | None) -> None:
        """Call `on_close`; the totals are unknown if the close event was lost."""
        if live.instance is not None:
            live.instance.on_close(stats or FlowStats(live.flow.info.flow_id))

    def give_away(self, flow_id: int, instance: Algorithm | None, stats: FlowStats | None) -> None:
        """Call `on_close`."""
        if instance is not None:
            with suppress(FlowGone):
                instance.on_close(stats or FlowStats(flow_id))

    def deliver(self, pairs: Sequence[tuple[Live, Sample]], failures: Failures, keepalive: Keepalive) -> None:
        """Call `on_telemetry` for each sample."""
        for live, sample in keepalive.between(pairs):
            if live.instance is not None and not live.failed:
                with _guarded(live, failures, "on_telemetry"):
                    live.instance.on_telemetry(sample)

    def lose(self, lives: Sequence[Live], source: Source, failures: Failures, keepalive: Keepalive) -> None:
        """Call `on_telemetry_lost` for each flow."""
        for live in keepalive.between(lives):
            if live.instance is not None and not live.failed:
                with _guarded(live, failures, "on_telemetry_lost"):
                    live.instance.on_telemetry_lost(*source)

    def report_params(
        self, lives: Sequence[Live], changed: Changed, failures: Failures, keepalive: Keepalive
    ) -> None:
        """Call `on_params` for each flow."""
        for live in keepalive.between(lives):
            names = frozenset(name for name, change in changed.items() if change > live.params_at)
            if names and live.instance is not None:
                with _guarded(live, failures, "on_params"):
                    live.instance.on_params(names)

    def row_of_last(self, live: Live) -> dict[str, Any] | None:
        """Return the last report delivered."""
        return None if live.last_report is None else row_of(live.last_report)


class VectorHost(Host):
    """An algorithm with one instance for all its flows.

    Attributes:
        instance: The instance; None before the first flow.
        params_at: As of `Live`.
    """

    vectorised = True

    def __init__(self, running: Running, datapath: Datapath, events: Events, writer: Writer) -> None:
        super().__init__(running, datapath, events, writer)
        self.instance: VectorAlgorithm | None = None
        self.params_at = changes()
        self._flows: dict[int, FlowControl] = {}
        self._failed: set[int] = set()
        self._recent: deque[Reports] = deque()
        self._recent_rows = 0

    def restart(self) -> None:
        """Discard the instance after an exception; the next flow creates a new one."""
        self.instance = None
        self._flows = {}

    def ready(self) -> VectorAlgorithm:
        """Return the instance, creating it if necessary; propagates exceptions of its class."""
        if self.instance is None:
            self.params_at = changes()
            self.instance = made(self.algorithm, self._flows)
        return self.instance

    def join(self, flow: FlowControl) -> None:
        """Give the instance a flow that is not yet opened; propagates the algorithm's exceptions."""
        instance = self.ready()
        self._flows[flow.info.flow_id] = flow
        try:
            instance.on_create(flow.info)
        except BaseException:
            del self._flows[flow.info.flow_id]
            raise

    def leave(self, flow_id: int) -> None:
        """Remove a flow from the instance; propagates the algorithm's exceptions."""
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

    def message_extension(self, live: Live, extension: str, message: bytes) -> None:
        """Call `on_extension`."""
        if self.instance is not None:
            self.instance.on_extension(live.flow.info.flow_id, extension, message)

    def give_away(self, flow_id: int, instance: Algorithm | None, stats: FlowStats | None) -> None:
        """Call `on_close`."""
        self.leave(flow_id)

    def deliver(self, pairs: Sequence[tuple[Live, Sample]], failures: Failures, keepalive: Keepalive) -> None:
        """Call `on_telemetry` once."""
        if self.instance is not None:
            with _guarded_all(self, failures, "on_telemetry"):
                selected = [(live.flow.info.flow_id, sample) for live, sample in pairs]
                self.write(self.instance.on_telemetry(selected))

    def lose(self, lives: Sequence[Live], source: Source, failures: Failures, keepalive: Keepalive) -> None:
        """Call `on_telemetry_lost` once."""
        if self.instance is not None:
            with _guarded_all(self, failures, "on_telemetry_lost"):
                self.instance.on_telemetry_lost([live.flow.info.flow_id for live in lives], *source)

    def report_params(
        self, lives: Sequence[Live], changed: Changed, failures: Failures, keepalive: Keepalive
    ) -> None:
        """Call `on_params` once."""
        names = frozenset(name for name, change in changed.items() if change > self.params_at)
        if names and self.instance is not None:
            with _guarded_all(self, failures, "on_params"):
                self.write(self.instance.on_params(names))

    def owns(self, instance: object) -> bool:
        """Return whether `instance` is the one that all flows share."""
        return self.instance is instance

    def failed(self, flow_id: int) -> None:
        """Deliver no more reports of the flow to the instance, because the flow runs the fallback."""
        self._failed.add(flow_id)
        self._flows.pop(flow_id, None)

    def feed(self, reports: Reports, program: str) -> int:
        """Deliver reports to the instance and write its decisions; propagates the algorithm's exceptions.

        Returns:
            Number of reports delivered: those of flows that did not fail.
        """
        if self._failed:
            import numpy as np

            failed = np.fromiter(self._failed, np.uint64, len(self._failed))
            reports = reports[~np.isin(reports["flow_id"], failed)]
        if self.instance is not None and len(reports):
            self._keep(reports)
            self.write(self.instance.on_reports(reports, program))
        return len(reports)

    def _keep(self, reports: Reports) -> None:
        """Keep the last arrays; keeping a row per flow would cost time for every report."""
        self._recent.append(reports)
        self._recent_rows += len(reports)
        while self._recent_rows > RECENT_ROWS and len(self._recent) > 1:
            self._recent_rows -= len(self._recent.popleft())

    def row_of_last(self, live: Live) -> dict[str, Any] | None:
        """Return the last report of a flow; None if it is not among the reports kept."""
        for reports in reversed(self._recent):
            (rows,) = (reports["flow_id"] == live.flow.info.flow_id).nonzero()
            if len(rows):
                (row,) = rows_of(reports[rows[-1:]], lambda flow_id: True)
                return row
        return None

    def write(self, decided: Decided) -> None:
        """Write the instance's decisions; same errors as `ccplane.agent.vector.send`."""
        if decided is None:
            return
        for updates in (decided,) if isinstance(decided, Updates) else decided:
            self._writer.send(updates)

    def replace(self, instance: VectorAlgorithm | None, flows: dict[int, FlowControl]) -> None:
        """Switch to another instance that has all these flows, including flows that had failed."""
        self.instance, self._flows, self.params_at = instance, flows, changes()
        self._failed.clear()

    def forget(self, flow_id: int) -> None:
        """Clear the failure of a flow that moved to another algorithm."""
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
    """Return a new instance of a vectorised algorithm with these flows."""
    instance = cast("type[VectorAlgorithm]", algorithm)()
    instance.flows = flows
    return instance


def host_for(running: Running, datapath: Datapath, events: Events, writer: Writer) -> SingleHost | VectorHost:
    """Return the host for an algorithm, with its programs installed.

    Raises:
        VerifierError: If the kernel refuses a program.
    """
    kind = VectorHost if issubclass(running.algorithm, VectorAlgorithm) else SingleHost
    return kind(running, datapath, events, writer)
