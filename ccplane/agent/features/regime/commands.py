"""`ccp regime`: the commands of `telemetry.regime`, and `apply`, which needs what only an agent may do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from broker.options import BusOptions
from ccplane.agent import console
from ccplane.agent.features.regime.actuator import Actuator, RegimeEvent
from ccplane.agent.features.regime.errors import SwitchError
from ccplane.agent.features.regime.loop import Loop
from ccplane.agent.features.regime.rules import MAX_RATE_BYTES_PER_S, Treatment, max_paths, parse_socket_rule
from ccplane.agent.features.regime.sockets import SocketActuator
from ccplane.base.errors import collected
from ccplane.base.names import close_names
from telemetry import netns as namespaces
from telemetry.regime.commands import app
from telemetry.regime.detector import SHARED, SINGLE_OWNER, Regime
from telemetry.regime.follow import STALE_MS, Follower
from telemetry.signals import on_signals
from telemetry.status import online, sender_name

__all__ = ["app"]

SUFFIX: Final = "-regime"
"""An agent on the same host is another sender, and has the host's name."""

_WAYS: Final = ("sockets", "host")


@app.command()
def apply(
    broker: Annotated[
        str,
        typer.Option(help="Where decisions come from: mqtt://[USER[:PASSWORD]@]HOST[:PORT], or mqtts://."),
    ],
    rule: Annotated[
        list[str] | None,
        typer.Option(
            help="'dst=10.0.0.0/8 dport=5001-5010'; also src, sport, cgroup; '-> ADDRESS' follows that "
            "receiver. First match; without: all sockets of paths that were decided of."
        ),
    ] = None,
    single: Annotated[
        str, typer.Option(help="Congestion control while the bottleneck is ours alone.")
    ] = "dctcp",
    shared: Annotated[
        str, typer.Option(help="Congestion control while it is shared, and when nobody knows.")
    ] = "cubic",
    single_rate: Annotated[
        int | None,
        typer.Option(
            min=1, max=MAX_RATE_BYTES_PER_S, help="Pace at most so fast while it is ours alone (bytes/s)."
        ),
    ] = None,
    shared_rate: Annotated[
        int | None,
        typer.Option(
            min=1, max=MAX_RATE_BYTES_PER_S, help="Pace at most so fast while it is shared (bytes/s)."
        ),
    ] = None,
    stale_ms: Annotated[
        int, typer.Option(min=0, help="How long a decision counts that has expired, or whose sender is gone.")
    ] = STALE_MS,
    netns: Annotated[
        str | None,
        typer.Option(help="Network namespace, by name or path; the bus stays outside (else our own)."),
    ] = None,
    cgroup: Annotated[
        Path | None, typer.Option(help="Only sockets made in this cgroup v2 directory or below (else all).")
    ] = None,
    how: Annotated[
        str, typer.Option(help="sockets: one by one; host: sysctls and fq, as the paper did.")
    ] = "sockets",
    leave: Annotated[
        bool, typer.Option("--leave", help="Leave everything as it is at the end; else it is put back.")
    ] = False,
    sender: Annotated[
        str | None,
        typer.Option(help="Name on the bus; else the broker's user, or this host's name and -regime."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object for each thing that happens.")
    ] = False,
) -> None:
    """Give TCP sockets the congestion control of their path's regime, until Ctrl-C."""
    rules = collected(parse_socket_rule, rule or [])
    treatments: dict[Regime, Treatment] = {
        SINGLE_OWNER: Treatment(congestion=single, rate_bytes_per_s=single_rate),
        SHARED: Treatment(congestion=shared, rate_bytes_per_s=shared_rate),
    }
    place = None if netns is None else namespaces.path_of(netns)
    options = BusOptions.from_url(broker)
    actuator: Actuator
    if how == "sockets":
        actuator = SocketActuator(treatments, rules, netns=place, cgroup=cgroup)
    elif how != "host":
        raise SwitchError("switch.bad_option", f"no way `{how}`", "--how", fix=close_names(how, _WAYS, "way"))
    elif rules or cgroup is not None:
        raise SwitchError(
            "switch.bad_option",
            "a host as a whole has no rules",
            "--rule" if rules else "--cgroup",
            "sysctls hold for all its sockets",
            "leave it out, or use --how sockets",
        )
    else:
        from ccplane.agent.features.regime.host import HostActuator  # netlink's library takes long to import

        actuator = HostActuator(single, shared, single_rate, shared_rate, place)
    loop = Loop(
        options,
        actuator,
        Follower(stale_ms, max_paths(rules)),
        (lambda event: typer.echo(msgspec.json.encode(event))) if as_json else _print,
        sender=sender or sender_name(options, SUFFIX),
        status=online("client"),
    )
    greeting = f"ccp: following the decisions at {options.host}:{options.port}; Ctrl-C stops"
    with on_signals(loop.request_stop):
        loop.run(leave=leave, on_start=lambda: typer.echo(greeting, err=True))


def _print(event: RegimeEvent) -> None:
    clock = console.clock(event.t_wall_us / 1e6)
    flow = event.flow
    ends = "host" if flow is None else f"{flow.src} {flow.src_port} > {flow.dst} {flow.dst_port}"
    change = f"{event.before} -> {event.after}" if event.after else event.wanted
    said = (event.regime, event.reason, event.why)
    typer.echo("  ".join(part for part in (clock, event.kind, ends, change, *said) if part))
