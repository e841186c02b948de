"""`python -m experiments.soak`: the command line of `make soak`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ccplane.base.errors import CcpError
from experiments.soak import report
from experiments.soak.network import Load
from experiments.soak.run import Options, soak

CANNOT_BEGIN = 2

app = typer.Typer(add_completion=False)


@app.command()
def main(
    hours: Annotated[float, typer.Option(min=0.0, help="How long.")] = 1.0,
    seed: Annotated[int | None, typer.Option(help="Of what is drawn; else the time.")] = None,
    pairs: Annotated[int, typer.Option(min=1, max=20, help="Pairs of hosts.")] = 4,
    connections: Annotated[int, typer.Option(min=1, help="At a time, of each pair.")] = 200,
    per_s: Annotated[float, typer.Option(min=0.0, help="How many end each second, and begin.")] = 20.0,
    talk_s: Annotated[float, typer.Option(min=0.1, help="Mean time between two turns of one, in s.")] = 2.0,
    settle_s: Annotated[float, typer.Option(min=1.0, help="Time to settle, at least.")] = 8.0,
    patience_s: Annotated[float, typer.Option(min=1.0, help="How long all may take to be well.")] = 20.0,
    step_clock: Annotated[
        bool, typer.Option("--step-clock", help="Step this machine's clock, too: for virtual machines.")
    ] = False,
    result: Annotated[Path, typer.Option(help="File for everything that was measured.")] = Path(
        "out/soak.json"
    ),
) -> None:
    """Soak an agent, a broker and a receiver in churn and disturbances; exit code 0: it held.

    1: something failed. 2: it cannot begin. 3: the run was too short to tell.
    """
    seed = time.time_ns() // 1000 % 1_000_000 if seed is None else seed
    load = Load(connections, per_s, talk_s)
    options = Options(hours, seed, pairs, load, settle_s, patience_s, step_clock)
    typer.echo(f"soak: {hours:g} h, SEED={seed}, {pairs} pairs of hosts")
    try:
        outcome = soak(options, lambda line: print(f"soak: {line}", flush=True))
    except CcpError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(CANNOT_BEGIN) from None
    report.keep(outcome, result)
    report.show(outcome, Console() if sys.stdout.isatty() else Console(width=140))
    typer.echo(f"soak: {result}")
    raise typer.Exit(report.exit_code(outcome))


if __name__ == "__main__":
    app()
