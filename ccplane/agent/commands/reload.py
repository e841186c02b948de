"""`ccp reload`: the edited source of an algorithm, live."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ccplane.agent.commands.canary import follow
from ccplane.agent.commands.connection import PIN_DIR, Connect, Keys, PinDir, client
from ccplane.agent.commands.told import told
from ccplane.agent.source import read


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
    canary: Annotated[
        str | None,
        typer.Option(
            help="Try it first with some of the new flows: 5%, 'dport=5001' or '20% dport=5001'. It takes"
            " over if these fare no worse than the others, else it is taken back."
        ),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--for", min=1, max=86_400, help="How long to try it, in seconds.")
    ] = None,
    wait: Annotated[bool, typer.Option(help="Wait for the end of the trial.")] = True,
    connect: Connect = None,
    keys: Keys = None,
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Swap edited algorithms in under running flows; load new ones.

    FILE.py is read here, so the agent needs no right to read it. If anything is wrong, the version before
    keeps running. With --canary: exits with 1 if the new version is taken back.
    """
    with client(connect, keys, pin_dir) as agent:
        if what is not None and what.endswith(".py"):
            read(what)  # says what is wrong with the path
            done = [agent.load(Path(what), name, canary=canary, seconds=seconds)]
        else:
            done = agent.reload(what, canary=canary, seconds=seconds)
        if canary is not None:
            (trial,) = done
            told_hashes = f"{trial['old_sha256'][:12] or 'nothing'} -> {trial['new_sha256'][:12]}"
            typer.echo(f"ccp: {trial['algorithm']}: {told_hashes} for {trial['share']}")
            if wait and not follow(agent, trial["algorithm"]):
                raise typer.Exit(1)
            return
    for one in done:
        typer.echo(f"ccp: {told(one)}")
