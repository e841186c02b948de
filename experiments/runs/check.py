"""Validates scenarios: names, times, parameters and files, with all errors in one report.

The types of the fields are checked before (`experiments.runs.reading`). The run itself checks requirements on
this machine.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ccp_algs import params_of
from ccp_algs.api import AnyAlgorithm
from ccplane.agent.algorithms import find
from ccplane.agent.features.regime.rules import parse_socket_rule
from ccplane.base.errors import CcpError, Collector, ParamError, Several
from ccplane.base.names import close_names
from ccplane.datapath import registry
from experiments.errors import RunError, ScenarioError
from experiments.events import Edit, SetLink, SetParam, SetRoute
from experiments.features import features, offering
from experiments.netlab import traces
from experiments.netlab.routes import Graph, graph_of
from experiments.netlab.spec import Direction
from experiments.runs import one_path, reading
from experiments.traffic.spec import (
    QUIC,
    QUINN,
    TCP,
    UDP,
    UNCONTROLLED,
    Dash,
    Quic,
    Transport,
    transport_of,
)
from telemetry.receiver.times import times
from telemetry.regime.errors import RegimeError
from telemetry.regime.modes import mode_of, with_settings

if TYPE_CHECKING:
    from experiments.regimes import ReceiverAgent, SocketSwitch
    from experiments.scenario import FlowSpec, Scenario

KERNEL: Final = one_path.KERNEL
"""Prefix of the kernel's algorithms in flows."""

SIM: Final = registry.SIM
"""The datapath of simulated scenarios."""
SIMULATED: Final = ("kernel/cubic", "kernel/reno", "kernel/bbr")
"""The kernel's algorithms that the simulator also has."""

HOST_IN_RULE: Final = re.compile(r"\{([^}]*)\}")
"""Placeholder for a host's address in the rules of a switch."""

_QUINNS: Final = QUINN.partition("/")[0] + "/"
_LINK_FIELDS: Final = Direction.__struct_fields__
_OUR_CC_PREFIX: Final = "ccp"


def check(scenario: Scenario, origin: str = "") -> None:
    """Validate a scenario whose fields have the right types.

    Raises:
        ScenarioError: The error; `where` names the field.
        Several: All errors, if there are several.
    """
    problems = Collector()
    with problems.check():
        _Check(scenario, _graph(scenario), problems).all()
    if origin:
        problems.errors = [_at_origin(error, origin) for error in problems.errors]
    problems.finish()


def check_datapath(name: str) -> None:
    """Check that scenarios run on a datapath.

    Raises:
        RunError: `run.datapath`.
    """
    if refused := registry.refusal(name, scenarios=True):
        message, fix = refused
        raise RunError("run.datapath", message, "datapath", fix=fix)


def _at_origin(error: CcpError, origin: str) -> CcpError:
    return type(error)(error.slug, error.message, f"{origin}: {error.where}", error.why, error.fix)


def _graph(scenario: Scenario) -> Graph:
    try:
        return graph_of(scenario.network)
    except CcpError as error:
        problems = Collector()
        problems.errors = [
            ScenarioError(
                "scenario.bad_field",
                one.message,
                ".".join(filter(None, ("topology", one.where))),
                one.why,
                one.fix,
            )
            for one in _each(error)
        ]
        problems.finish()
        raise


class _Check:
    def __init__(self, scenario: Scenario, graph: Graph, problems: Collector) -> None:
        self._scenario = scenario
        self._graph = graph
        self._problems = problems
        self._flows = {flow.name: flow for flow in scenario.flows}

    def all(self) -> None:
        for name, count in Counter(flow.name for flow in self._scenario.flows).items():
            if count > 1:
                fix = "give each flow its own name"
                self._report("scenario.duplicate", f"{count} flows have the name `{name}`", "flows", fix=fix)
        for i, flow in enumerate(self._scenario.flows):
            self._flow(flow, f"flows[{i}]")
        self._ecn()
        for feature in features():
            self._problems.errors.extend(feature.problems(self._scenario))
        for i, name in enumerate(self._scenario.captures):
            self._known(name, [arc.name for arc in self._graph.arcs], "direction", f"captures[{i}]")
        for link in self._scenario.network.links:
            for side, direction in (("forward", link.forward), ("backward", link.backward)):
                if direction is not None and direction.trace is not None:
                    self._trace(direction.trace, f"topology: link {link.name}, {side}.trace")
        self._regimes()
        if self._scenario.datapath == SIM:
            self._simulated()
        for i, event in sorted(enumerate(self._scenario.events), key=lambda numbered: numbered[1].at_s):
            self._time(event.at_s, f"events[{i}].at_s")
            if isinstance(event, SetParam):
                self._set_param(event, f"events[{i}]")
            elif isinstance(event, Edit):
                self._edit(event, f"events[{i}]")
            else:
                self._network_event(event, f"events[{i}]")

    # Flows

    def _flow(self, flow: FlowSpec, at: str) -> None:
        for end in ("sender", "receiver"):
            self._known(getattr(flow, end), self._graph.hosts, "host", f"{at}.{end}")
        if flow.sender == flow.receiver:
            message = f"flow `{flow.name}` goes from `{flow.sender}` to itself"
            self._report("scenario.bad_field", message, f"{at}.receiver", fix="name two hosts")
        self._time(flow.start_s, f"{at}.start_s", strictly=True)
        if flow.stop_s is not None:
            self._time(flow.stop_s, f"{at}.stop_s")
            if flow.stop_s <= flow.start_s:
                self._report(
                    "scenario.time",
                    f"flow `{flow.name}` stops at {flow.stop_s:g} s, but starts at {flow.start_s:g} s",
                    f"{at}.stop_s",
                    fix="increase stop_s, or omit it",
                )
        algorithm = self._algorithm(flow.algorithm, f"{at}.algorithm", transport_of(flow.traffic))
        if algorithm is not None:
            for name, value in flow.params.items():
                self._param(algorithm, name, value, f"{at}.params.{name}")
        elif flow.algorithm.startswith((KERNEL, _QUINNS, UNCONTROLLED)) and flow.params:
            self._no_params(flow.algorithm, f"{at}.params")

    def _algorithm(self, name: str, at: str, transport: Transport = TCP) -> AnyAlgorithm | None:
        """Return ccplane's algorithm of this name; None for other algorithms, and after an error."""
        if (name == UNCONTROLLED) != (transport == UDP):
            has = "cannot control media over RTP" if transport == UDP else "is for media over RTP"
            message = f"`{name}` {has}"
            fix = f"write {UNCONTROLLED} for flows with the traffic rtp, and for no other"
            self._report("scenario.unknown_algorithm", message, at, fix=fix)
            return None
        if name == UNCONTROLLED:
            return None
        feature = offering(name)
        if (name.startswith(KERNEL) or feature is not None) and transport == QUIC:
            why = "QUIC runs in the sending program, which has its own congestion control"
            fix = f"use {QUINN}, or an algorithm of ccplane such as cubic"
            self._report("scenario.unknown_algorithm", f"`{name}` cannot control QUIC flows", at, why, fix)
            return None
        if name.startswith(_QUINNS):
            if name != QUINN or transport == TCP:
                has = (
                    "cannot control TCP flows" if name == QUINN else "is not an available algorithm of quinn"
                )
                fix = f"use {QUINN} for flows with the traffic quic; for TCP, {KERNEL}cubic is the kernel's"
                self._report("scenario.unknown_algorithm", f"`{name}` {has}", at, fix=fix)
            return None
        if feature is not None:
            if name not in feature.congestion:
                message, fix = f"{feature.title} has no `{name}`", f"write {' or '.join(feature.congestion)}"
                self._report("scenario.unknown_algorithm", message, at, fix=fix)
            return None
        if name.startswith(KERNEL):
            kernel_name = name.removeprefix(KERNEL)
            if not kernel_name or kernel_name.partition(".")[0] == _OUR_CC_PREFIX:
                fix = "write kernel/cubic for the kernel's algorithm, and cubic for ccplane's"
                self._report(
                    "scenario.unknown_algorithm", f"the kernel has no algorithm `{name}`", at, fix=fix
                )
            return None
        try:
            return find(name)
        except CcpError as error:
            fix = error.fix + ("" if "/" in name else f"\nfor the kernel's algorithm, write {KERNEL}{name}")
            where = f"{at} ({error.where})" if error.where else at
            self._report("scenario.unknown_algorithm", error.message, where, error.why, fix)
            return None

    def _no_params(self, algorithm: str, at: str) -> None:
        self._report(
            "scenario.bad_param",
            f"`{algorithm}` takes no parameters",
            at,
            "it stands for none"
            if algorithm == UNCONTROLLED
            else "it is quinn's own algorithm"
            if algorithm.startswith(_QUINNS)
            else "it is a kernel algorithm; their parameters apply to the whole machine",
            "remove the parameters, or use an algorithm of ccplane",
        )

    def _param(self, algorithm: AnyAlgorithm, name: str, value: Any, at: str) -> None:
        known = params_of(algorithm)
        if name not in known:
            message = f"`{algorithm.__name__}` has no parameter `{name}`"
            self._report("scenario.bad_param", message, at, fix=close_names(name, known, "parameter"))
            return
        try:
            known[name].check(value)
        except ParamError as error:
            self._report("scenario.bad_param", error.message, at, error.why, error.fix)

    def _ecn(self) -> None:
        """ECN is a setting of a host, so all flows from and to one host must agree."""
        wanted: dict[str, FlowSpec] = {}
        for i, flow in enumerate(self._scenario.flows):
            for host in (flow.sender, flow.receiver):
                first = wanted.setdefault(host, flow)
                if first.ecn != flow.ecn:
                    self._report(
                        "scenario.bad_field",
                        f"flows `{first.name}` and `{flow.name}` share host `{host}`, but only one has ECN",
                        f"flows[{i}].ecn",
                        "ECN is enabled for a whole host",
                        "give both flows the same value, or different hosts",
                    )

    # Regimes

    def _regimes(self) -> None:
        parts: dict[str, tuple[ReceiverAgent | SocketSwitch, ...]] = {
            "receivers": self._scenario.receivers,
            "switches": self._scenario.switches,
        }
        for field, those in parts.items():
            for host, count in Counter(one.host for one in those).items():
                if count > 1:
                    fix = "merge them into one"
                    self._report("scenario.duplicate", f"`{host}` has {count} {field}", field, fix=fix)
            for i, one in enumerate(those):
                self._known(one.host, self._graph.hosts, "host", f"{field}[{i}].host")
        for i, receiver in enumerate(self._scenario.receivers):
            self._receiver(receiver, f"receivers[{i}]")
        for i, switch in enumerate(self._scenario.switches):
            self._switch(switch, f"switches[{i}]")

    def _receiver(self, receiver: ReceiverAgent, at: str) -> None:
        for i, peer in enumerate(receiver.peers):
            self._known(peer, self._graph.hosts, "host", f"{at}.peers[{i}]")
        if receiver.host in receiver.peers or not peers_of(self._scenario, receiver):
            self._report(
                "scenario.bad_field",
                f"the receiver agent of `{receiver.host}` has no peer to watch",
                f"{at}.peers",
                "it watches hosts that send flows to its host",
                "name `peers`, or add flows to this host",
            )
        window_ms, interval_ms, _ = times(
            mode_of(receiver.mode), receiver.window_ms, receiver.interval_ms, None
        )
        if window_ms % interval_ms:
            message = f"a window of {window_ms} ms is not a whole number of intervals of {interval_ms} ms"
            self._report(
                "scenario.bad_field", message, f"{at}.interval_ms", fix="give a divisor of window_ms"
            )
        with self._problems.check():
            try:
                with_settings(mode_of(receiver.mode).options, settings_of(receiver))
            except RegimeError as error:
                where = f"{at}.detector"
                raise ScenarioError(
                    "scenario.bad_field", error.message, where, error.why, error.fix
                ) from error

    def _switch(self, switch: SocketSwitch, at: str) -> None:
        for field in ("single", "shared"):
            name = getattr(switch, field)
            if (feature := offering(name)) is not None:
                self._report(
                    "scenario.unknown_algorithm",
                    f"sockets cannot be switched to `{name}`",
                    f"{at}.{field}",
                    f"{feature.title} is available only for flows that name it",
                    "name a kernel algorithm or one of ccplane",
                )
            else:
                self._algorithm(name, f"{at}.{field}")
        for i, rule in enumerate(switch.rules):
            where = f"{at}.rules[{i}]"
            for host in HOST_IN_RULE.findall(rule):
                self._known(host, self._graph.hosts, "host", where)
            try:
                parse_socket_rule(HOST_IN_RULE.sub("192.0.2.1", rule))
            except CcpError as error:
                self._report("scenario.bad_field", error.message, where, error.why, error.fix)

    # The simulator

    def _simulated(self) -> None:
        sockets = "run the scenario on real sockets (datapath: ebpf)"
        for i, flow in enumerate(self._scenario.flows):
            at = f"flows[{i}]"
            if isinstance(flow.traffic, Quic):
                why = "the simulator supports only TCP"
                self._report("scenario.bad_field", "QUIC cannot be simulated", f"{at}.traffic", why, sockets)
            if isinstance(flow.traffic, Dash):
                why = "video needs a player, which the simulator lacks"
                self._report("scenario.bad_field", "video cannot be simulated", f"{at}.traffic", why, sockets)
            if flow.algorithm.startswith(KERNEL) and flow.algorithm not in SIMULATED:
                message, why = (
                    f"the simulator does not have `{flow.algorithm}`",
                    f"it has {', '.join(SIMULATED)}",
                )
                self._report("scenario.unknown_algorithm", message, f"{at}.algorithm", why, sockets)
        for i, _ in enumerate(self._scenario.switches):
            why = "a switch works on sockets of the kernel"
            fix = f"use r_hybrid, which needs no switch, or {sockets}"
            self._report(
                "scenario.bad_field", "a simulation has no sockets to switch", f"switches[{i}]", why, fix
            )
        for i, name in enumerate(self._scenario.captures):
            why = "simulated packets have no contents"
            self._report("scenario.bad_field", f"`{name}` cannot be captured", f"captures[{i}]", why, sockets)

    # Events

    def _network_event(self, event: SetLink | SetRoute, at: str) -> None:
        """Check that the network supports the change, and apply it for later events."""
        if isinstance(event, SetLink) and (unknown := set(event.fields) - set(_LINK_FIELDS)):
            for name in sorted(unknown):
                fix = reading.closest(name, list(_LINK_FIELDS))
                self._report(
                    "scenario.bad_field", f"links have no field `{name}`", f"{at}.fields.{name}", fix=fix
                )
            return
        try:
            if isinstance(event, SetLink):
                self._graph = self._graph.change(event.link, event.fields)
            else:
                self._graph = self._graph.set_route(event.path, both=event.both)
        except CcpError as error:
            for one in _each(error):
                where = one.where
                if isinstance(event, SetLink) and where != "link":
                    where = f"fields.{where.partition('.')[2]}"
                slug = "scenario.unknown_name" if one.where == "link" else "scenario.bad_field"
                self._report(slug, one.message, f"{at}.{where}", one.why, one.fix)
        if isinstance(event, SetLink) and isinstance(trace := event.fields.get("trace"), str):
            self._trace(trace, f"{at}.fields.trace")

    def _set_param(self, event: SetParam, at: str) -> None:
        if event.flow is not None:
            if not self._known(event.flow, self._flows, "flow", f"{at}.flow"):
                return
            name = self._flows[event.flow].algorithm
        else:
            name = event.algorithm or ""
            used = {flow.algorithm for flow in self._scenario.flows}
            if not self._known(name, used, "flow's algorithm", f"{at}.algorithm"):
                return
        if name.startswith((KERNEL, _QUINNS, UNCONTROLLED)):
            self._no_params(name, f"{at}.param")
            return
        if (feature := offering(name)) is not None:
            why = f"the kernel has only one instance of each congestion control of {feature.title}"
            message, fix = f"parameters of `{name}` cannot change during a run", "set them in the flows"
            self._report("scenario.bad_param", message, f"{at}.param", why, fix)
            return
        with contextlib.suppress(CcpError):  # reported for the flow that names it
            self._param(find(name), event.param, event.value, f"{at}.param")

    def _edit(self, event: Edit, at: str) -> None:
        own = {flow.algorithm for flow in self._scenario.flows if is_own(flow.algorithm)}
        self._known(event.algorithm, own, "flow's algorithm of ccplane", f"{at}.algorithm")
        with self._problems.check():
            find(event.becomes)

    # Everywhere

    def _report(self, slug: str, message: str, where: str, why: str = "", fix: str = "") -> None:
        self._problems.errors.append(ScenarioError(slug, message, where, why, fix))

    def _known(self, name: str, known: Iterable[str], what: str, at: str) -> bool:
        names = list(known)
        if name in names:
            return True
        message = f"unknown {what} `{name}`"
        self._report("scenario.unknown_name", message, at, fix=close_names(name, names, what))
        return False

    def _time(self, at_s: float, at: str, *, strictly: bool = False) -> None:
        end_s = self._scenario.duration_s
        if at_s > end_s or (strictly and at_s == end_s):
            self._report(
                "scenario.time",
                f"{at_s:g} s is {'the end' if at_s == end_s else 'after the end'} of the run",
                at,
                f"the run lasts {end_s:g} s",
                "increase duration_s, or choose an earlier time",
            )

    def _trace(self, trace: str, at: str) -> None:
        try:
            traces.read_trace(Path(trace), at)
        except CcpError as error:
            slug = "scenario.bad_field" if Path(trace).is_file() else "scenario.no_file"
            where = at if error.where == at else f"{at} ({error.where})"
            self._report(slug, error.message, where, error.why, error.fix)


def settings_of(receiver: ReceiverAgent) -> list[str]:
    """Return the explicit settings of a receiver agent's detector, as `NAME=VALUE`."""
    return [f"{name}={value}" for name, value in receiver.detector.items()]


def own_of(scenario: Scenario, transports: Sequence[Transport] = (TCP, QUIC)) -> tuple[str, ...]:
    """Return ccplane's algorithms that a scenario names: first those of flows, then those of switches."""
    named = [flow.algorithm for flow in scenario.flows if transport_of(flow.traffic) in transports]
    named += [name for one in scenario.switches for name in (one.single, one.shared)]
    return tuple(name for name in dict.fromkeys(named) if is_own(name))


def is_own(algorithm: str) -> bool:
    """Return whether ccplane's agent runs an algorithm, not the kernel, quinn or a feature."""
    return not algorithm.startswith((KERNEL, _QUINNS, UNCONTROLLED)) and offering(algorithm) is None


def peers_of(scenario: Scenario, receiver: ReceiverAgent) -> tuple[str, ...]:
    """Return the hosts that a receiver agent watches: its `peers`, or those that send to its host."""
    senders = dict.fromkeys(flow.sender for flow in scenario.flows if flow.receiver == receiver.host)
    return receiver.peers or tuple(senders)


def _each(error: CcpError) -> tuple[CcpError, ...]:
    return error.errors if isinstance(error, Several) else (error,)
