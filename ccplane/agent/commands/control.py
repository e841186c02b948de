"""`ccp program`, `ccp listen`, `ccp stop`: what else a running agent can be asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ccplane.agent.commands.connection import PIN_DIR, Connect, Keys, PinDir, client
from ccplane.agent.source import read


def program(
    algorithm: Annotated[str, typer.Argument(help="A running algorithm.")],
    file: Annotated[Path, typer.Argument(help="Text of the fold program, in the CCP language.")],
    name: Annotated[str, typer.Option(help="Which of its programs; a new name adds one.")] = "default",
    connect: Connect = None,
    keys: Keys = None,
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Replace a fold program under the flows that run it."""
    with client(connect, keys, pin_dir) as agent:
        moved = agent.install_program(algorithm, read(file).text, name)
    typer.echo(f"ccp: {algorithm}/{name} replaced, {moved} flow{'' if moved == 1 else 's'}")


def listen(
    kind: Annotated[str, typer.Argument(help="Kind of telemetry, such as receiver_signal.")],
    off: Annotated[bool, typer.Option("--off", help="Listen to it no longer.")] = False,
    connect: Connect = None,
    keys: Keys = None,
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Let the agent listen to one more kind of telemetry."""
    with client(connect, keys, pin_dir) as agent:
        kinds = agent.unsubscribe(kind) if off else agent.subscribe(kind)
    typer.echo(f"ccp: the agent listens to {', '.join(kinds) or 'nothing'}")


def stop(connect: Connect = None, keys: Keys = None, pin_dir: PinDir = PIN_DIR) -> None:
    """End the agent, as Ctrl-C does."""
    with client(connect, keys, pin_dir) as agent:
        agent.stop()
    typer.echo("ccp: the agent stops; flows run the fallback law")
