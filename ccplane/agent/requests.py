"""Executes requests: short ones on the agent's thread, long ones on the loader's thread."""

from __future__ import annotations

import math
import os
import reprlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, fields, is_dataclass
from typing import Any, Final, assert_never

import msgspec

from ccp_algs import params_of
from ccp_algs.carry import NOT_CARRIED
from ccplane.agent import messages as ask
from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.blame import is_from_outside, text_of
from ccplane.agent.canary.assignment import Share
from ccplane.agent.canary.canaries import SECONDS, Canaries
from ccplane.agent.changes import Reloaded
from ccplane.agent.events import Event
from ccplane.agent.hosts import Host, Live
from ccplane.agent.inbox import Inbox
from ccplane.agent.reload import Loader
from ccplane.agent.rules import Which
from ccplane.agent.source import Source
from ccplane.agent.streams import Streams
from ccplane.agent.telemetry_dispatch import TelemetryDispatch
from ccplane.agent.upgrade import Upgrade
from ccplane.base import clock
from ccplane.base.errors import CcpError, Collector, UsageError
from ccplane.base.flows import FlowInfo, FlowStats

Row = dict[str, Any]

Slow = ask.Load | ask.Reload | ask.InstallProgram | ask.Rollback
"""Requests executed on the loader's thread."""

STATE_LENGTH: Final = 200
"""Maximum length of the text of an instance's attribute [characters]."""


class Requests:
    """Executes requests.

    Attributes:
        dispatch: Delivery of telemetry, None without a bus.
        inbox: The subscription, None without a bus.
        canaries: The trials of new versions.
        upgrade: Starts a new version of the agent.
    """

    def __init__(self, agent_loop: AgentLoop, loader: Loader, streams: Streams) -> None:
        self.dispatch: TelemetryDispatch | None = None
        self.inbox: Inbox | None = None
        self._loop = agent_loop
        self._loader = loader
        self.canaries = Canaries(agent_loop, loader)
        self._streams = streams
        self.upgrade = Upgrade(None)
        self._since_wall_us = time.time_ns() // 1000

    def take(self, what: ask.Ask, answer: Callable[[Future[Any]], None]) -> None:
        """Execute a request on its thread; returns immediately.

        Args:
            what: The request.
            answer: Called on that thread with the outcome. If the result is a function, the sender of the
                answer calls it: it takes long, and does not need the agent's thread.
        """
        if isinstance(what, Slow):
            job = what
            overtakes = isinstance(job, ask.Rollback)
            self._loader.submit(lambda: self._slow(job), overtakes=overtakes).add_done_callback(answer)
        elif isinstance(what, ask.Upgrade):
            arguments = what.arguments
            self._loop.call(lambda: self.upgrade.start(arguments, answer))
        else:
            quick = what
            if isinstance(what, ask.SetParams | ask.Switch):
                with suppress(CcpError):  # raised again below
                    Which(rule=what.rule).parsed()  # so that trees of cgroups are read on this thread
            self._loop.call(lambda: answer(_tried(lambda: self._quick(quick))))

    def on_agent(self, what: Callable[[], None]) -> None:
        """Call a function on the agent's thread; returns immediately."""
        self._loop.call(what)

    # On the loader's thread

    def _slow(self, what: Slow) -> Any:
        if isinstance(what, ask.Load):
            file = what.file or f"<loaded:{what.name or 'text'}>"
            if what.canary is not None and not what.check:
                return self._try(what, Source(what.source, file), what.name or "", what.class_name or "")
            do = self._loader.check if what.check else self._loader.load
            return asdict(do(Source(what.source, file), what.name or "", what.class_name or ""))
        if isinstance(what, ask.InstallProgram):
            return self._loader.replace_program(what.algorithm, what.program, what.source)
        if isinstance(what, ask.Rollback):
            if what.algorithm in self._loop.trials:
                return self._loader.on_agent(lambda: self.canaries.take_back(what.algorithm))
            return asdict(self._loader.rollback(what.algorithm))
        if what.canary is not None:
            name = what.algorithm or self._loop.default
            class_name = self._loop.changes.host(name).version.class_name
            return [self._try(what, self._loader.source_of(name), name, class_name)]
        if what.algorithm is not None:
            return [asdict(self._loader.reload(what.algorithm))]
        done: list[Reloaded] = []
        problems = Collector()
        for host in list(self._loop.hosts.values()):
            if host.version.has_file:
                with problems.check():
                    done.append(self._loader.reload(host.name))
        problems.finish()
        return [asdict(one) for one in done]

    def _try(self, what: ask.Load | ask.Reload, source: Source, name: str, class_name: str) -> Row:
        share = Share.from_text(what.canary or "")
        return self.canaries.start(source, share, what.seconds or SECONDS, name, class_name)

    # On the agent's thread

    def _quick(self, what: Any) -> Any:
        request: ask.Ask = what
        match request:
            case ask.Status():
                return self._status()
            case ask.Flows():
                return self._flows()
            case ask.FlowRequest():
                return self._flow(request.flow)
            case ask.GetParams():
                return self._params(request)
            case ask.GetSource():
                return self._source(request.algorithm)
            case ask.SetParams():
                which = Which(request.flow, request.algorithm, request.rule)
                return self._loop.changes.set_params(dict(request.values), which)
            case ask.Switch():
                which = Which(request.flow, request.before, request.rule)
                return self._loop.changes.switch(request.algorithm, which)
            case ask.EndCanary():
                end = self.canaries.widen if request.widen else self.canaries.take_back
                return end(request.algorithm)
            case ask.Subscribe():
                return self._subscribe(request)
            case ask.Events():
                last = list(self._streams.history)[-request.limit :]
                return [event_row(event) for event in last]
            case ask.Stop():
                self._loop.request_stop()
                return None
            case ask.Load() | ask.Reload() | ask.InstallProgram() | ask.Rollback() | ask.Upgrade():
                raise AssertionError("belongs to another thread")
            case _:
                assert_never(request)

    def _status(self) -> Row:
        dropped = self._streams.dropped
        return {
            "pid": os.getpid(),
            "since_wall_us": self._since_wall_us,
            "default": self._loop.default,
            "rules": [rule.text for rule in self._loop.rules],
            "flows": len(self._loop.flows),
            "algorithms": [self._algorithm(host) for host in self._loop.hosts.values()],
            "canaries": self.canaries.rows(),
            "counters": asdict(self._loop.counters),
            "dropped": asdict(dropped),
            "telemetry": None
            if self.dispatch is None
            else {
                **asdict(self.dispatch.counters),
                "kinds": list(self.inbox.kinds) if self.inbox is not None else [],
            },
        }

    def _algorithm(self, host: Host) -> Row:
        return {
            "name": host.name,
            "cc_name": host.cc_name,
            "vectorised": host.vectorised,
            "file": host.version.file,
            "sha256": host.version.sha256,
            "since_wall_us": host.version.since_wall_us,
            "programs": {one.name: one.handle for one in host.programs.all()},
        }

    def _flows(self) -> Callable[[], list[Row]]:
        """Collect the flows; the returned function reads their totals on the sender's thread."""
        seen = [
            (live.flow.info, live.host.name, live.flow.program, live.failure)
            for live in self._loop.flows.values()
        ]
        stats = self._loop.datapath.stats

        def rows() -> list[Row]:
            return [flow_row(*one, stats(one[0].flow_id)) for one in seen]

        return rows

    def _flow(self, flow_id: int) -> Row:
        (live,) = self._loop.changes.flows(Which(flow_id), failed=True)
        received = [] if self.dispatch is None else self.dispatch.received(flow_id)
        now_us = clock.now_us()
        return {
            **flow_row(
                live.flow.info,
                live.host.name,
                live.flow.program,
                live.failure,
                self._loop.datapath.stats(flow_id),
            ),
            "params": _params_of(live.host, live),
            "state": _state_of(live),
            "report": _last_report(live, now_us),
            "telemetry": [
                {
                    "kind": sample.kind,
                    "sender": sample.sender,
                    "age_ms": sample.age_ms(now_us),
                    "expired": sample.expired(now_us),
                    "fields": {
                        name: value
                        for name, value in msgspec.to_builtins(sample.body).items()
                        if value is not None
                    },
                }
                for sample in received
            ],
        }

    def _params(self, request: ask.GetParams) -> dict[str, list[Row]]:
        if request.flow is not None:
            (live,) = self._loop.changes.flows(Which(request.flow))
            return {live.host.name: _params_of(live.host, live)}
        hosts = (
            list(self._loop.hosts.values())
            if request.algorithm is None
            else [self._loop.changes.host(request.algorithm)]
        )
        return {host.name: _params_of(host, None) for host in hosts}

    def _source(self, algorithm: str) -> Row:
        version = self._loop.changes.host(algorithm).version
        return {
            "algorithm": algorithm,
            "class_name": version.class_name,
            "file": version.file,
            "text": version.text,
            "sha256": version.sha256,
        }

    def _subscribe(self, request: ask.Subscribe) -> list[str]:
        if self.inbox is None:
            raise UsageError(
                "telemetry.no_bus",
                "this agent has no telemetry bus",
                fix="start the agent with `ccp run --broker ...`",
            )
        if request.on:
            self.inbox.subscribe(request.kind)
        else:
            self.inbox.unsubscribe(request.kind)
        return list(self.inbox.kinds)


def _tried(do: Callable[[], Any]) -> Future[Any]:
    future: Future[Any] = Future()
    try:
        future.set_result(do())
    except BaseException as error:
        if is_from_outside(error):
            raise
        future.set_exception(error)
    return future


def error_from(error: BaseException) -> CcpError:
    """Return an exception as an error of ccplane."""
    if isinstance(error, CcpError):
        return error
    return UsageError(
        "control.failed",
        "the request failed with an unexpected error",
        why=text_of(error),
        fix="please report this error as a bug, with the agent's log",
    )


def flow_row(
    info: FlowInfo, algorithm: str, program: str | None, failure: str | None, stats: FlowStats | None
) -> Row:
    """Return the data of a flow, without parameters and state; totals are None if the flow closed."""
    row: Row = {
        "flow_id": info.flow_id,
        "src_addr": info.src_addr,
        "src_port": info.src_port,
        "dst_addr": info.dst_addr,
        "dst_port": info.dst_port,
        "cc_name": info.cc_name,
        "algorithm": algorithm,
        "program": program,
        "failed": failure is not None,
        "failure": failure,
        "mss_bytes": info.mss_bytes,
        "ecn_ok": info.ecn_ok,
        "ecn_mode": info.ecn_mode,
        "created_us": info.created_us,
    }
    for name in TOTALS:
        row[name] = None if stats is None else getattr(stats, name)
    return row


TOTALS: Final = tuple(
    total.name for total in fields(FlowStats) if total.name not in ("flow_id", "program", "mss_bytes")
)
"""Totals of a flow that are sent: names of fields of `FlowStats`."""


def event_row(event: Event) -> Row:
    """Return an event in the format of the socket."""
    flow = event.flow
    return {
        "kind": event.kind,
        "t_us": event.t_us,
        "t_wall_us": event.t_wall_us,
        "algorithm": event.algorithm,
        "flow_id": None if flow is None else flow.flow_id,
        "flow": None
        if flow is None
        else f"{flow.src_addr} {flow.src_port} > {flow.dst_addr} {flow.dst_port}",
        "detail": event.detail,
    }


def _params_of(host: Host, live: Live | None) -> list[Row]:
    target = host.algorithm if live is None or live.instance is None else live.instance
    return [
        {
            "name": name,
            "value": getattr(target, name),
            "default": parameter.default,
            "low": parameter.min,
            "high": parameter.max,
            "choices": list(parameter.choices),
            "unit": parameter.unit,
            "doc": parameter.doc,
        }
        for name, parameter in params_of(host.algorithm).items()
    ]


def _state_of(live: Live) -> Mapping[str, Any]:
    """Return the public attributes of a flow's instance; none if flows share the instance."""
    if live.instance is None:
        return {}
    parameters = params_of(type(live.instance))
    return {
        name: _record(value)
        for name, value in vars(live.instance).items()
        if not name.startswith("_") and name not in parameters and name not in NOT_CARRIED
    }


def _last_report(live: Live, now_us: int) -> Row | None:
    """Return the last report of a flow in the format of the streams, with its age; None if there is none."""
    row = live.host.row_of_last(live)
    return None if row is None else {**row, "age_ms": max(0, now_us - row["t_us"]) / 1000}


_REPR: Final = reprlib.Repr()
_REPR.maxother = _REPR.maxstring = STATE_LENGTH


def _record(value: Any) -> Any:
    """Return the public fields of a dataclass as a dict, any other value as `_short` does."""
    if not is_dataclass(value) or isinstance(value, type):
        return _short(value)
    names = (one.name for one in fields(value) if not one.name.startswith("_"))
    return {name: _short(getattr(value, name, None)) for name in names}


def _short(value: Any) -> Any:
    """Return a plain value unchanged, any other value as short text."""
    if value is None or type(value) in (bool, str):
        return value[:STATE_LENGTH] if type(value) is str else value
    if type(value) is int and abs(value) < 1 << 63:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    try:
        return _REPR.repr(value)[:STATE_LENGTH]
    except BaseException as error:  # a third-party __repr__
        if is_from_outside(error):
            raise
        return f"<{type(value).__name__}: {type(error).__name__}>"
