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

from ccplane.base.errors import CcpError
from experiments.errors import ResultError, ScenarioError

if TYPE_CHECKING:
    import pandas as pd

    from experiments.results import Result, ResultSet
    from experiments.runs.session import Progress as RunProgress
    from experiments.scenario import Scenario

# The modules that work are imported by the commands: pandas takes a while, and `ccp --help` imports this one.

OUT: Final = Path("out")

app = typer.Typer(
    help="Run scenarios and sweeps over emulated networks; list and plot their results.",
    no_args_is_help=True,
)

_Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
_Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="FIELD=VALUE: change a field, such as flows.*.algorithm=kernel/cubic."),
]

_Datapath = Annotated[
    str | None,
    typer.Option(help="Run it there: `ebpf`, on real sockets, or `sim`, simulated. By default as it says."),
]

On = Annotated[
    str | None,
    typer.Option(help="dask://HOST:PORT: the workers of this Dask scheduler do the runs."),
]

_MAX_ROWS: Final = 40


@app.command("run")
def run_(
    file: Annotated[Path, typer.Argument(help="YAML file of a scenario.")],
    out: Annotated[
        Path | None, typer.Option(help="Directory for the result; by default one in out/.")
    ] = None,
    changes: _Set = None,
    datapath: _Datapath = None,
    as_json: _Json = False,
) -> None:
    """Run a scenario once, keep its result, and print a summary; on real sockets it needs root.

    Where the network has in-band telemetry, it tells what nodes said, and for which cause packets were lost;
    where receivers tell regimes apart, for how long each held.
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


@app.command("sweep")
def sweep_(
    file: Annotated[Path, typer.Argument(help="YAML file of a grid.")],
    out: Annotated[
        Path | None, typer.Option(help="Directory for the results; by default out/NAME. Goes on there.")
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Runs at once. Those with ccplane's algorithms take turns.")
    ] = 1,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="How often each point is run, instead of what the file says.")
    ] = None,
    changes: _Set = None,
    datapath: _Datapath = None,
    on: On = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the runs, and run nothing.")] = False,
    as_json: _Json = False,
) -> None:
    """Do all runs of a grid that are not done yet, and print a summary; on real sockets it needs root.

    An interrupted sweep goes on when the command is given again.
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


@app.command("list")
def list_(
    directory: Annotated[Path, typer.Argument(help="Where to look; directories in it, too.")] = OUT,
    as_json: _Json = False,
) -> None:
    """List the results of runs and sweeps in a directory."""
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
    _console().print(table)


@app.command()
def plot(
    result: Annotated[Path, typer.Argument(help="Directory of a run or of a sweep.")],
    out: Annotated[
        Path | None, typer.Option(help="Directory for the figures; by default `plots` in the result.")
    ] = None,
    format_: Annotated[
        list[str] | None, typer.Option("--format", help="png, svg or pdf; may be given several times.")
    ] = None,
    as_json: _Json = False,
) -> None:
    """Draw the figures of a run or of a sweep."""
    from experiments import plots

    opened = _open(result)
    out = out or result / "plots"
    try:
        files = plots.save_all(opened, out, format_ or ["png"])
    except OSError as error:
        raise ResultError(
            "result.cannot_write",
            f"the figures cannot be written to {out}",
            str(out),
            error.strerror or str(error),
            "choose another place with --out",
        ) from error
    if as_json:
        print_json([str(one) for one in files])
        return
    for one in files:
        typer.echo(str(one))


# --- scenarios ---------------------------------------------------------------------------------------------


def _scenario(file: Path) -> Scenario:
    from experiments.scenario import Scenario

    return Scenario.load(file)


def _changed(scenario: Scenario, settings: list[str] | None) -> Scenario:
    """Return a scenario with the fields of `--set` changed; values are read as YAML."""
    from experiments.runs.grid import changed
    from experiments.runs.reading import parse_yaml

    changes: dict[str, Any] = {}
    for setting in settings or []:
        path, equals, value = setting.partition("=")
        if not equals or not path:
            raise ScenarioError(
                "scenario.bad_field",
                f"`{setting}` sets nothing",
                f"--set {setting}",
                fix="write FIELD=VALUE, such as --set duration_s=5",
            )
        changes[path.strip()] = parse_yaml(value, f"--set {path}")
    return changed(scenario, changes) if changes else scenario


def _on(scenario: Scenario, datapath: str | None) -> Scenario:
    """Return a scenario on another datapath; None leaves it as it is."""
    if datapath is None:
        return scenario
    from experiments.run import recorder_of

    scenario = scenario.replace(datapath=datapath)
    recorder_of(scenario)  # it is there
    return scenario


def file_name(name: str) -> str:
    """Return a name as that of a directory."""
    return "".join(one if one.isalnum() or one in "-_." else "-" for one in name)


@contextmanager
def shown_progress(scenario: Scenario) -> Iterator[RunProgress]:
    """Show how far a run is, on standard error, for the length of a block; gives what it is told to."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(scenario.name, total=scenario.duration_s)

        def told(what: str, at_s: float) -> None:
            bar.update(task, description=f"{scenario.name}: {what}", completed=at_s)

        yield told


# --- results -----------------------------------------------------------------------------------------------


def warnings(result: Result) -> list[str]:
    """Return what of a finished run should make one careful."""
    from experiments.runs.leavings import AGENT_LOG, QUIC_AGENT_LOG

    said = []
    for name, log in (("agent", AGENT_LOG), ("quic_agent", QUIC_AGENT_LOG)):
        if failed := (result.metadata.get(name) or {}).get("flows_failed"):
            said.append(
                f"the algorithm of {failed} connections raised an exception, and the fallback law went on; "
                f"{log} has the traceback"
            )
    if result.metadata.get("samples_dropped"):
        said.append(f"{result.metadata['samples_dropped']} samples of sockets were lost")
    if dropped := (result.metadata.get("emulator") or {}).get("int_summaries_dropped"):
        said.append(f"{dropped} summaries of in-band telemetry were lost")
    return said


def show(result: Result) -> None:
    """Print a summary of a run for people."""
    simulated = " (simulated)" if result.metadata["datapath"] == "sim" else ""
    _show_flows(result.flows, result.name + simulated)
    if not result.int_summaries.empty:
        _show_telemetry(result)
    if not result.regimes.empty:
        _show_regimes(result)
    for warning in warnings(result):
        typer.echo(f"warning: {warning}", err=True)


def summary(result: Result) -> dict[str, Any]:
    """Return a summary of a run as plain data."""
    return {
        "name": result.name,
        "directory": str(result.directory),
        "seed": result.metadata["seed"],
        "wall_s": result.metadata["wall_s"],
        "warnings": warnings(result),
        "flows": _records(result.flows),
    }


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table's rows; what is missing is None."""
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
    for row in flows.head(_MAX_ROWS).to_dict("records"):
        table.add_row(
            *(str(row[name]) for name in ("flow", "algorithm", "sender", "receiver")),
            _figure(row["goodput_bytes_per_s"], 125e3, 2),
            _figure(row["retrans_pct"], 1, 2),
            _figure(row["rtt_p50_us"], 1e3, 1),
            _figure(row["rtt_p95_us"], 1e3, 1),
            _figure(row["lost_pkts"], 1, 0),
            _figure(row["delivered_ce"], 1, 0),
        )
    if len(flows) > _MAX_ROWS:
        table.caption = f"and {len(flows) - _MAX_ROWS} more"
    _console().print(table)


def _show_telemetry(result: Result) -> None:
    from experiments import metrics

    told, age_us = result.int_summaries, result.int_decisions["age_us"]
    table = Table(title=f"in-band telemetry: {len(told)} summaries")
    for heading in ("flow", "way", "node"):
        table.add_column(heading)
    for heading in ("queue", "least room", "arrivals", "flows"):
        unit = {"arrivals": "packets/s", "flows": "at most"}.get(heading, "packets")
        table.add_column(f"{heading}\n[not bold]{unit}", justify="right")
    for row in metrics.int_nodes(result.int_hops).head(_MAX_ROWS).to_dict("records"):
        table.add_row(
            str(row["flow"]),
            "back" if row["backward"] else "there",
            str(row["node"]),
            _figure(row["queue_depth_pkts"], 1, 1),
            _figure(row["queue_free_pkts"], 1, 1),
            _figure(row["arrival_pkts_per_s"], 1, 0),
            _figure(row["flow_count"], 1, 0),
        )
    causes = ("congestion", "link", "unknown")
    lost = ", ".join(f"{told[f'lost_{cause}_pkts'].sum():.0f} {cause}" for cause in causes)
    table.caption = f"lost packets by cause: {lost}"
    if len(age_us):
        p50_ms, p99_ms = (age_us.quantile(share) / 1e3 for share in (0.5, 0.99))
        table.caption += f"; age at the decision: p50 {p50_ms:.1f} ms, p99 {p99_ms:.1f} ms"
    _console().print(table)


def _show_regimes(result: Result) -> None:
    from telemetry.regime import SHARED

    table = Table(title="regimes, as the receivers decided")
    for heading in ("receiver", "peer"):
        table.add_column(heading)
    for heading in ("SHARED\n[not bold]% of the time", "changes"):
        table.add_column(heading, justify="right")
    for (host, peer), own in result.regimes.groupby(["host", "peer"], sort=False):
        shared, changes = (own["regime"] == SHARED).mean(), own["switched"].sum()
        table.add_row(str(host), str(peer), _figure(shared, 0.01, 0), _figure(changes, 1, 0))
    counts = result.regime_events["event"].value_counts()
    if len(counts):
        table.caption = "flows: " + ", ".join(f"{name} {count}" for name, count in counts.items())
    _console().print(table)


def _show_sweep(results: ResultSet) -> None:
    """Print medians over the repeats, a row for each point and flow."""
    table = results.table()
    if table.empty:
        return
    axes = [f"axis.{name}" if f"axis.{name}" in table.columns else name for name in results.axes]
    keys = [*axes, "flow"]
    if not any(axis.endswith(".algorithm") for axis in axes):
        keys.append("algorithm")
    shown = ["goodput_bytes_per_s", "retrans_pct", "rtt_p50_us", "rtt_p95_us"]
    grouped = table.groupby(keys, sort=False, dropna=False)
    medians = grouped[shown].median().assign(runs=grouped.size()).reset_index()
    screen = Table(title=f"{results.name}: medians")
    for name in keys:
        screen.add_column(name.rpartition(".")[2], overflow="fold")
    headings = ("runs", "goodput\n[not bold]Mbit/s", "retransmitted\n[not bold]%")
    for heading in (*headings, "RTT p50\n[not bold]ms", "RTT p95\n[not bold]ms"):
        screen.add_column(heading, justify="right")
    for row in medians.head(_MAX_ROWS).to_dict("records"):
        screen.add_row(
            *(str(row[name]) for name in keys),
            str(row["runs"]),
            _figure(row["goodput_bytes_per_s"], 125e3, 2),
            _figure(row["retrans_pct"], 1, 2),
            _figure(row["rtt_p50_us"], 1e3, 1),
            _figure(row["rtt_p95_us"], 1e3, 1),
        )
    if len(medians) > _MAX_ROWS:
        screen.caption = f"and {len(medians) - _MAX_ROWS} more; --json has them all"
    _console().print(screen)


def _figure(value: Any, unit: float, digits: int) -> str:
    return "?" if value is None or value != value else f"{value / unit:,.{digits}f}"


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
    """Yield the results in a directory and below; the runs of a sweep are one result."""
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
    told = {"directory": str(directory), "kind": kind, "written": written}
    try:
        if kind == "run":
            result = Result.load(directory)
            return {**told, "name": result.name, "state": "complete" if result.complete else "incomplete"}
        results = ResultSet.load(directory)
        return {**told, "name": results.name, "state": f"{len(results)} of {len(results.planned)} runs"}
    except CcpError as error:
        return {**told, "name": "?", "state": error.slug}


def _console() -> Console:
    # A pipe has no width; names should be whole there, too.
    console = Console()
    return console if console.is_terminal else Console(width=160)


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, indent=2))
