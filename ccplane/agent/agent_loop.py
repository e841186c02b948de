"""The agent loop: it delivers flows and reports to algorithms, and writes their decisions to the datapath.

The whole loop runs on one thread. Only `request_stop` and `call` may be called from another thread.

Vectorised algorithms get a batch as arrays, other algorithms get single reports. In both cases the events of
a flow are delivered in order, that is, created, then reports, then closed.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ccplane.agent.algorithms import Running
from ccplane.agent.blame import is_from_outside, place_of, text_of
from ccplane.agent.canary.trial import Trial
from ccplane.agent.changes import Changes
from ccplane.agent.events import Events
from ccplane.agent.flow import describe
from ccplane.agent.hosts import Host, Live, SingleHost, VectorHost, host_for
from ccplane.agent.keepalive import Keepalive
from ccplane.agent.lost_flows import LostFlows
from ccplane.agent.names import duplicate_algorithm, unknown_algorithm
from ccplane.agent.rules import Rule, choose
from ccplane.agent.writer import Writer
from ccplane.base.errors import FlowGone
from ccplane.base.flows import FlowInfo, FlowStats
from ccplane.base.loglimit import LogLimit
from ccplane.datapath.protocol import (
    CREATED,
    FALLBACK_FAILED,
    REPORT,
    REPORTED,
    Batch,
    Datapath,
    Event,
    Reported,
)

log = logging.getLogger("ccplane.agent")

POLL_MS: Final = 100
"""Timeout of one poll for events [ms]; it delays a stop, but no report."""

EVENTS_PER_HEARTBEAT: Final = 128
"""Events of a batch between two refreshes of the heartbeat; an event may take 1.5 ms."""

RESYNC_CHECK_S: Final = 0.2
"""Interval between checks whether the datapath dropped create or close events [s]."""


@dataclass(slots=True)
class LoopCounters:
    """Counters of the agent loop since its start.

    Attributes:
        flows_created: Flows that got an algorithm, including adopted flows.
        flows_adopted: Flows that existed before the agent, or whose create event was lost.
        flows_closed: Flows that closed.
        reports: Reports delivered.
        reports_stale: Dropped reports of a program that the flow had already stopped running.
        algorithm_errors: Exceptions of algorithms.
        flows_failed: Flows moved to the fallback because of an exception.
        resyncs: Times the list of flows was compared with the datapath's.
    """

    flows_created: int = 0
    flows_adopted: int = 0
    flows_closed: int = 0
    reports: int = 0
    reports_stale: int = 0
    algorithm_errors: int = 0
    flows_failed: int = 0
    resyncs: int = 0


class AgentLoop:
    """Runs algorithms on a datapath.

    Attributes:
        counters: Counters.
        hosts: The running algorithms by name.
        flows: The open flows by id, including flows whose algorithm failed.
        rules: Rules that choose the algorithm of `ccp` flows.
        default: Algorithm for `ccp` flows that match no rule.
        datapath: Where the flows are.
        events: Emits events.
        writer: Writes updates.
        changes: Changes while flows run.
        keepalive: Keepalives during long work.
        on_batch: Called with each batch; may be None.
        each_turn: Called on this thread after each batch.
        successor_pid: Process id of the agent that takes the flows over; 0 if there is none.
        not_renewed: Network namespaces and listeners that keep programs of an earlier agent, one line each.
        trials: New versions on trial by algorithm.
    """

    def __init__(
        self,
        datapath: Datapath,
        algorithms: Sequence[Running],
        rules: Sequence[Rule] = (),
        *,
        default: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Install the programs of all algorithms; `adopt` or `run` then takes the flows over.

        Args:
            datapath: Where the flows are.
            algorithms: Compiled algorithms; at least one.
            rules: Rules that choose the algorithm of `ccp` flows; the first match decides.
            default: Algorithm for `ccp` flows that match no rule; None for the first of `algorithms`.
            clock: Monotonic clock [s].

        Raises:
            UsageError: `algorithm.duplicate` or `algorithm.unknown`.
            VerifierError: If the kernel refuses a program; none stays installed then.
        """
        self.counters = LoopCounters()
        self.datapath = datapath
        self.rules = list(rules)
        self._clock = clock
        self.flows: dict[int, Live] = {}
        self.events = Events()
        self._lost_flows = LostFlows(self.events)
        self.writer = Writer(datapath)
        self.keepalive = Keepalive(datapath.heartbeat, clock)
        self.changes = Changes(self)
        self.on_batch: Callable[[Batch], None] | None = None
        self.each_turn: list[Callable[[], None]] = []
        self.trials: dict[str, Trial] = {}
        self.successor_pid = 0
        self.not_renewed: list[str] = []
        self._calls: deque[Callable[[], None]] = deque()
        self._log_limit = LogLimit(clock)
        self._stop = threading.Event()
        self._deferred: list[tuple[Live, FlowStats | None]] = []
        self._missed_before = 0
        self._created_before = 0
        self._next_check_s = 0.0
        names = [running.name for running in algorithms]
        for name in names:
            if names.count(name) > 1:
                raise duplicate_algorithm(name)
        self.default = default or names[0]
        for wanted in (self.default, *(rule.algorithm for rule in rules)):
            if wanted not in names:
                raise unknown_algorithm(wanted, names, "default or rule")
        self.hosts: dict[str, SingleHost | VectorHost] = {}
        try:
            for running in algorithms:
                self.add_host(running)
        except BaseException:
            for host in self.hosts.values():
                host.programs.uninstall()
            raise

    def add_host(self, running: Running) -> Host:
        """Run an algorithm with an unused name; it has no flows yet.

        Raises:
            VerifierError: If the kernel refuses a program.
        """
        host = self.hosts[running.name] = host_for(running, self.datapath, self.events, self.writer)
        self._index()
        return host

    def remove_host(self, name: str) -> None:
        """Stop an algorithm that has no flows."""
        self.hosts.pop(name).programs.uninstall()
        self._index()

    def _index(self) -> None:
        """Update the lookup tables of running algorithms."""
        self._by_cc_name = {host.cc_name: host for host in self.hosts.values() if host.cc_name}
        self._any_single = any(not host.vectorised for host in self.hosts.values())
        self._vectorised = [host for host in self.hosts.values() if isinstance(host, VectorHost)]

    # Running

    def run(self, duration_s: float | None = None, each_turn: Callable[[], None] | None = None) -> None:
        """Adopt existing flows and run until `request_stop`; then close the datapath.

        Args:
            duration_s: Stop after this time [s]; None for never.
            each_turn: Called after every batch, for status lines; must be fast.
        """
        end_s = None if duration_s is None else self._clock() + duration_s
        try:
            self.adopt()
            while not self._stop.is_set() and (end_s is None or self._clock() < end_s):
                self.turn(POLL_MS)
                if each_turn is not None:
                    each_turn()
        finally:
            self.datapath.close()

    def request_stop(self) -> None:
        """Make `run` return after the current batch; safe from any thread and from signal handlers."""
        self._stop.set()

    def call(self, what: Callable[[], None]) -> None:
        """Call a function, which must not raise, on the agent's thread between two batches. Thread-safe."""
        self._calls.append(what)
        self.datapath.wake()

    def turn(self, timeout_ms: int) -> int:
        """Wait for one batch, at most `timeout_ms` [ms], and handle it; return its number of events."""
        batch = self.datapath.poll(timeout_ms)
        n = len(batch)
        if n:
            if self.on_batch is not None:
                self.on_batch(batch)
            self._dispatch(batch)
        self.keepalive.answered()
        for _ in range(len(self._calls)):
            self._calls.popleft()()
        self.changes.report_params()
        for do in self.each_turn:
            do()
        # At the end the flows may be another agent's.
        if not self._stop.is_set() and self._clock() >= self._next_check_s:
            self._check_missed()
        return n

    # Flows

    def adopt(self) -> int:
        """Take over existing flows that have no algorithm yet; return their number."""
        counters = self.datapath.counters()
        self._lost_flows.begin(counters)
        return self._take_over(self._look())

    def _look(self) -> Sequence[FlowInfo]:
        """Read the datapath's counters, then return all current flows."""
        counters = self.datapath.counters()
        self._missed_before = _missed(counters)
        self._created_before = counters.get("flows_created", 0)
        return self.datapath.flows()

    def _take_over(self, flows: Sequence[FlowInfo]) -> int:
        before = self.counters.flows_created
        for info in self.keepalive.between(flows):
            self._create(info)
            self.keepalive.answered()
        adopted = self.counters.flows_created - before
        self.counters.flows_adopted += adopted
        return adopted

    def resync(self) -> None:
        """Compare the list of flows with the datapath's, after create or close events were lost."""
        self.counters.resyncs += 1
        flows = self._look()
        there = {info.flow_id for info in flows}
        for flow_id in self.keepalive.between([flow_id for flow_id in self.flows if flow_id not in there]):
            self._close(flow_id, None)
        self._finish_closes()
        self._take_over(flows)

    def flow_ids(self, algorithm: str | None = None) -> list[int]:
        """Return the flows controlled by an algorithm (by any, if None), without failed flows."""
        return [
            flow_id
            for flow_id, live in self.flows.items()
            if not live.failed and (algorithm is None or live.host.name == algorithm)
        ]

    def _choose(self, info: FlowInfo) -> Host:
        host = self._by_cc_name.get(info.cc_name)
        if host is None:
            host = self.hosts[choose(self.rules, info) or self.default]
        trial = self.trials.get(host.name)
        return self.hosts[trial.name] if trial is not None and trial.takes(info) else host

    def _create(self, info: FlowInfo) -> None:
        if info.flow_id in self.flows:
            return  # already adopted; its create event came later
        live = self._choose(info).live(info)
        self.flows[info.flow_id] = live
        self.counters.flows_created += 1
        self.events.emit("flow:created", live.host.name, info)
        try:
            live.host.start(live)
        except FlowGone:
            log.debug("flow %d closed while its algorithm started", info.flow_id)
        except BaseException as error:
            self.fail(live, error, "on_create")

    def _is_ghost(self, flow_id: int) -> bool:
        """Return whether a create event belongs to a flow that closed before the last listing of flows.

        The upper half of the id counts flows. A newer flow closes after the listing, and its close event
        arrives or is counted as missed.
        """
        return 0 < flow_id >> 32 <= self._created_before and self.datapath.stats(flow_id) is None

    def _close(self, flow_id: int, stats: FlowStats | None) -> None:
        live = self.flows.pop(flow_id, None)
        if live is None:
            return
        self.counters.flows_closed += 1
        for trial in self.trials.values():
            trial.closed(flow_id, stats)
        self.events.emit("flow:closed", live.host.name, live.flow.info)
        live.flow.retire()
        if live.host.vectorised:
            self._deferred.append((live, stats))  # its reports of this batch come first
        elif not live.failed:
            self._finish_close(live, stats)

    def _reported(self, reported: Reported) -> None:
        live = self.flows.get(reported.flow_id)
        if live is None or live.failed:
            return
        try:
            live.host.message_extension(live, reported.extension, reported.raw)
        except FlowGone:
            pass  # its close event follows
        except BaseException as error:
            self.fail(live, error, "on_extension")

    def _finish_close(self, live: Live, stats: FlowStats | None) -> None:
        try:
            live.host.end(live, stats)
        except FlowGone:
            pass  # on_close wrote to the closed flow
        except BaseException as error:
            self.log_failure(live.host, live, error, "on_close")

    def _finish_closes(self) -> None:
        for live, stats in self.keepalive.between(self._deferred):
            self._finish_close(live, stats)
        self._deferred.clear()

    # Batches

    def _dispatch(self, batch: Batch) -> None:
        # Reports of vectorised algorithms become Python objects only if another algorithm needs objects.
        events: Iterable[Event] = batch if self._any_single else batch.events()
        flow_of = self.flows.get
        answered = self.datapath.answered
        reports = stale = 0
        left = EVENTS_PER_HEARTBEAT
        for event in events:
            if not left:
                self.datapath.heartbeat()
                left = EVENTS_PER_HEARTBEAT
            left -= 1
            if event.EVENT_KIND == REPORT:
                live = flow_of(event.flow_id)
                if live is None or event.program_handle != live.flow.handle:
                    stale += 1
                    continue
                on_report = live.on_report
                if on_report is None:
                    continue  # delivered with the arrays
                reports += 1
                live.last_report = event
                try:
                    on_report(event)
                except FlowGone:
                    continue  # its close event follows
                except BaseException as error:
                    self.fail(live, error, "on_report")
                else:
                    answered(event)
            elif event.EVENT_KIND == CREATED:
                if event.info.flow_id in self.flows:
                    answered(event)
                elif not self._is_ghost(event.info.flow_id):
                    self._create(event.info)
            elif event.EVENT_KIND == REPORTED:
                self._reported(event)
            else:
                self._close(event.flow_id, event.stats)
        self.counters.reports += reports
        self.counters.reports_stale += stale
        self.datapath.heartbeat()
        if self._vectorised:
            self._arrays(batch)
            self._finish_closes()

    def _arrays(self, batch: Batch) -> None:
        known = {one.handle: (host, one.name) for host in self._vectorised for one in host.programs.all()}
        for handle, reports in batch.arrays():
            self.datapath.heartbeat()
            host, program = known.get(handle, (None, ""))
            if host is None:
                if not self._any_single:  # else counted in _dispatch
                    self.counters.reports_stale += len(reports)
                continue
            try:
                fed = host.feed(reports, program)
            except BaseException as error:
                self.fail_all(host, error, "on_reports")
                continue
            self.datapath.answered_many(reports["flow_id"], reports["now_us"])
            self.counters.reports += fed
            if not self._any_single:
                self.counters.reports_stale += len(reports) - fed

    # Failures

    def fail(self, live: Live, error: BaseException, callback: str) -> None:
        """Move a flow to the fallback because its algorithm raised."""
        self.log_failure(live.host, live, error, callback)
        self._to_fallback(live, failure_of(live.host, error, callback))

    def fail_all(self, host: Host, error: BaseException, callback: str) -> None:
        """Move all flows of an algorithm to the fallback; future flows get a new instance."""
        if is_from_outside(error):
            raise error
        selected = [live for live in self.flows.values() if live.host is host and not live.failed]
        if selected:
            self.log_failure(host, selected[0], error, callback, n_flows=len(selected))
        failure = failure_of(host, error, callback)
        for live in selected:
            self._to_fallback(live, failure)
        host.restart()

    def _to_fallback(self, live: Live, failure: str) -> None:
        live.failed, live.failure = True, failure
        live.flow.retire()
        live.host.failed(live.flow.info.flow_id)
        self.counters.flows_failed += 1
        self.datapath.update(live.flow.info.flow_id, program=FALLBACK_FAILED)

    def log_failure(
        self, host: Host, live: Live, error: BaseException, callback: str, n_flows: int = 1
    ) -> None:
        """Log an exception of an algorithm; repetitions at the same line only rarely, without traceback.

        Raises:
            BaseException: The exception, if the algorithm did not cause it.
        """
        if is_from_outside(error):
            raise error
        text = text_of(error)
        self.counters.algorithm_errors += 1
        raised = traceback.extract_tb(error.__traceback__, limit=-1)
        place = (raised[0].filename, raised[0].lineno) if raised else None
        admitted = self._log_limit.admit((host.version.sha256, type(error).__name__, place))
        if admitted is not None:
            log.error(
                "%s.%s raised %s%s: flow %s%s%s",
                host.name,
                callback,
                text,
                "" if callback == "on_close" else "; it continues with the fallback",
                describe(live.flow.info),
                "" if n_flows == 1 else f" and {n_flows - 1} more",
                admitted,
                exc_info=error if admitted.times == 1 else None,
            )
        self.events.emit(
            "flow:failed",
            host.name,
            live.flow.info,
            callback=callback,
            error=text,
            where=place_of(error, host.version.file),
            flows=n_flows,
        )

    # Lost events

    def _check_missed(self) -> None:
        self._next_check_s = self._clock() + RESYNC_CHECK_S
        counters = self.datapath.counters()
        self._lost_flows.look(counters)
        if _missed(counters) != self._missed_before:
            log.warning("create or close events were lost: comparing the flow list with the datapath")
            self.resync()


def failure_of(host: Host, error: BaseException, callback: str) -> str:
    """Return an algorithm's exception and its place."""
    where = place_of(error, host.version.file)
    return f"{callback}: {text_of(error)}" + (f" ({where})" if where else "")


def _missed(counters: Mapping[str, int]) -> int:
    """Return the number of create and close events that the datapath dropped."""
    return counters.get("creates_missed", 0) + counters.get("closes_missed", 0)
