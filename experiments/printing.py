"""Results, plans and progress of runs, printed as tables or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from experiments.runs.figures import figure, median
from experiments.runs.summary import MAX_ROWS, special_tables

if TYPE_CHECKING:
    import pandas as pd

    from experiments.results import Result, ResultSet
    from experiments.runs.planned import PlannedRun
    from experiments.runs.session import Progress as RunProgress
    from experiments.scenario import Scenario

# Functions import the modules that do the work: pandas is slow, and `ccp --help` imports this module.


def console() -> Console:
    """Return where tables are printed. A pipe has no width; names must not be cut there."""
    console = Console()
    return console if console.is_terminal else Console(width=160)


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, indent=2))


@contextmanager
def shown_progress(scenario: Scenario) -> Iterator[RunProgress]:
    """Show a progress bar of a run on standard error during a block; yields the function that moves it."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(scenario.name, total=scenario.duration_s)

        def moved(what: str, at_s: float) -> None:
            bar.update(task, description=f"{scenario.name}: {what}", completed=at_s)

        yield moved


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
        "flows": records(result.flows),
        **({} if result.media.empty else {"media": records(result.media)}),
    }


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
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


def show_sweep(results: ResultSet) -> None:
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


def show_plan(runs: list[PlannedRun], out: Path, jobs: int, as_json: bool) -> None:
    """Print the runs of a sweep, and which of them have a result."""
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
