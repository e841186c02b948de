"""`ccp serve-ccp`: an agent made with portus steers flows."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from agent.algorithms import Running, prepare
from agent.control import ControlOptions
from agent.description import PLAIN, Plan
from agent.names import cc_names
from agent.plane import Plane
from agent.rules import parse_rules
from agent.serve import ServeOptions, serve
from agent.wire.link import Link
from agent.wire.session import Session
from ccp_base.errors import UsageError
from datapath import ebpf
from datapath.ebpf import DEFAULT_PIN_DIR, LoadOptions

NAME = "portus"
"""What rules and `ccp flows` call the agent's algorithm."""

SOCKETS = Path("/tmp/ccp")
"""Where portus has its sockets."""


def serve_ccp(
    beside: Annotated[
        list[str] | None, typer.Argument(help="Algorithms of ours for flows that a rule gives them.")
    ] = None,
    ipc: Annotated[str, typer.Option(help="How the agent speaks: `unix`.")] = "unix",
    agent: Annotated[
        Path, typer.Option(help="The agent's socket; of older versions of portus `/tmp/ccp/0/in`.")
    ] = SOCKETS / "portus",
    bind: Annotated[Path, typer.Option(help="Our socket; to older ones `/tmp/ccp/0/out`.")] = SOCKETS
    / "ccplane",
    rule: Annotated[
        list[str] | None,
        typer.Option("--rule", help=f"'dport=5001 -> cubic'; the agent is `{NAME}`. First match."),
    ] = None,
    pin_dir: Annotated[str, typer.Option(help="Directory in a bpffs.")] = DEFAULT_PIN_DIR,
    duration: Annotated[float | None, typer.Option(help="Stop after so many seconds.")] = None,
    unload: Annotated[
        bool, typer.Option("--unload", help="Remove everything from the kernel at the end.")
    ] = False,
) -> None:
    """Let an agent made with portus steer the flows of this machine that choose `ccp`, until Ctrl-C.

    It needs root, and the agent has to run as the same user. It may come later, end and come again: without
    it, the fallback law has its flows.
    """
    if ipc != "unix":
        raise UsageError(
            "wire.ipc",
            f"agents cannot speak over `{ipc}` here",
            where=f"--ipc {ipc}",
            why="`netlink` and `char` are portus' ways to its own kernel module",
            fix="start the agent with --ipc unix",
        )
    with closing(Link(agent, bind)) as link:
        session = Session(link, NAME)
        ready = _planned(session, beside or [], rule or [])
        options = ServeOptions(
            load=LoadOptions(pin_dir=pin_dir),
            duration_s=duration,
            unload_at_end=unload,
            control=ControlOptions("", None, None),
        )

        def begin(plane: Plane, _ready: Plan) -> None:
            session.attach(plane)
            typer.echo(
                f"ccp: waits for the agent at {agent}, {plane.counters.flows_adopted} flows adopted; "
                f'use: iperf3 -C {PLAIN} ..., or setsockopt(TCP_CONGESTION, "{PLAIN}"); Ctrl-C stops'
            )

        plane = serve(ready, options, on_start=begin)
    typer.echo(f"ccp: stopped; {plane.counters.flows_created} flows, {plane.counters.reports} reports")


def _planned(session: Session, beside: list[str], rules: list[str]) -> Plan:
    others = prepare(beside, ebpf.compile_program)
    steered = Running(session.algorithm(), session.name, {}, initial=None)
    names = cc_names([one.name for one in others], {})
    running = [steered, *(one.called(names[one.name]) for one in others)]
    return Plan(running, parse_rules(rules, [one.name for one in running]), steered)
