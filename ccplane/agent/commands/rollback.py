"""`ccp rollback`: the previous version of an algorithm."""

from __future__ import annotations

import typer

from ccplane.agent.commands.canary import Algorithm, describe
from ccplane.agent.commands.connection import PIN_DIR, Connect, Keys, PinDir, client
from ccplane.agent.commands.outcome import sentence
from ccplane.base.options import examples

app = typer.Typer(add_completion=False)


@app.command(epilog=examples("ccp rollback", "ccp rollback mine"))
def rollback(
    algorithm: Algorithm = None, connect: Connect = None, keys: Keys = None, pin_dir: PinDir = PIN_DIR
) -> None:
    """Return to the previous version of an algorithm.

    If a version is on trial, only the trial ends. Flows start with fresh state, because the state that the
    later version kept of them cannot be trusted.
    """
    with client(connect, keys, pin_dir) as agent:
        done = agent.rollback(algorithm or agent.status()["default"])
    typer.echo(f"ccp: {describe(done) if 'outcome' in done else sentence(done)}")
