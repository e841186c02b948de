"""`ccp experiment`: run scenarios and sweeps, list and plot their results."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.table import Table

from ccplane.base import options
from ccplane.base.errors import CcpError
from experiments.errors import ScenarioError
from experiments.examples_command import examples, notebook
from experiments.printing import (
    console,
    print_json,
    records,
    show,
    show_plan,
    show_sweep,
    shown_progress,
    summary,
)
from experiments.qlog import qlog
from experiments.run_options import Datapath, Jobs, On
from experiments.writing import cannot_write, file_name

if TYPE_CHECKING:
    from experiments.results import Result, ResultSet
    from experiments.scenario import Scenario

# Commands import the modules that do the work: pandas is slow, and `ccp --help` imports this module.

OUT: Final = Path("out")

app = typer.Typer(
    help="Run scenarios and sweeps over emulated or simulated networks; list and plot their results.",
    no_args_is_help=True,
    add_completion=False,
)

_Param = Annotated[
    list[str] | None,
    options.param(
        "Change a field of the scenario, such as duration_s=5 or flows.*.algorithm=kernel/cubic; repeatable.",
        metavar="FIELD=VALUE",
    ),
]


@app.command(
    "run",
    epilog=options.examples(
        "ccp experiment run examples/scenarios/two-flows.yaml --datapath sim",
        "sudo ccp experiment run examples/scenarios/two-flows.yaml -p duration_s=5 -o out/two-flows",
    ),
)
def run_(
    file: Annotated[Path, typer.Argument(help="Scenario, a YAML file.")],
    out: Annotated[Path | None, options.out("Folder for the result.", show_default="out/NAME-TIME")] = None,
    changes: _Param = None,
    datapath: Datapath = None,
    as_json: options.AsJson = False,
) -> None:
    """Run a scenario, save its result, and print a summary. Real sockets need root.

    With in-band telemetry, the summary shows the nodes' queues and the causes of
    losses; with regime detection, how long each regime lasted.
    """
    from experiments.run import run

    scenario = _on(_changed(_scenario(file), changes), datapath)
    if out is None:
        now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        out = OUT / f"{file_name(scenario.name)}-{now}"
    with shown_progress(scenario) as progress:
        result = run(scenario, out, progress=progress)
    if as_json:
        print_json(summary(result))
        return
    show(result)
    typer.echo(f"result: {out}")


@app.command(
    "sweep",
    epilog=options.examples(
        "ccp experiment sweep examples/scenarios/buffers.yaml --dry-run",
        "sudo ccp experiment sweep examples/scenarios/buffers.yaml --repeats 10",
    ),
)
def sweep_(
    file: Annotated[Path, typer.Argument(help="Grid, a YAML file.")],
    out: Annotated[
        Path | None,
        options.out("Folder for the results; runs already there are not repeated.", show_default="out/NAME"),
    ] = None,
    jobs: Jobs = 1,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Runs of each point.", show_default="as the grid says")
    ] = None,
    changes: _Param = None,
    datapath: Datapath = None,
    on: On = None,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Run all points of a grid that have no result yet, and print a summary. Real sockets need root.

    Ctrl-C interrupts; the same command resumes. Exit code 1: some runs have no result.
    """
    from dataclasses import replace

    from experiments.runs.reports import Screen
    from experiments.sweep import Grid, planned, sweep

    grid = Grid.load(file)
    grid = replace(grid, base=_on(_changed(grid.base, changes), datapath))
    out = out or OUT / file_name(grid.title)
    if dry_run:
        show_plan(planned(grid, repeats), out, jobs, as_json)
        return
    results = sweep(grid, out=out, repeats=repeats, jobs=jobs, on=on, report=Screen())
    failed = results.failed
    if as_json:
        print_json(
            {
                "name": results.name,
                "directory": str(out),
                "planned": len(results.planned),
                "done": len(results),
                "failed": failed,
                "flows": records(results.table()),
            }
        )
    else:
        show_sweep(results)
        typer.echo(f"results: {out}")
    if results.missing:
        raise typer.Exit(1)


@app.command("list", epilog=options.examples("ccp experiment list out"))
def list_(
    directory: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder, searched recursively.")] = OUT,
    as_json: options.AsJson = False,
) -> None:
    """List the results of runs and sweeps in a folder."""
    found = list(_found(directory))
    if as_json:
        print_json(found)
        return
    if not found:
        typer.echo(f"no results in {directory}")
        return
    table = Table("result", "name", "kind", "state", "written")
    for one in found:
        table.add_row(one["directory"], one["name"], one["kind"], one["state"], one["written"])
    console().print(table)


@app.command(epilog=options.examples("ccp experiment plot out/two-flows --format svg"))
def plot(
    result: Annotated[Path, typer.Argument(help="Folder of a run or a sweep.")],
    out: Annotated[Path | None, options.out("Folder for the figures.", show_default="RESULT/plots")] = None,
    format_: Annotated[
        list[str] | None,
        typer.Option(
            "--format", metavar="FORMAT", help="File format: png, svg or pdf; repeatable.", show_default="png"
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Draw the figures of a run or a sweep."""
    from experiments import plots

    opened = _open(result)
    out = out or result / "plots"
    try:
        files = plots.save_all(opened, out, format_ or ["png"])
    except OSError as error:
        raise cannot_write(out, error) from error
    if as_json:
        print_json([str(one) for one in files])
        return
    for one in files:
        typer.echo(str(one))


app.command(epilog=options.examples("ccp experiment qlog out/two-flows"))(qlog)
app.command(epilog=options.examples("ccp experiment examples", "ccp experiment examples trial"))(examples)
app.command(
    epilog=options.examples("ccp experiment notebook", "ccp experiment notebook hyvar --folder trial")
)(notebook)


# --- scenarios ---------------------------------------------------------------------------------------------


def _scenario(file: Path) -> Scenario:
    from experiments.scenario import Scenario

    return Scenario.load(file)


def _changed(scenario: Scenario, settings: list[str] | None) -> Scenario:
    """Return a scenario with the fields of `--param` changed; values are parsed as YAML."""
    from experiments.runs.grid import changed
    from experiments.runs.reading import parse_yaml

    changes: dict[str, Any] = {}
    for setting in settings or []:
        path, equals, value = setting.partition("=")
        if not equals or not path:
            raise ScenarioError(
                "scenario.bad_field",
                f"cannot parse FIELD=VALUE: `{setting}`",
                f"--param {setting}",
                fix="write FIELD=VALUE, such as --param duration_s=5",
            )
        changes[path.strip()] = parse_yaml(value, f"--param {path}")
    return changed(scenario, changes) if changes else scenario


def _on(scenario: Scenario, datapath: str | None) -> Scenario:
    """Return the scenario with another datapath; None keeps its own."""
    if datapath is None:
        return scenario
    from experiments.run import recorder_of

    scenario = scenario.replace(datapath=datapath)
    recorder_of(scenario)  # raises if the datapath does not exist
    return scenario


# --- results -----------------------------------------------------------------------------------------------


def _open(directory: Path) -> Result | ResultSet:
    from experiments.results import SWEEP, Result, ResultSet

    return ResultSet.load(directory) if (directory / SWEEP).exists() else Result.load(directory)


def _found(directory: Path) -> Iterator[dict[str, str]]:
    """Yield the results in a folder, recursively; a sweep is one result."""
    from experiments.results import METADATA, SWEEP

    if (directory / SWEEP).exists():
        yield _described(directory, "sweep")
    elif (directory / METADATA).exists():
        yield _described(directory, "run")
    elif directory.is_dir():
        for inner in sorted(directory.iterdir()):
            if inner.is_dir() and not inner.is_symlink() and not inner.name.startswith("."):
                yield from _found(inner)


def _described(directory: Path, kind: str) -> dict[str, str]:
    from experiments.results import METADATA, SWEEP, Result, ResultSet

    file = directory / (SWEEP if kind == "sweep" else METADATA)
    written = datetime.datetime.fromtimestamp(file.stat().st_mtime).isoformat(" ", "seconds")
    about = {"directory": str(directory), "kind": kind, "written": written}
    try:
        if kind == "run":
            result = Result.load(directory)
            return {**about, "name": result.name, "state": "complete" if result.complete else "incomplete"}
        results = ResultSet.load(directory)
        return {**about, "name": results.name, "state": f"{len(results)} of {len(results.planned)} runs"}
    except CcpError as error:
        return {**about, "name": "?", "state": error.slug}
