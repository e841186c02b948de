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
    hours: Annotated[float, typer.Option(min=0.0, help="Duration in hours.")] = 1.0,
    seed: Annotated[int | None, typer.Option(help="Random seed [default: from the clock].")] = None,
    pairs: Annotated[int, typer.Option(min=1, max=20, help="Pairs of hosts.")] = 4,
    connections: Annotated[int, typer.Option(min=1, help="Simultaneous connections per pair.")] = 200,
    per_s: Annotated[float, typer.Option(min=0.0, help="Connections replaced per second and pair.")] = 20.0,
    talk_s: Annotated[
        float, typer.Option(min=0.1, help="Mean time between turns of a connection [s].")
    ] = 2.0,
    settle_s: Annotated[float, typer.Option(min=1.0, help="Minimum time to settle after a round [s].")] = 8.0,
    patience_s: Annotated[float, typer.Option(min=1.0, help="Maximum time to recover [s].")] = 20.0,
    step_clock: Annotated[
        bool, typer.Option("--step-clock", help="Also step this machine's clock; for virtual machines.")
    ] = False,
    result: Annotated[Path, typer.Option(help="File for all measurements.")] = Path("out/soak.json"),
) -> None:
    """Run an agent, a broker and a receiver under churn and disturbances.

    Exit codes: 0, passed; 1, failed; 2, could not start; 3, too short for a verdict.
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
