"""`ccp telemetry subscribe`: kinds of telemetry that a running agent receives."""

from __future__ import annotations

from typing import Annotated

import typer

from ccplane.agent.commands.connection import PIN_DIR, Connect, Keys, PinDir, client
from ccplane.base.options import examples

app = typer.Typer(add_completion=False)


@app.command(
    epilog=examples(
        "ccp telemetry subscribe receiver_signal", "ccp telemetry subscribe receiver_signal --off"
    )
)
def subscribe(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Kind of telemetry, such as receiver_signal.")],
    off: Annotated[bool, typer.Option("--off", help="Unsubscribe instead.")] = False,
    connect: Connect = None,
    keys: Keys = None,
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Subscribe the running agent to a kind of telemetry."""
    with client(connect, keys, pin_dir) as agent:
        kinds = agent.unsubscribe(kind) if off else agent.subscribe(kind)
    typer.echo(f"ccp: the agent subscribes to {', '.join(kinds) or 'nothing'}")
