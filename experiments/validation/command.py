"""`ccp bench validation`: the simulator against this kernel."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from ccp_base.names import close_names
from experiments.runs.reports import Screen
from experiments.validation import comparison, running
from experiments.validation.cases import CASES

OUT: Final = Path("out/validation")
_PIPE_WIDTH: Final = 160


def _one_of(names: Collection[str]) -> Callable[[str], str]:
    """Return what takes one of some names from the command line."""

    def name(given: str) -> str:
        if given not in names:
            raise typer.BadParameter(close_names(given, names, "name"))
        return given

    return name


def validation_command(
    quick: Annotated[bool, typer.Option("--quick", help="Half of the scenarios, two rounds.")] = False,
    case: Annotated[
        list[str] | None,
        typer.Option(help="Only this scenario; several times for several.", parser=_one_of(CASES)),
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="How often each is run on each datapath.")] = None,
    datapath: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this one: `ebpf` alone shows how far the kernel's own runs differ.",
            parser=_one_of(running.DATAPATHS),
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Directory for the results. Goes on there.")] = OUT,
    jobs: Annotated[
        int, typer.Option(min=1, help="Runs at once. Those with ccplane's algorithms take turns.")
    ] = 1,
    no_run: Annotated[
        bool, typer.Option("--no-run", help="Report what is there; run nothing (needs no root).")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:
    """Run the same scenarios on the kernel and in the simulator, and print each deviation (needs root).

    All of them take an hour, with --quick ten minutes. Ctrl-C interrupts; the same command goes on.

    Exit code 1: a run is missing, or a deviation is larger than its goal and than the kernel's own range.
    """
    extent = running.Extent.of(quick=quick, cases=case or (), rounds=rounds, datapaths=datapath or ())
    rows = running.collect(extent, out, jobs=jobs, run=not no_run, report=Screen())
    deviations = comparison.compare(rows)
    if as_json:
        typer.echo(comparison.to_json(rows, deviations))
    else:
        console = Console()
        console = console if console.is_terminal else Console(width=_PIPE_WIDTH)
        console.print(comparison.screen(deviations))
        verdicts = comparison.counted(deviations).items()
        console.print(", ".join(f"{count} {verdict}" for verdict, count in verdicts), highlight=False)
        if late := comparison.left_out(rows):
            console.print(f"{late} runs of the kernel do not count: the machine stood still", highlight=False)
    complete = len(rows) == len(extent.cases) * extent.rounds * len(extent.datapaths)
    if not complete or any(one.verdict == "missed" for one in deviations):
        raise typer.Exit(1)
