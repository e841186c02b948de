"""`ccp reload`: the edited source of an algorithm, live."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from agent.commands.connection import PIN_DIR, Connect, Keys, PinDir, client
from agent.source import read


def reload(
    what: Annotated[
        str | None,
        typer.Argument(
            help="A running algorithm, whose file the agent reads again, or FILE.py; none means all."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Load FILE.py as this algorithm, running or new; else by file or name.")
    ] = None,
    connect: Connect = None,
    keys: Keys = None,
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Swap edited algorithms in under running flows; load new ones.

    FILE.py is read here, so the agent needs no right to read it. If anything is wrong, the version before
    keeps running.
    """
    with client(connect, keys, pin_dir) as agent:
        if what is not None and what.endswith(".py"):
            read(what)  # says what is wrong with the path
            done = [agent.load(Path(what), name)]
        else:
            done = agent.reload(what)
    for one in done:
        typer.echo(f"ccp: {told(one)}")


def told(done: dict[str, Any]) -> str:
    """Return what a reload did as a sentence."""
    notes = "".join(f"; {note}" for note in done["notes"])
    flows = f"{done['flows']} flow{'' if done['flows'] == 1 else 's'}"
    if done["old_sha256"] == done["new_sha256"]:
        again = f": the same source again, {flows}" if done["programs"] else " goes on"
        return f"{done['algorithm']}{again}{notes}"
    before = done["old_sha256"][:12] or "nothing"
    return f"{done['algorithm']}: {before} -> {done['new_sha256'][:12]}, {flows}{notes}"
