"""`ccp run`: algorithms steer flows until Ctrl-C."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from agent.algorithms import find
from agent.changes import Reloaded
from agent.commands.serving import Given, how_to_use, serving
from agent.commands.told import told
from agent.console import show_error
from agent.description import PLAIN, Plan
from agent.known_good import KnownGood
from agent.plane import Plane
from ccp_base.errors import CcpError
from datapath.ebpf import compile_program


@serving
def run(
    algorithm: Annotated[list[str], typer.Argument(help="Name, FILE.py, FILE.py:Class or module:Class.")],
    given: Given,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over", help="Have the agent that runs hand its flows over, once all is loaded here."
        ),
    ] = False,
    reload: Annotated[
        bool, typer.Option("--reload", help="Watch the algorithms' files, and swap in what is saved.")
    ] = False,
    known_good: Annotated[
        Path | None,
        typer.Option(
            help="Directory to keep versions known to be good in; the agent starts with one where its"
            " file does not load, or has a version that was taken back."
        ),
    ] = None,
) -> None:
    """Run algorithms on the TCP flows of this machine that choose `ccp` or `ccp.ALGORITHM`, until Ctrl-C.

    It needs root. `ccp simulate` needs none, and simulates the flows.
    """
    kept = None if known_good is None else KnownGood(known_good, compile_program)
    ready = given.planned(algorithm, find if kept is None else kept.find)
    options = replace(
        given.options,
        load=replace(given.options.load, take_over=take_over),
        known_good=kept,
        on_reload=_tell_reload if reload else None,
    )
    given.serve(ready, options, _greet)


def _tell_reload(name: str, came: Reloaded | CcpError) -> None:
    """Say what saving a file came to; called on the loader's thread."""
    if isinstance(came, Reloaded):
        typer.echo(f"ccp: {told(asdict(came))}")
    else:
        show_error(came, debug=False)
        typer.echo(f"ccp: {name} goes on as it was", err=True)


def _greet(plane: Plane, ready: Plan) -> None:
    loaded = ", ".join(
        f"{running.name} ({PLAIN}, {running.cc_name})"
        if running is ready.default
        else f"{running.name} ({running.cc_name})"
        for running in ready.running
    )
    typer.echo(f"ccp: {loaded} loaded, {how_to_use(plane)}")
