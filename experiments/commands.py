"""`ccp experiment`: run scenarios and sweeps, list and plot their results."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ccplane.base import options
from ccplane.base.errors import CcpError
from experiments.errors import ResultError, ScenarioError
from experiments.examples_command import examples, notebook
from experiments.qlog import qlog
from experiments.run_options import Datapath, Jobs, On
from experiments.runs.figures import figure, median
from experiments.runs.summary import MAX_ROWS, special_tables

if TYPE_CHECKING:
    import pandas as pd

    from experiments.results import Result, ResultSet
    from experiments.runs.session import Progress as RunProgress
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
        _show_plan(planned(grid, repeats), out, jobs, as_json)
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
                "flows": _records(results.table()),
            }
        )
    else:
        _show_sweep(results)
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
        raise ResultError(
            "result.cannot_write",
            f"cannot write the figures to {out}",
            str(out),
            error.strerror or str(error),
            "choose another folder with --out",
        ) from error
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


def file_name(name: str) -> str:
    """Return a name in which all characters that do not suit a folder are replaced."""
    return "".join(one if one.isalnum() or one in "-_." else "-" for one in name)


@contextmanager
def shown_progress(scenario: Scenario) -> Iterator[RunProgress]:
    """Show a progress bar of a run on standard error during a block; yields the function that moves it."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(scenario.name, total=scenario.duration_s)

        def moved(what: str, at_s: float) -> None:
            bar.update(task, description=f"{scenario.name}: {what}", completed=at_s)

        yield moved


# --- results -----------------------------------------------------------------------------------------------


def warnings(result: Result) -> list[str]:
    """Return the reasons to distrust the result of a finished run."""
    from experiments.runs.artifacts import AGENT_LOG, QUIC_AGENT_LOG

    found = []
    for name, log in (("agent", AGENT_LOG), ("quic_agent", QUIC_AGENT_LOG)):
        if failed := (result.metadata.get(name) or {}).get("flows_failed"):
            found.append(
                f"the algorithm raised an exception on {failed} connections, which switched to the fallback; "
                f"see the traceback in {log}"
            )
    if result.metadata.get("samples_dropped"):
        found.append(f"{result.metadata['samples_dropped']} socket samples were lost")
    if dropped := (result.metadata.get("emulator") or {}).get("int_summaries_dropped"):
        found.append(f"{dropped} in-band telemetry summaries were lost")
    return found


def show(result: Result) -> None:
    """Print a summary of a run as tables."""
    simulated = " (simulated)" if result.metadata["datapath"] == "sim" else ""
    _show_flows(result.flows, result.name + simulated)
    for table in special_tables(result):
        console().print(table)
    for warning in warnings(result):
        typer.echo(f"warning: {warning}", err=True)


def summary(result: Result) -> dict[str, Any]:
    """Return a summary of a run for JSON."""
    return {
        "name": result.name,
        "directory": str(result.directory),
        "seed": result.metadata["seed"],
        "wall_s": result.metadata["wall_s"],
        "warnings": warnings(result),
        "flows": _records(result.flows),
        **({} if result.media.empty else {"media": _records(result.media)}),
    }


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table's rows; missing values are None."""
    records: list[dict[str, Any]] = json.loads(frame.to_json(orient="records"))
    return records


def _show_flows(flows: pd.DataFrame, title: str) -> None:
    table = Table(title=title)
    for heading in ("flow", "algorithm", "from", "to"):
        table.add_column(heading)
    for heading, unit in (
        ("goodput", "Mbit/s"),
        ("retransmitted", "%"),
        ("RTT p50", "ms"),
        ("RTT p95", "ms"),
        ("lost", "segments"),
        ("CE", "segments"),
    ):
        table.add_column(f"{heading}\n[not bold]{unit}", justify="right")
    for row in flows.head(MAX_ROWS).to_dict("records"):
        table.add_row(
            *(str(row[name]) for name in ("flow", "algorithm", "sender", "receiver")),
            figure(row["goodput_bytes_per_s"], 125e3, 2),
            figure(row["retrans_pct"], 1, 2),
            figure(row["rtt_p50_us"], 1e3, 1),
            figure(row["rtt_p95_us"], 1e3, 1),
            figure(row["lost_pkts"], 1, 0),
            figure(row["delivered_ce"], 1, 0),
        )
    if len(flows) > MAX_ROWS:
        table.caption = f"and {len(flows) - MAX_ROWS} more"
    console().print(table)


def _show_sweep(results: ResultSet) -> None:
    """Print medians over the repeats with their intervals, one row for each point and flow."""
    from experiments.statistics import min_runs

    table = results.table()
    if table.empty:
        return
    axes = [f"axis.{name}" if f"axis.{name}" in table.columns else name for name in results.axes]
    keys = [*axes, "flow"]
    if not any(axis.endswith(".algorithm") for axis in axes):
        keys.append("algorithm")
    groups = list(table.groupby(keys, sort=False, dropna=False))
    has_interval = max(len(own) for _, own in groups) >= min_runs()
    screen = Table(title=f"{results.name}: medians" + r" \[95% interval]" * has_interval)
    for name in keys:
        screen.add_column(name.rpartition(".")[2], overflow="fold")
    headings = ("runs", "goodput\n[not bold]Mbit/s", "retransmitted\n[not bold]%")
    for heading in (*headings, "RTT p50\n[not bold]ms", "RTT p95\n[not bold]ms"):
        screen.add_column(heading, justify="right")
    for at, own in groups[:MAX_ROWS]:
        screen.add_row(
            *map(str, at),
            str(len(own)),
            median(own["goodput_bytes_per_s"], 125e3, 2),
            median(own["retrans_pct"], 1, 2),
            median(own["rtt_p50_us"], 1e3, 1),
            median(own["rtt_p95_us"], 1e3, 1),
        )
    if len(groups) > MAX_ROWS:
        screen.caption = f"and {len(groups) - MAX_ROWS} more; --json prints all"
    console().print(screen)


def _show_plan(runs: list[Any], out: Path, jobs: int, as_json: bool) -> None:
    from experiments.results import is_complete
    from experiments.runs.reports import duration
    from experiments.sweep import estimate_s

    if as_json:
        print_json(
            [
                {
                    "key": one.key,
                    "axes": one.axes,
                    "repeat": one.repeat,
                    "seed": one.scenario.seed,
                    "done": is_complete(out / one.key),
                }
                for one in runs
            ]
        )
        return
    missing = list({one.key: one for one in runs if not is_complete(out / one.key)}.values())
    for one in runs:
        state = "done" if is_complete(out / one.key) else "to do"
        typer.echo(f"{one.key}  {state:<6} {one.label}")
    about_s = estimate_s(missing, jobs)
    about = "" if about_s is None else f", about {duration(about_s)}"
    typer.echo(f"{len(runs)} runs, {len(missing)} to do{about}")


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


def console() -> Console:
    """Return where tables are printed. A pipe has no width; names must not be cut there."""
    console = Console()
    return console if console.is_terminal else Console(width=160)


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, indent=2))
