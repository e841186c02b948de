"""Receiver agents and socket switches: helper processes of a run, connected by its bus.

Each process writes lines of JSON to a file of the result, from which tables are made; other output goes to a
log.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from experiments.netlab import namespace, process
from experiments.netlab.emulated import EmulatedNetwork
from experiments.netlab.host import Host
from experiments.netlab.spec import Family
from experiments.runs.artifacts import publishes_regimes, receiver_lines, switch_lines
from experiments.runs.check import HOST_IN_RULE, peers_of, settings_of
from experiments.runs.program import Failure, Program
from experiments.runs.variants import Variants, congestion_of

if TYPE_CHECKING:
    from experiments.regimes import ReceiverAgent, SocketSwitch
    from experiments.scenario import Scenario

_FAILED: Final = Failure(
    "a receiver agent or a switch of the run failed", "run the command manually in the host", "run.regimes"
)


@contextlib.contextmanager
def programs(
    scenario: Scenario,
    variants: Variants,
    net: EmulatedNetwork,
    directory: Path,
    broker: str | None,
    progress: Callable[[str, float], None],
) -> Iterator[Sequence[Program]]:
    """Run a scenario's receiver agents and switches during a `with` block.

    Raises:
        RunError: `run.regimes`.
    """
    running: list[Program] = []
    try:
        if broker is not None and publishes_regimes(scenario):
            progress("starting receiver agents and switches", 0.0)
            for receiver in scenario.receivers:
                arguments = receive_arguments(scenario, receiver, net.hosts, broker)
                lines = receiver_lines(directory, receiver.host)
                running.append(Program(arguments, lines, _FAILED, emits=True))
            for switch in scenario.switches:
                arguments = apply_arguments(switch, variants, net.hosts, broker)
                running.append(Program(arguments, switch_lines(directory, switch.host), _FAILED))
            for one in running:
                one.wait_ready()
        yield running
    finally:
        process.end([one.process for one in running])


def receive_arguments(
    scenario: Scenario, receiver: ReceiverAgent, hosts: Mapping[str, Host], broker: str
) -> list[str]:
    """Return the arguments of `ccp` that start a receiver agent.

    The agent probes its peers at the addresses that their flows use.
    """
    flows = [flow for flow in scenario.flows if flow.receiver == receiver.host]
    arguments = ["telemetry", "receive", "--regime", "--regime-mode", receiver.mode, "--json"]
    arguments += _place(hosts[receiver.host], broker)
    for peer in peers_of(scenario, receiver):
        families: Iterable[Family] = dict.fromkeys(flow.family for flow in flows if flow.sender == peer)
        for family in families or ("ipv4",):
            arguments += ["--peer", hosts[peer].address(family)]
    arguments += _given("--window", receiver.window_ms)
    arguments += _given("--interval", receiver.interval_ms)
    arguments += _given("--probe-interval", receiver.probe_ms)
    arguments += _given("--regime-ttl", receiver.ttl_ms)
    for setting in settings_of(receiver):
        arguments += ["--param", setting]
    return [*arguments, "--sender", f"{receiver.host}-receiver"]


def apply_arguments(
    switch: SocketSwitch, variants: Variants, hosts: Mapping[str, Host], broker: str
) -> list[str]:
    """Return the arguments of `ccp` that start a switch on a host."""
    arguments = ["regime", "apply", "--json", *_place(hosts[switch.host], broker)]
    arguments += ["--sender", f"{switch.host}-switch"]
    for option, name in (("--single", switch.single), ("--shared", switch.shared)):
        arguments += [option, congestion_of(name, variants.by_switched.get(name))]
    arguments += _given("--single-rate", switch.single_rate_bytes_per_s)
    arguments += _given("--shared-rate", switch.shared_rate_bytes_per_s)
    arguments += _given("--stale", switch.stale_ms)
    for rule in switch.rules:
        arguments += ["--rule", HOST_IN_RULE.sub(lambda found: hosts[found[1]].ipv4, rule)]
    return arguments


def _place(host: Host, broker: str) -> list[str]:
    return ["--netns", str(namespace.path_of(host.namespace)), "--broker", broker]


def _given(option: str, value: int | None) -> list[str]:
    return [] if value is None else [option, str(value)]
