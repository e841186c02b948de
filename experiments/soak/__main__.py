"""`python -m experiments.soak`: the command of `make soak`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ccplane.base import options
from ccplane.base.errors import CcpError
from experiments.soak import report
from experiments.soak.network import Load
from experiments.soak.run import Options, soak

CANNOT_BEGIN = 2

app = typer.Typer(add_completion=False)


@app.command()
def main(
    hours: Annotated[float, typer.Option(min=0.0, help="Duration, in hours.")] = 1.0,
    seed: Annotated[int | None, typer.Option(help="Random seed.", show_default="the time")] = None,
    pairs: Annotated[int, typer.Option(min=1, max=20, help="Pairs of hosts.")] = 4,
    connections: Annotated[int, typer.Option(min=1, help="Concurrent connections of each pair.")] = 200,
    per_s: Annotated[
        float,
        typer.Option(
            "--churn", min=0.0, help="Connections per second that close and are replaced, per pair."
        ),
    ] = 20.0,
    talk_s: Annotated[
        float,
        options.duration(
            "--turn-interval", unit="s", help="Mean time between turns of a connection", min=0.1
        ),
    ] = options.in_unit(2.0, "s"),
    settle_s: Annotated[
        float,
        options.duration(
            "--settle", unit="s", help="Minimum time between a disturbance and its check", min=1
        ),
    ] = options.in_unit(8.0, "s"),
    patience_s: Annotated[
        float, options.duration("--patience", unit="s", help="Time limit for all processes to recover", min=1)
    ] = options.in_unit(20.0, "s"),
    step_clock: Annotated[
        bool, typer.Option("--step-clock", help="Also step this machine's clock; for virtual machines.")
    ] = False,
    out: Annotated[Path, options.out("File for the result, JSON.", metavar="FILE")] = Path("out/soak.json"),
) -> None:
    """Run an agent, a broker and a receiver for hours, with changing connections and disturbances.

    Exit code 0: passed; 1: something failed; 2: the soak test cannot start;
    3: the run was too short for a verdict.
    """
    seed = time.time_ns() // 1000 % 1_000_000 if seed is None else seed
    load = Load(connections, per_s, talk_s)
    order = Options(hours, seed, pairs, load, settle_s, patience_s, step_clock)
    typer.echo(f"soak: {hours:g} h, SEED={seed}, {pairs} pairs of hosts")
    try:
        outcome = soak(order, lambda line: print(f"soak: {line}", flush=True))
    except CcpError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(CANNOT_BEGIN) from None
    report.keep(outcome, out)
    report.show(outcome, Console() if sys.stdout.isatty() else Console(width=140))
    typer.echo(f"soak: {out}")
    raise typer.Exit(report.exit_code(outcome))


if __name__ == "__main__":
    app()
