"""`ccp regime`: the commands of `telemetry.regime`, and `apply`, which changes sockets."""

from __future__ import annotations

import json
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
from ccplane.base import options
from ccplane.base.errors import collected
from ccplane.base.names import close_names
from ccplane.base.printable import printable
from telemetry import netns as namespaces
from telemetry.regime.commands import app
from telemetry.regime.detector import SHARED, SINGLE_OWNER, Regime
from telemetry.regime.follow import STALE_MS, Follower
from telemetry.signals import on_signals
from telemetry.status import online, sender_name

__all__ = ["app"]

SUFFIX: Final = "-regime"
"""Suffix of the sender name, because an agent on the same host already uses the host's name."""

_WAYS: Final = ("sockets", "host")


@app.command(
    epilog=options.examples(
        "sudo ccp regime apply --broker mqtt://10.0.0.9",
        "sudo ccp regime apply --broker mqtt://10.0.0.9 --rule 'dst=10.0.0.0/8 -> destination' "
        "--single-rate 1gbit",
    )
)
def apply(
    broker: Annotated[str, options.broker("Telemetry bus that decisions arrive on")],
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            metavar="RULE",
            help="'CONDITIONS -> destination': sockets follow the decisions about their own path; "
            "'CONDITIONS -> ADDRESS': sockets follow the decisions of the receiver ADDRESS. Repeatable; "
            "the first matching rule decides. "
            "Conditions: "
            "src, dst, sport, dport, cgroup.",
            show_default="all sockets whose path has a decision",
        ),
    ] = None,
    single: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Congestion control while the sender has the bottleneck to itself."
        ),
    ] = "dctcp",
    shared: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Congestion control while the bottleneck is shared, or without a decision."
        ),
    ] = "cubic",
    single_rate: Annotated[
        int | None,
        options.rate(
            "--single-rate",
            unit="bytes/s",
            whole=True,
            min=1,
            max=MAX_RATE_BYTES_PER_S,
            help="Maximum pacing rate while the sender has the bottleneck to itself",
            show_default="unlimited",
        ),
    ] = None,
    shared_rate: Annotated[
        int | None,
        options.rate(
            "--shared-rate",
            unit="bytes/s",
            whole=True,
            min=1,
            max=MAX_RATE_BYTES_PER_S,
            help="Maximum pacing rate while the bottleneck is shared",
            show_default="unlimited",
        ),
    ] = None,
    netns: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|PATH",
            help="Network namespace of the sockets; the broker is reached from the current namespace.",
            show_default="the current one",
        ),
    ] = None,
    cgroup: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Only sockets created in this cgroup (v2) or below.",
            show_default="all",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per event.")] = False,
    stale_ms: Annotated[
        int,
        options.duration(
            "--stale",
            unit="ms",
            whole=True,
            min=0,
            help="How long a decision still applies after it expired or its sender disappeared",
            panel=options.ADVANCED,
        ),
    ] = options.in_unit(STALE_MS, "ms"),
    how: Annotated[
        str,
        typer.Option(
            metavar="sockets|host",
            help="sockets: change each socket; host: set sysctls and fq, as the paper did.",
            rich_help_panel=options.ADVANCED,
        ),
    ] = "sockets",
    leave: Annotated[
        bool,
        typer.Option(
            "--leave",
            help="Leave the changes in place at the end; otherwise they are undone.",
            rich_help_panel=options.ADVANCED,
        ),
    ] = False,
    sender: Annotated[
        str | None,
        options.sender("the broker's user, or this host's name and -regime", panel=options.ADVANCED),
    ] = None,
) -> None:
    """Switch TCP sockets to the congestion control of their path's regime, until Ctrl-C.

    Needs root.
    """
    rules = collected(parse_socket_rule, rule or [])
    treatments: dict[Regime, Treatment] = {
        SINGLE_OWNER: Treatment(congestion=single, rate_bytes_per_s=single_rate),
        SHARED: Treatment(congestion=shared, rate_bytes_per_s=shared_rate),
    }
    place = None if netns is None else namespaces.path_of(netns)
    bus = BusOptions.from_url(broker)
    actuator: Actuator
    if how == "sockets":
        actuator = SocketActuator(treatments, rules, netns=place, cgroup=cgroup)
    elif how != "host":
        raise SwitchError(
            "switch.bad_option",
            f"`{how}` is not a way to apply regimes",
            "--how",
            fix=close_names(how, _WAYS, "way"),
        )
    elif rules or cgroup is not None:
        raise SwitchError(
            "switch.bad_option",
            "--how host cannot select sockets",
            "--rule" if rules else "--cgroup",
            "sysctls apply to all sockets of the host",
            "leave out the option, or use --how sockets",
        )
    else:
        from ccplane.agent.features.regime.host import HostActuator  # netlink's library takes long to import

        actuator = HostActuator(single, shared, single_rate, shared_rate, place)
    loop = Loop(
        bus,
        actuator,
        Follower(stale_ms, max_paths(rules)),
        lambda event: show(event, as_json=as_json),
        sender=sender or sender_name(bus, SUFFIX),
        status=online("client"),
    )
    greeting = f"ccp: following the decisions at {bus.host}:{bus.port}; Ctrl-C stops"
    with on_signals(loop.request_stop):
        loop.run(leave=leave, on_start=lambda: typer.echo(greeting, err=True))


def show(event: RegimeEvent, *, as_json: bool = False) -> None:
    """Print an event as one line of printable text, or of JSON."""
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(event)))
        return
    clock = console.clock(event.t_wall_us / 1e6)
    flow = event.flow
    ends = "host" if flow is None else f"{flow.src} {flow.src_port} > {flow.dst} {flow.dst_port}"
    change = f"{event.before} -> {event.after}" if event.after else event.wanted
    said = (event.regime, event.reason, event.why)
    typer.echo(printable("  ".join(part for part in (clock, event.kind, ends, change, *said) if part)))
