"""`ccp serve-ccp`: an agent made with portus steers flows."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from ccplane.agent.algorithms import Running
from ccplane.agent.commands.serving import Given, how_to_use, serving
from ccplane.agent.description import Plan
from ccplane.agent.features.interop.session import Session
from ccplane.agent.plane import Plane
from ccplane.base.errors import UsageError
from ccplane.datapath import wire

NAME = "portus"
"""What rules and `ccp flows` call the agent's algorithm."""

SOCKETS = Path("/tmp/ccp")
"""Where portus has its sockets."""


app = typer.Typer()


@app.command("serve-ccp")
@serving
def serve_ccp(
    given: Given,
    beside: Annotated[
        list[str] | None,
        typer.Argument(help=f"Algorithms of ours, for `ccp.ALGORITHM` and for rules; the agent is `{NAME}`."),
    ] = None,
    ipc: Annotated[str, typer.Option(help="How the agent speaks: `unix`.")] = "unix",
    agent: Annotated[
        Path, typer.Option(help="The agent's socket; of older versions of portus `/tmp/ccp/0/in`.")
    ] = SOCKETS / "portus",
    bind: Annotated[Path, typer.Option(help="Our socket; to older ones `/tmp/ccp/0/out`.")] = SOCKETS
    / "ccplane",
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
    wire.log.setLevel(logging.INFO)  # people wait for the agent
    with closing(Session(agent, bind, NAME)) as session:
        steered = Running(session.algorithm(), session.name, {}, initial=None)
        ready = given.planned(beside or [], also=[steered])

        def begin(plane: Plane, _ready: Plan) -> None:
            session.attach(plane)
            typer.echo(f"ccp: waits for the agent at {agent}, {how_to_use(plane)}")

        given.serve(ready, given.options, begin)
