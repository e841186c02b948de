"""`ccp serve-ccp`: let an agent built with portus control flows."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from ccplane.agent.agent_loop import AgentLoop
from ccplane.agent.algorithms import Running
from ccplane.agent.commands.serving import Given, how_to_use, serving
from ccplane.agent.description import Plan
from ccplane.agent.features.interop.session import Session
from ccplane.base import options
from ccplane.base.errors import UsageError
from ccplane.datapath import wire

NAME = "portus"
"""Name of the agent's algorithm in rules and `ccp flows`."""

SOCKETS = Path("/tmp/ccp")
"""Directory of portus' sockets."""


app = typer.Typer(add_completion=False)


@app.command(
    "serve-ccp",
    epilog=options.examples(
        "sudo ccp serve-ccp", "sudo ccp serve-ccp cubic --rule 'dst=10.0.0.0/8 -> cubic'"
    ),
)
@serving
def serve_ccp(
    given: Given,
    alongside: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ALGORITHM",
            help=f"ccplane's algorithms, for `ccp.ALGORITHM` and for rules; rules name the agent `{NAME}`.",
            show_default="none",
        ),
    ] = None,
    agent: Annotated[
        Path,
        typer.Option(metavar="PATH", help="The agent's socket; /tmp/ccp/0/in for older versions of portus."),
    ] = SOCKETS / "portus",
    bind: Annotated[
        Path,
        typer.Option(metavar="PATH", help="ccplane's socket; /tmp/ccp/0/out for older versions of portus."),
    ] = SOCKETS / "ccplane",
    ipc: Annotated[
        str,
        typer.Option(
            metavar="KIND", help="Transport of the agent's messages.", rich_help_panel=options.ADVANCED
        ),
    ] = "unix",
) -> None:
    """Let an agent built with portus control the flows of this machine that use `ccp`, until Ctrl-C.

    Needs root; the agent has to run as the same user. The agent may start later, exit and start again. Flows
    run the fallback while there is no agent.
    """
    if ipc != "unix":
        raise UsageError(
            "wire.ipc",
            f"`{ipc}` is not a supported transport",
            where=f"--ipc {ipc}",
            why="`netlink` and `char` connect to portus's kernel module",
            fix="start the agent with --ipc unix",
        )
    wire.log.setLevel(logging.INFO)  # a user waits for the agent
    with closing(Session(agent, bind, NAME)) as session:
        steered = Running(session.algorithm(), session.name, {}, initial=None)
        ready = given.planned(alongside or [], also=[steered])

        def begin(agent_loop: AgentLoop, _ready: Plan) -> None:
            session.attach(agent_loop)
            typer.echo(f"ccp: waiting for the agent at {agent}, {how_to_use(agent_loop)}")

        given.serve(ready, given.options, begin)
