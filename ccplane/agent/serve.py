"""Runs a plan on a datapath, from loading to the stop."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType

from broker.embedded import EmbeddedBroker
from broker.options import BusOptions
from ccp_algs.siblings import directories_of
from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.audit import Audit, AuditLog
from ccplane.agent.blame import Interrupted
from ccplane.agent.bus import emit, status_of
from ccplane.agent.canary.canaries import ENDS
from ccplane.agent.changes import Reloaded
from ccplane.agent.control import ControlOptions, control_socket
from ccplane.agent.description import Plan, assembled
from ccplane.agent.events import Event
from ccplane.agent.files import Files, ReadingThread
from ccplane.agent.inbox import Inbox
from ccplane.agent.known_good import KnownGood
from ccplane.agent.lifecycle import Lifecycle, SocketOptions, held
from ccplane.agent.management import Management, managed
from ccplane.agent.metrics import MetricsAddress, MetricsServer, listening
from ccplane.agent.priority import raise_priority, raise_thread
from ccplane.agent.runfile import RunFile, RunInfo, running
from ccplane.agent.supervised import supervised
from ccplane.agent.upgrade import Upgrade, continue_service
from ccplane.agent.watch import Reported, Watcher
from ccplane.base.errors import CcpError
from ccplane.base.notify import Manager, fed
from ccplane.datapath import ebpf

log = logging.getLogger("ccplane.agent")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Options of an agent.

    Attributes:
        load: The datapath, and how to load it.
        duration_s: Stop after this time [s]; None for never.
        unload_at_end: Remove everything from the kernel at the end; else the registrations stay.
        keep_capabilities: Keep the capabilities that a running agent does not need.
        realtime: Run the agent loop with real-time priority, if permitted.
        run_dir: Directory of the run file; None for the directory where commands look for it.
        control: The control socket; None for none.
        on_reload: Takes the outcome of a reload: name, and result or error. Watches and reloads the files of
            the algorithms; None does not watch them.
        broker: The telemetry bus, or a broker to be started with the agent; None for none.
        host: The agent's name on the bus; None for the host name.
        metrics: Address of the Prometheus metrics; None for none.
        audit: File of the audit log; None for none.
        known_good: Stores known-good versions; None stores none.
    """

    load: ebpf.LoadOptions | SocketOptions = field(default_factory=ebpf.LoadOptions)
    duration_s: float | None = None
    unload_at_end: bool = False
    keep_capabilities: bool = False
    realtime: bool = True
    run_dir: Path | None = None
    control: ControlOptions | None = None
    on_reload: Reported | None = None
    broker: BusOptions | EmbeddedBroker | None = None
    host: str | None = None
    metrics: MetricsAddress | None = None
    audit: Path | None = None
    known_good: KnownGood | None = None


def serve(
    ready: Plan,
    options: ServeOptions,
    *,
    on_start: Callable[[AgentLoop, Plan], None] | None = None,
    each_turn: Callable[[AgentLoop], None] | None = None,
) -> AgentLoop:
    """Run algorithms on a datapath until SIGINT, SIGTERM or the end of the duration.

    At the end flows go to the fallback; the registrations stay, so the next agent can adopt the flows.

    Args:
        ready: The plan, see `ccplane.agent.description`.
        options: Options.
        on_start: Called once, before the loop starts.
        each_turn: Called after every batch; must be fast.

    Returns:
        The stopped agent loop, with its counters.

    Raises:
        LoadError: If the datapath cannot be loaded, or another agent uses it.
        VerifierError: If the kernel refuses a program.
    """
    manager = Manager.from_environment()
    while True:
        agent_loop, serves_again = _serve(ready, options, manager, on_start, each_turn)
        if not serves_again:
            return agent_loop
        log.error("the agent that took the flows over ended before it served: this agent starts again")
        if isinstance(options.broker, EmbeddedBroker):
            options.broker.waits = True  # for the end of that agent's broker


def _serve(
    ready: Plan,
    options: ServeOptions,
    manager: Manager | None,
    on_start: Callable[[AgentLoop, Plan], None] | None,
    each_turn: Callable[[AgentLoop], None] | None,
) -> tuple[AgentLoop, bool]:
    """Serve until the agent stops; return also whether it has to serve again."""
    lifecycle = held(options.load)
    with ExitStack() as around:
        with _cleared_up(lifecycle):
            # Whatever can fail comes before `adopt`: until then a running agent keeps its flows.
            audit_log = around.enter_context(_audit_log(options.audit))
            datapath = lifecycle.load()
            place = lifecycle.place
            options = _shared(options, place)
            run_file = around.enter_context(RunFile(place, options.run_dir))
            agent_loop = assembled(ready, datapath)
            if isinstance(options.load, ebpf.LoadOptions):
                agent_loop.keepalive.unanswered_s = options.load.report_timeout_ms / 1000
            audit = None if audit_log is None else Audit(audit_log, agent_loop)
            files = around.enter_context(_reading(agent_loop, watching=options.on_reload is not None))
            ways = around.enter_context(
                managed(
                    agent_loop, ebpf.compile_program, options.control, start=False, files=files, audit=audit
                )
            )
            if audit is not None:
                _trials_written(agent_loop, ways, audit)
            if options.known_good is not None:
                ways.loader.judged = options.known_good.judged
            connect = around.enter_context(_dispatch(agent_loop, ways, options))
            metrics = around.enter_context(_metrics(agent_loop, ways, options, lifecycle, audit_log))
            lifecycle.adopt(agent_loop)
            listens = _listens(options)
            run_file.write(_run_info(agent_loop, place, listens))
            _keep_written(agent_loop, lambda: run_file.write(_run_info(agent_loop, place, listens)))
            if options.realtime:
                raise_priority()
            connect()
            if not options.keep_capabilities:
                ebpf.drop_capabilities()
                around.enter_context(_children_without_any())
            ways.start()
            if metrics is not None:
                metrics.start(_give_up_all if not options.keep_capabilities else lambda: None)
            around.enter_context(_watching(agent_loop, ways, options.on_reload, audit))
            upgrade = ways.requests.upgrade = Upgrade(manager)
            around.enter_context(supervised(agent_loop, manager, lambda: bool(agent_loop.successor_pid)))
            agent_loop.adopt()
        with _stopped_by_signals(agent_loop) as signals, ExitStack() as feeding:
            if on_start is not None:
                on_start(agent_loop, ready)

            def check_successor() -> None:
                lifecycle.each_turn(agent_loop)
                if agent_loop.successor_pid:
                    upgrade.succeeded(agent_loop.successor_pid)
                    run_file.leave()

            agent_loop.each_turn.append(check_successor)
            agent_loop.run(options.duration_s, None if each_turn is None else lambda: each_turn(agent_loop))
            if manager is not None and agent_loop.successor_pid:
                feeding.enter_context(fed(manager))
            around.close()
            lifecycle.release()  # last: the next agent then takes the registered names over
            if agent_loop.successor_pid and not lifecycle.is_served():
                return agent_loop, not signals
        if manager is not None and agent_loop.successor_pid:
            if upgrade.taken_over:
                continue_service(manager, agent_loop.successor_pid, lifecycle.place, options.run_dir)
            else:
                manager.emit(STOPPING=1)
        elif options.unload_at_end and not agent_loop.successor_pid:
            lifecycle.unload()
    return agent_loop, False


def _shared(options: ServeOptions, place: str) -> ServeOptions:
    """Return the options with complete addresses, and mark those where a running agent listens."""
    before = running(place, options.run_dir)
    listens = [] if before is None else before.listens
    control, metrics, broker = options.control, options.metrics, options.broker
    if control is not None:
        address = control.address or control_socket(place, options.run_dir)
        control = replace(control, address=address, shares=address in listens)
    if metrics is not None:
        metrics = replace(metrics, shares=str(metrics) in listens)
    if isinstance(broker, EmbeddedBroker):
        broker.waits = broker.waits or _reached_at(broker) in listens
    return replace(options, control=control, metrics=metrics)


def _listens(options: ServeOptions) -> list[str]:
    addresses: list[str] = []
    if options.metrics is not None:
        addresses.append(str(options.metrics))
    if options.control is not None:
        addresses.append(options.control.address)
    if isinstance(options.broker, EmbeddedBroker):
        addresses.append(_reached_at(options.broker))
    return addresses


def _reached_at(broker: EmbeddedBroker) -> str:
    return f"{broker.options.host}:{broker.options.port}"


def _keep_written(agent_loop: AgentLoop, write: Callable[[], None]) -> None:
    """Rewrite the run file when programs or algorithms change."""
    kinds = {
        "algorithm:reloaded",
        "algorithm:loaded",
        "algorithm:switched",
        "program:replaced",
        *ENDS.values(),
    }

    def changed(event: Event) -> None:
        if event.kind in kinds:
            write()

    agent_loop.events.listen(changed)


def _trials_written(agent_loop: AgentLoop, ways: Management, audit: Audit) -> None:
    """Record the end of trials in the audit log, on the loader's thread because it waits for the disk."""

    def ended(event: Event) -> None:
        if event.kind in ENDS.values():
            ways.loader.submit(lambda: audit.tried(event))

    agent_loop.events.listen(ended)


@contextmanager
def _reading(agent_loop: AgentLoop, *, watching: bool) -> Iterator[Files]:
    """Yield a reader of the algorithms' files: watching them needs a capability that the agent drops."""
    if not watching:
        yield Files()
        return
    own = [host.version.file for host in agent_loop.hosts.values() if host.version.has_file]
    directories = {directory for file in own for directory in directories_of(file)}
    files = ReadingThread(directories)
    try:
        yield files
    finally:
        files.close()


@contextmanager
def _watching(
    agent_loop: AgentLoop, ways: Management, reported: Reported | None, audit: Audit | None
) -> Iterator[None]:
    """Reload saved files during a block."""
    if reported is None:
        yield
        return

    def saved(name: str, done: Reloaded | CcpError) -> None:
        if audit is not None:
            audit.saved(name, done if isinstance(done, CcpError) else None)
        reported(name, done)

    watcher = Watcher(agent_loop, ways.loader, saved)
    watcher.start()
    try:
        yield
    finally:
        watcher.close()


@contextmanager
def _dispatch(agent_loop: AgentLoop, ways: Management, options: ServeOptions) -> Iterator[Callable[[], None]]:
    """Prepare the connection to the telemetry bus; yield a function that connects.

    An agent that takes over connects once its predecessor has left, because both have the same name on the
    bus, and before it drops its capabilities.
    """
    if options.broker is None:
        yield lambda: None
        return
    host = options.host or socket.gethostname()
    with ExitStack() as around:
        embedded: EmbeddedBroker | None = None
        if isinstance(options.broker, EmbeddedBroker):
            embedded = around.enter_context(options.broker.with_user(host))
        broker = options.broker.options if isinstance(options.broker, EmbeddedBroker) else options.broker
        inbox = Inbox(broker, sender=host, status=status_of(agent_loop, host), wake=agent_loop.datapath.wake)
        ways.receive(agent_loop, inbox, host)
        agent_loop.events.listen(lambda event: emit(inbox, event))

        def begin() -> None:
            if options.realtime:
                raise_thread()
            if not options.keep_capabilities:
                ebpf.drop_capabilities()

        def connect() -> None:
            if embedded is not None:
                embedded.proceed()
            inbox.start(begin)
            around.callback(inbox.stop)

        yield connect


@contextmanager
def _audit_log(path: Path | None) -> Iterator[AuditLog | None]:
    """Open the audit log; its directory may be writable only by root."""
    if path is None:
        yield None
        return
    audit_log = AuditLog(path)
    try:
        yield audit_log
    finally:
        audit_log.close()


@contextmanager
def _metrics(
    agent_loop: AgentLoop,
    ways: Management,
    options: ServeOptions,
    datapath: Lifecycle,
    audit_log: AuditLog | None,
) -> Iterator[MetricsServer | None]:
    """Open the socket for Prometheus; it is answered later, without capabilities."""
    if options.metrics is None:
        yield None
        return
    received = ways.requests
    with (
        datapath.metrics() as collectors,
        listening(
            options.metrics,
            agent_loop,
            received.dispatch,
            received.inbox,
            *collectors,
            audit_log=audit_log,
        ) as server,
    ):
        yield server


def _give_up_all() -> None:
    ebpf.drop_capabilities([])


@contextmanager
def _children_without_any() -> Iterator[None]:
    """Drop the agent's remaining capabilities in processes that an algorithm forks."""
    serving = True

    def give_up() -> None:
        if serving:
            _give_up_all()

    os.register_at_fork(after_in_child=give_up)  # cannot be unregistered
    try:
        yield
    finally:
        serving = False


@contextmanager
def _cleared_up(datapath: Lifecycle) -> Iterator[None]:
    """Undo the loading if the start fails."""
    try:
        yield
    except BaseException:
        datapath.undo()
        raise


def _run_info(agent_loop: AgentLoop, place: str, listens: list[str]) -> RunInfo:
    return RunInfo(
        pid=os.getpid(),
        pin_dir=place,
        default=agent_loop.default,
        algorithms={host.cc_name: host.name for host in agent_loop.hosts.values() if host.cc_name},
        programs={
            installed.handle: f"{host.name}/{installed.name}"
            for host in agent_loop.hosts.values()
            for installed in host.programs.all()
        },
        rules=[rule.text for rule in agent_loop.rules],
        listens=listens,
    )


@contextmanager
def _stopped_by_signals(agent_loop: AgentLoop) -> Iterator[list[int]]:
    """Stop the loop cleanly on SIGINT or SIGTERM; a second signal interrupts a stuck algorithm.

    Yields the signals that came.
    """
    seen: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield seen  # Python delivers signals only to the main thread; the caller uses request_stop
        return

    def stop(number: int, frame: FrameType | None) -> None:
        if seen:
            raise Interrupted
        seen.append(number)
        agent_loop.request_stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
