"""`ccp conform`: run a suite of behaviour for an algorithm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ccplane.base import options

if TYPE_CHECKING:
    from experiments.conform.cases import CaseResult

# The modules that run cases are imported by the command: `ccp --help` imports this module.

app = typer.Typer(add_completion=False)


@app.command(
    epilog=options.examples(
        "ccp conform general mine.py --seeds 10",
        "ccp conform my_suite.py mine.py --case halves-its-window -p decrease=0.7",
        "sudo ccp conform general kernel/bbr --datapath ebpf",
    )
)
def conform(
    suite: Annotated[
        str, typer.Argument(metavar="SUITE", help="bbr, cubic, dctcp, general, reno, slow-start, or FILE.py.")
    ],
    algorithm: Annotated[
        str | None,
        typer.Argument(
            metavar="ALGORITHM",
            help="Name, FILE.py, FILE.py:Class, module:Class, or kernel/NAME.",
            show_default=False,
        ),
    ] = None,
    param: Annotated[list[str] | None, options.param()] = None,
    case: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Run only the case of this name; repeatable.")
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            min=1,
            max=1000,
            metavar="N",
            help="Run each case with seeds 1 to N. Seeds above 1 change rates and RTTs by up to 20 %.",
        ),
    ] = 1,
    datapath: Annotated[
        str,
        typer.Option(metavar="ebpf|sim", help="ebpf: real sockets (needs root); sim: the simulator."),
    ] = "sim",
    out: Annotated[
        Path | None,
        options.out(
            "Folder for a scenario and a plot of each failure.", show_default="out/conform/SUITE-ALGORITHM"
        ),
    ] = None,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Check an algorithm's behaviour, case by case, in the simulator or on real sockets.

    Exit code 1: at least one case fails. An undecided case is no failure.
    """
    from experiments.conform import output, running

    if dry_run:
        output.show_cases(suite, running.chosen(suite, case or ()))
        return
    if algorithm is None:
        raise typer.BadParameter("name the algorithm: ccp conform SUITE ALGORITHM", param_hint="ALGORITHM")
    params = running.parsed_params(algorithm, param or ())
    with output.progress() as progress:
        results = running.run_suite(
            suite,
            algorithm,
            params=params,
            seeds=range(1, seeds + 1),
            only=case or (),
            out=out or output.place(suite, algorithm),
            progress=progress,
            datapath=datapath,
        )
    output.show(results, as_json=as_json)
    if _failed(results):
        raise typer.Exit(1)


def _failed(results: list[CaseResult]) -> bool:
    return any(one.outcome == "fails" for one in results)
