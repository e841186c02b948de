"""Receiver agents and what switches sockets: processes around a run, connected by its bus.

Each tells what it does as lines of JSON in a file of the result's, which become its tables; what it says for
people is kept in a log.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from agent.bus import flow_id
from agent.events import Event
from agent.regime.actuator import RegimeEvent
from experiments.netlab import namespace, process
from experiments.netlab.emulated import EmulatedNetwork
from experiments.netlab.host import Family, Host
from experiments.runs.check import HOST_IN_RULE, peers_of, settings_of
from experiments.runs.program import Failure, Program
from experiments.runs.recording import RegimeFiles
from experiments.runs.steering import Variants, congestion_of

if TYPE_CHECKING:
    from experiments.regimes import ReceiverAgent, SocketSwitch
    from experiments.scenario import Flow, Scenario

LINES: Final = "regimes-*.jsonl"
"""Files in which it is told what happens, as a pattern."""
AGENT_EVENTS: Final = LINES.replace("*", "agent")
EVENTS: Final = "regime:"
"""What the events begin with that are about a flow's regime."""

_FAILED: Final = Failure(
    "run.regimes", "a receiver agent or a switch of the run failed", "run the command by hand in the host"
)


def any_of(scenario: Scenario) -> bool:
    """Return whether anybody tells regimes apart, or follows them, outside of the agent."""
    return bool(scenario.receivers or scenario.switches)


def may_become(scenario: Scenario, flow: Flow, variants: Variants) -> frozenset[str]:
    """Return the congestion controls that a switch may give to a flow's sockets."""
    return frozenset(
        congestion_of(name, variants.by_switched.get(name))
        for switch in scenario.switches
        if switch.host == flow.sender
        for name in (switch.single, switch.shared)
    )


def line_of(event: Event) -> bytes:
    """Return an event of the agent as the line that `ccp regime apply --json` has for such a one."""
    detail = {name: one for name, one in event.detail.items() if name in RegimeEvent.__struct_fields__}
    told = RegimeEvent(
        kind=event.kind,
        t_wall_us=event.t_wall_us,
        t_mono_us=event.t_us,
        flow=None if event.flow is None else flow_id(event.flow),
        **detail,
    )
    return msgspec.json.encode(told) + b"\n"


def files(scenario: Scenario, directory: Path) -> RegimeFiles | None:
    """Return the files in which it is told what happens; None if there are none."""
    if not any_of(scenario):
        return None
    switches = [_lines(directory, "switch", one.host) for one in scenario.switches]
    return RegimeFiles(
        {one.host: _lines(directory, "receiver", one.host) for one in scenario.receivers},
        (directory / AGENT_EVENTS, *switches),
    )


def _lines(directory: Path, what: str, host: str) -> Path:
    return directory / LINES.replace("*", f"{what}-{host}")


@contextlib.contextmanager
def programs(
    scenario: Scenario,
    variants: Variants,
    net: EmulatedNetwork,
    directory: Path,
    broker: str | None,
    progress: Callable[[str, float], None],
) -> Iterator[Sequence[Program]]:
    """Run what a scenario's receivers and switches are, for the length of a block.

    Args:
        scenario: What is run.
        variants: Whose congestion controls switches name.
        net: The network.
        directory: Of the result.
        broker: URL of the run's bus; None if nobody needs it.
        progress: Told now and then.

    Raises:
        RunError: `run.regimes`.
    """
    running: list[Program] = []
    try:
        if broker is not None and any_of(scenario):
            progress("starting receiver agents and switches", 0.0)
            for receiver in scenario.receivers:
                arguments = receive_arguments(scenario, receiver, net.hosts, broker)
                lines = _lines(directory, "receiver", receiver.host)
                running.append(Program(arguments, lines, _FAILED, tells=True))
            for switch in scenario.switches:
                arguments = apply_arguments(switch, variants, net.hosts, broker)
                running.append(Program(arguments, _lines(directory, "switch", switch.host), _FAILED))
            for one in running:
                one.wait_ready()
        yield running
    finally:
        process.end([one.process for one in running])


def receive_arguments(
    scenario: Scenario, receiver: ReceiverAgent, hosts: Mapping[str, Host], broker: str
) -> list[str]:
    """Return the arguments of `ccp` that start a receiver agent.

    It probes its peers at the addresses from which their flows come.
    """
    flows = [flow for flow in scenario.flows if flow.receiver == receiver.host]
    arguments = ["receive", "--regime", "--regime-mode", receiver.mode, "--json"]
    arguments += _place(hosts[receiver.host], broker)
    for peer in peers_of(scenario, receiver):
        families: Iterable[Family] = dict.fromkeys(flow.family for flow in flows if flow.sender == peer)
        for family in families or ("ipv4",):
            arguments += ["--peer", hosts[peer].address(family)]
    arguments += _given("--window-ms", receiver.window_ms)
    arguments += _given("--interval-ms", receiver.interval_ms)
    arguments += _given("--probe-ms", receiver.probe_ms)
    arguments += _given("--regime-ttl-ms", receiver.ttl_ms)
    for setting in settings_of(receiver):
        arguments += ["--regime-set", setting]
    return [*arguments, "--sender", f"{receiver.host}-receiver"]


def apply_arguments(
    switch: SocketSwitch, variants: Variants, hosts: Mapping[str, Host], broker: str
) -> list[str]:
    """Return the arguments of `ccp` that start what switches a host's sockets."""
    arguments = ["regime", "apply", "--json", *_place(hosts[switch.host], broker)]
    arguments += ["--sender", f"{switch.host}-switch"]
    for option, name in (("--single", switch.single), ("--shared", switch.shared)):
        arguments += [option, congestion_of(name, variants.by_switched.get(name))]
    arguments += _given("--single-rate", switch.single_rate_bytes_per_s)
    arguments += _given("--shared-rate", switch.shared_rate_bytes_per_s)
    arguments += _given("--stale-ms", switch.stale_ms)
    for rule in switch.rules:
        arguments += ["--rule", HOST_IN_RULE.sub(lambda found: hosts[found[1]].ipv4, rule)]
    return arguments


def _place(host: Host, broker: str) -> list[str]:
    return ["--netns", str(namespace.path_of(host.namespace)), "--broker", broker]


def _given(option: str, value: int | None) -> list[str]:
    return [] if value is None else [option, str(value)]
