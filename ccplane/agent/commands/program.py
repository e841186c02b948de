"""`ccp program`: another fold program for running flows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ccplane.agent.commands.connection import PIN_DIR, Connect, Keys, PinDir, client
from ccplane.agent.source import read
from ccplane.base.options import examples

app = typer.Typer(add_completion=False)


@app.command(epilog=examples("ccp program mine fold.lisp", "ccp program mine slow.lisp --program slow"))
def program(
    algorithm: Annotated[str, typer.Argument(metavar="ALGORITHM", help="A running algorithm.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Fold program, in the CCP language.")],
    name: Annotated[
        str,
        typer.Option("--program", metavar="NAME", help="Program to replace; a new name adds a program."),
    ] = "default",
    connect: Connect = None,
    keys: Keys = None,
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Replace a fold program of a running algorithm; its flows switch to the new program."""
    with client(connect, keys, pin_dir) as agent:
        moved = agent.install_program(algorithm, read(file).text, name)
    typer.echo(f"ccp: {algorithm}/{name} replaced, {moved} flow{'' if moved == 1 else 's'}")
