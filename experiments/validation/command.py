"""`ccp validate`: compare the simulator with this kernel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from ccplane.base import options
from ccplane.base.names import close_names
from experiments.bench.errors import BenchError
from experiments.bench.report import not_kept
from experiments.report import write
from experiments.run_options import Jobs, NoRun, ReportFile
from experiments.runs.reports import Screen
from experiments.validation import drawing, running
from experiments.validation import report as reports
from experiments.validation.heldout import Heldout

OUT: Final = Path("out/validation")
_PIPE_WIDTH: Final = 160


app = typer.Typer(add_completion=False)


@app.command(
    epilog=options.examples(
        "sudo ccp validate",
        "sudo ccp validate --seed 1 --case s1-007",
        "ccp validate --results docs/results/validation --report validation.html",
    )
)
def validate(
    draw: Annotated[int, typer.Option(min=1, metavar="N", help="Number of scenarios to draw.")] = 25,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for drawing scenarios.")] = 1,
    case: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Run only the drawn scenario of this name; repeatable."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each scenario on each datapath.")] = 2,
    trace: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Use this recorded Mahimahi trace for cellular links; repeatable.",
            rich_help_panel=options.ADVANCED,
        ),
    ] = None,
    out: Annotated[Path, options.out("Folder for the runs; runs already there are not repeated.")] = OUT,
    jobs: Jobs = 1,
    again: Annotated[
        bool,
        typer.Option("--again", help="Repeat runs that do not count because the machine disturbed them."),
    ] = False,
    no_run: NoRun = False,
    as_json: options.AsJson = False,
    report: ReportFile = None,
    results: Annotated[
        Path | None,
        typer.Option(
            "--results",
            metavar="FOLDER",
            help="Report the draws that --keep saved in this folder; run nothing.",
            rich_help_panel=options.ADVANCED,
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            metavar="FOLDER",
            help="Save the result as JSON in this folder, as draw-SEED.json.",
            rich_help_panel=options.ADVANCED,
        ),
    ] = None,
) -> None:
    """Run randomly drawn scenarios on the kernel and in the simulator, and print the simulator's errors.

    A scenario takes about half a minute. Ctrl-C interrupts; the same command resumes.
    Exit code 1: runs are missing.
    """
    if results is not None:
        saved = reports.read(results)
        if not saved:
            raise not_kept("a draw", results, (), f"sudo ccp validate --draw {draw} --keep {results}")
        _report(saved, report, as_json)
        return
    place = out / f"draw-{seed}"
    drawn = drawing.draw_scenarios(draw, seed, place / "traces", trace or ())
    known = [one.name for one in drawn]
    for name in case or ():
        if name not in known:
            raise typer.BadParameter(close_names(name, known, "name"))
    chosen = [one for one in drawn if not case or one.name in case]
    scenarios = [one.scenario for one in chosen]
    rows = running.collect(
        scenarios, rounds, place, jobs=jobs, run=not no_run, again=again and not no_run, report=Screen()
    )
    if rows.empty:
        raise BenchError(
            "bench.no_runs",
            "there is no run to compare",
            str(place),
            "the folder has no run, and --no-run was given" if no_run else "all runs failed",
            f"sudo ccp validate --draw {draw} --seed {seed}" if no_run else "see the failures above",
        )
    heldout = Heldout.of(chosen, rows)
    if keep is not None:
        heldout.keep(keep / f"{place.name}.json")
    _report({place.name: heldout}, report, as_json)
    if len(rows) != len(scenarios) * rounds * len(running.DATAPATHS):
        raise typer.Exit(1)


def _report(draws: Mapping[str, Heldout], report: Path | None, as_json: bool) -> None:
    """Print draws, and write the report if its file is given."""
    console = Console()
    for draw in draws.values():
        if as_json:
            typer.echo(draw.to_json(), nl=False)
        else:
            draw.print(console if console.is_terminal else Console(width=_PIPE_WIDTH))
    if report is not None:
        typer.echo(write(reports.report_of(draws), report), err=as_json)
