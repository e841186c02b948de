"""`ccp simulate`: algorithms over a simulated path, or in scenarios; needs no root and no kernel feature."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from ccplane.base.errors import Collector, UsageError
from experiments.runs.sim_order import SimOrder

# What runs scenarios is imported where it is used: `ccp --help` imports this one.

OF_THE_PATH: Final = ("rate_mbit", "rtt_ms", "buffer_bdp", "loss", "seconds", "flows")
"""Options that a scenario leaves no room for."""

app = typer.Typer(add_completion=False)


USUAL: Final = SimOrder(())


@app.command()
def simulate(
    context: typer.Context,
    algorithm: Annotated[
        list[str], typer.Argument(help="Name, FILE.py, FILE.py:Class, module:Class, or kernel/NAME.")
    ],
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", help="NAME=VALUE or ALGORITHM.NAME=VALUE.")
    ] = None,
    rate_mbit: Annotated[
        float, typer.Option(min=0.01, help="Rate of the path, in Mbit/s.")
    ] = USUAL.rate_mbit,
    rtt_ms: Annotated[float, typer.Option(min=0.01, help="RTT without queues, in ms.")] = USUAL.rtt_ms,
    buffer_bdp: Annotated[
        float, typer.Option(min=0.001, help="Buffer, in bandwidth-delay products.")
    ] = USUAL.buffer_bdp,
    loss: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of packets lost at random, 0.01 for 1 %.")
    ] = USUAL.loss,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long flows send, in seconds.")] = USUAL.seconds,
    flows: Annotated[int, typer.Option(min=1, max=100, help="Flows of each algorithm.")] = USUAL.flows,
    scenario: Annotated[
        list[Path] | None,
        typer.Option(
            help="Instead of such a path: a scenario, whose flows of ccplane run the algorithms, in turn."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of all that is random.")] = None,
    out: Annotated[Path | None, typer.Option(help="Directory for the result; else none is kept.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Simulate flows of algorithms over a path, and print what came of it.

    `ccp simulate cubic kernel/cubic` lets two flows share 100 Mbit/s and 50 ms for 10 s of virtual time.
    """
    from experiments.runs.sim_command import run

    if scenario:
        _no_path(context)
    run(
        SimOrder(
            algorithm,
            param or (),
            scenario or (),
            rate_mbit=rate_mbit,
            rtt_ms=rtt_ms,
            buffer_bdp=buffer_bdp,
            loss=loss,
            seconds=seconds,
            flows=flows,
            seed=seed,
            out=out,
            as_json=as_json,
        )
    )


def _no_path(context: typer.Context) -> None:
    """See that nothing is said of the path beside a scenario, which says all of it."""
    problems = Collector()
    for name in OF_THE_PATH:
        source = context.get_parameter_source(name)
        with problems.check():
            if source is not None and source.name == "COMMANDLINE":
                raise UsageError(
                    "scenario.two_paths",
                    f"`--{name.replace('_', '-')}` has no meaning here",
                    "--scenario",
                    "the scenario says that",
                    "leave it out, or change the scenario",
                )
    problems.finish()
