"""`ccp stop`: the end of a running agent."""

from __future__ import annotations

import typer

from ccplane.agent.commands.connection import PIN_DIR, Connect, Keys, PinDir, client
from ccplane.base.options import examples

app = typer.Typer(add_completion=False)


@app.command(epilog=examples("ccp stop"))
def stop(connect: Connect = None, keys: Keys = None, pin_dir: PinDir = PIN_DIR) -> None:
    """Stop the agent, as Ctrl-C does; its flows continue with the fallback congestion control."""
    with client(connect, keys, pin_dir) as agent:
        agent.stop()
    typer.echo("ccp: the agent stops; flows run the fallback")
