"""`ccp load`: add an algorithm to a running agent, or replace one under its flows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ccplane.agent.commands.connection import PIN_DIR, Connect, Keys, PinDir, client
from ccplane.agent.commands.outcome import sentence
from ccplane.agent.source import read
from ccplane.base.options import algorithm, examples

app = typer.Typer(add_completion=False)

File = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE",
        help="FILE.py, or a running algorithm, whose file the agent reads again.",
        show_default="all running algorithms",
    ),
]
LoadedAs = Annotated[
    str | None,
    algorithm("Load FILE as this algorithm, a running or a new one."),
]


@app.command(epilog=examples("ccp load mine.py", "ccp load edited.py -a mine"))
def load(
    file: File = None,
    algorithm: LoadedAs = None,
    connect: Connect = None,
    keys: Keys = None,
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Add an algorithm, or replace the running version of it; its flows switch to the new version.

    This command reads FILE, so the agent needs no permission to read it. If anything is wrong with FILE, the
    version that runs keeps running. `ccp canary start` tries a version on some of the new flows first.
    """
    with client(connect, keys, pin_dir) as agent:
        if file is not None and file.endswith(".py"):
            read(file)  # names what is wrong with the path
            done = [agent.load(Path(file), algorithm)]
        else:
            done = agent.reload(file)
    for one in done:
        typer.echo(f"ccp: {sentence(one)}")
