"""`ccp switch`: another algorithm for running flows."""

from __future__ import annotations

from typing import Annotated

import typer

from ccplane.agent.commands.connection import PIN_DIR, Connect, FlowId, Keys, Match, PinDir, client
from ccplane.base import options

app = typer.Typer(add_completion=False)


@app.command(epilog=options.examples("ccp switch cubic", "ccp switch mine --match 'dst=10.0.0.0/8 dport=80'"))
def switch(
    to: Annotated[
        str, typer.Argument(metavar="ALGORITHM", help="A running algorithm; `ccp load FILE` adds one.")
    ],
    algorithm: Annotated[str | None, options.algorithm("Only flows of this algorithm.")] = None,
    flow: FlowId = None,
    match: Match = None,
    connect: Connect = None,
    keys: Keys = None,
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Move flows to another algorithm; without options, all flows and all new flows of `ccp`."""
    with client(connect, keys, pin_dir) as agent:
        moved = agent.switch(to, flow=flow, before=algorithm, rule=match)
    typer.echo(f"ccp: moved {moved} flow{'' if moved == 1 else 's'} to {to}")
