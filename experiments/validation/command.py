"""`ccp bench validation`: the simulator against this kernel."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from ccp_base.names import close_names
from experiments.runs.reports import Screen
from experiments.validation import comparison, drawing, running
from experiments.validation.cases import CASES
from experiments.validation.heldout import Heldout

OUT: Final = Path("out/validation")
_PIPE_WIDTH: Final = 160


def _one_of(names: Collection[str]) -> Callable[[str], str]:
    """Return what takes one of some names from the command line."""
    return lambda given: _known(given, names)


def _known(given: str, names: Collection[str]) -> str:
    if given not in names:
        raise typer.BadParameter(close_names(given, names, "name"))
    return given


def validation_command(
    quick: Annotated[bool, typer.Option("--quick", help="Half of the scenarios, two rounds.")] = False,
    case: Annotated[
        list[str] | None,
        typer.Option(help="Only this scenario; several times for several."),
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
    draw: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="N scenarios drawn at random instead, two rounds."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of --draw; 1 by default.")] = None,
    trace: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="With --draw: a recorded cellular link, as Mahimahi has them."),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="With --draw: keep the result there, as draw-SEED.json."),
    ] = None,
) -> None:
    """Run the same scenarios on the kernel and in the simulator, and print each deviation (needs root).

    All of them take an hour, with --quick ten minutes, drawn ones half a minute each. Ctrl-C interrupts; the
    same command goes on.

    Exit code 1: a run is missing, or a deviation is larger than its goal and than the kernel's own range (not
    with --draw, which shows how errors are distributed).
    """
    if draw is not None:
        if quick:
            raise typer.BadParameter("--quick chooses among the fixed scenarios; leave it or --draw out")
        place = out / f"draw-{1 if seed is None else seed}"
        drawn = drawing.draw_scenarios(draw, 1 if seed is None else seed, place / "traces", trace or ())
        known = {one.name: one.scenario for one in drawn}
        chosen = [_known(one, known) for one in case or ()] or [*known]
        extent = running.Extent(chosen, rounds or 2, tuple(datapath or running.DATAPATHS), known)
        rows = running.collect(extent, place, jobs=jobs, run=not no_run, report=Screen())
        heldout = Heldout.of([one for one in drawn if one.name in chosen], rows)
        if keep is not None:
            heldout.keep(keep / f"{place.name}.json")
        if as_json:
            typer.echo(heldout.to_json(), nl=False)
        else:
            heldout.print(_console())
        if len(rows) != extent.n_runs:
            raise typer.Exit(1)
        return
    if seed is not None or trace or keep:
        raise typer.BadParameter("--seed, --trace and --keep belong to --draw; give it, too")
    for one in case or ():
        _known(one, CASES)
    extent = running.Extent.of(quick=quick, cases=case or (), rounds=rounds, datapaths=datapath or ())
    rows = running.collect(extent, out, jobs=jobs, run=not no_run, report=Screen())
    deviations = comparison.compare(rows)
    if as_json:
        typer.echo(comparison.to_json(rows, deviations))
    else:
        console = _console()
        console.print(comparison.screen(deviations))
        verdicts = comparison.counted(deviations).items()
        console.print(", ".join(f"{count} {verdict}" for verdict, count in verdicts), highlight=False)
        if late := comparison.left_out(rows):
            console.print(f"{late} runs of the kernel do not count: the machine stood still", highlight=False)
    if len(rows) != extent.n_runs or any(one.verdict == "missed" for one in deviations):
        raise typer.Exit(1)


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=_PIPE_WIDTH)
