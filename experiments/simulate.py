"""`ccp simulate`: run algorithms over a simulated path, or in scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from ccplane.base import options
from ccplane.base.errors import Collector, UsageError
from experiments.runs.sim_order import SimOrder

# The modules that run scenarios are imported by the command: `ccp --help` imports this module.

OF_THE_PATH: Final = {
    "rate_mbit": "--rate",
    "rtt_ms": "--rtt",
    "buffer_bdp": "--buffer-bdp",
    "loss": "--loss",
    "seconds": "--seconds",
    "flows": "--flows",
}
"""Parameter -> option that conflicts with --scenario."""

app = typer.Typer(add_completion=False)


USUAL: Final = SimOrder(())


@app.command(
    epilog=options.examples(
        "ccp simulate cubic kernel/cubic",
        "ccp simulate cubic bbr --repeat 10",
        "ccp simulate mine.py -p beta=0.8 --rate 50mbit --rtt 20ms --loss 0.5% -t 30",
    )
)
def simulate(
    context: typer.Context,
    algorithm: Annotated[
        list[str],
        typer.Argument(
            metavar="ALGORITHM", help="Name, FILE.py, FILE.py:Class, module:Class, or kernel/NAME."
        ),
    ],
    param: Annotated[list[str] | None, options.param()] = None,
    rate_mbit: Annotated[
        float, options.rate("--rate", unit="mbit", help="Rate of the path", min=0.01)
    ] = options.in_unit(USUAL.rate_mbit, "mbit"),
    rtt_ms: Annotated[
        float, options.duration("--rtt", unit="ms", help="RTT of the path without queueing", min=0.01)
    ] = options.in_unit(USUAL.rtt_ms, "ms"),
    buffer_bdp: Annotated[
        float, typer.Option(min=0.001, help="Buffer of the path, in bandwidth-delay products.")
    ] = USUAL.buffer_bdp,
    loss: Annotated[float, options.ratio("--loss", help="Random packet loss")] = USUAL.loss,
    seconds: Annotated[float, options.seconds("Duration of the flows", min=0.1)] = options.in_unit(
        USUAL.seconds, "s"
    ),
    flows: Annotated[int, typer.Option(min=1, max=100, help="Flows of each algorithm.")] = USUAL.flows,
    scenario: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Simulate this scenario; each of its ccplane flows gets the next algorithm. Repeatable.",
            rich_help_panel=options.ADVANCED,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Random seed; also varies start times and delays slightly.",
            show_default="1, or as the scenario says, without variation",
            rich_help_panel=options.ADVANCED,
        ),
    ] = None,
    repeat: Annotated[
        int,
        typer.Option(
            min=1,
            max=1000,
            metavar="N",
            help="Run N times with consecutive seeds; print medians with their 95% confidence intervals, "
            "which need 6 runs.",
        ),
    ] = USUAL.repeat,
    out: Annotated[
        Path | None, options.out("Folder for the result.", show_default="the result is not saved")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Simulate flows over one path, and print their goodput, retransmissions and RTT. Needs no root."""
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
            repeat=repeat,
            out=out,
            as_json=as_json,
        )
    )


def _no_path(context: typer.Context) -> None:
    """Refuse options of the path next to --scenario."""
    problems = Collector()
    for name, option in OF_THE_PATH.items():
        source = context.get_parameter_source(name)
        with problems.check():
            if source is not None and source.name == "COMMANDLINE":
                raise UsageError(
                    "scenario.two_paths",
                    f"{option} cannot be combined with --scenario",
                    option,
                    "the scenario describes the whole path",
                    "leave the option out, or change the scenario",
                )
    problems.finish()
