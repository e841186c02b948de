"""`ccp bench validation`: the simulator against this kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from ccplane.base.names import close_names
from experiments.runs.reports import Screen
from experiments.validation import drawing, running
from experiments.validation.heldout import Heldout

OUT: Final = Path("out/validation")
_PIPE_WIDTH: Final = 160


def validation_command(
    draw: Annotated[int, typer.Option(min=1, metavar="N", help="Number of scenarios.")] = 25,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 1,
    case: Annotated[
        list[str] | None,
        typer.Option(help="Run only this scenario of the draw; several times for several."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each scenario on each datapath.")] = 2,
    trace: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A recorded cellular link, in the format of Mahimahi."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Directory for the results. Resumes there.")] = OUT,
    jobs: Annotated[
        int, typer.Option(min=1, help="Simultaneous runs. Those with ccplane's algorithms take turns.")
    ] = 1,
    no_run: Annotated[
        bool, typer.Option("--no-run", help="Report what is there; run nothing (needs no root).")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
    keep: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep the result there, as draw-SEED.json.")
    ] = None,
) -> None:
    """Run scenarios drawn at random on the kernel and in the simulator; print the errors (needs root).

    A scenario takes half a minute. Ctrl-C interrupts; the same command resumes.

    Exit code 1: a run is missing.
    """
    place = out / f"draw-{seed}"
    drawn = drawing.draw_scenarios(draw, seed, place / "traces", trace or ())
    known = [one.name for one in drawn]
    for name in case or ():
        if name not in known:
            raise typer.BadParameter(close_names(name, known, "name"))
    chosen = [one for one in drawn if not case or one.name in case]
    scenarios = [one.scenario for one in chosen]
    rows = running.collect(scenarios, rounds, place, jobs=jobs, run=not no_run, report=Screen())
    heldout = Heldout.of(chosen, rows)
    if keep is not None:
        heldout.keep(keep / f"{place.name}.json")
    if as_json:
        typer.echo(heldout.to_json(), nl=False)
    else:
        console = Console()
        heldout.print(console if console.is_terminal else Console(width=_PIPE_WIDTH))
    if len(rows) != len(scenarios) * rounds * len(running.DATAPATHS):
        raise typer.Exit(1)
