"""`ccp bench`: one command for each benchmark."""

from __future__ import annotations

import inspect
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from ccplane.agent.commands.shared_options import take
from ccplane.base import options
from experiments.bench import (
    against as guard,
)
from experiments.bench import (
    bus,
    datapath,
    every,
    flows,
    inband,
    latency,
    reports,
    sim,
)
from experiments.bench.errors import BenchError
from experiments.bench.every import BENCHMARKS
from experiments.bench.report import KEPT, not_kept, read, report_of
from experiments.bench.result import BenchResult
from experiments.bench.rounds import MIN_ROUNDS, Plan
from experiments.report import write
from experiments.run_options import ReportFile

app = typer.Typer(
    help="Benchmark ccplane against the kernel on this machine.", no_args_is_help=True, add_completion=False
)

PIPE_WIDTH: Final = 120

Keep = Annotated[
    Path | None,
    typer.Option("--keep", metavar="FOLDER", help="Save the result as JSON in this folder, as NAME.json."),
]

_Run = Callable[..., BenchResult]
_WITHOUT_ROOT: Final = ("bus", "sim")

Rounds = Annotated[
    int,
    typer.Option(
        min=1,
        help=f"Minimum number of valid rounds; fewer than {MIN_ROUNDS} give no intervals and no verdicts.",
    ),
]
MaxRounds = Annotated[
    int, typer.Option(min=1, help="Maximum number of valid rounds.", rich_help_panel=options.ADVANCED)
]
Precision = Annotated[
    float,
    typer.Option(
        min=0,
        help="Stop when half the width of each 95 % interval is at most this fraction of the median.",
        rich_help_panel=options.ADVANCED,
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        help="Seed of the random order of measurements in a round.", rich_help_panel=options.ADVANCED
    ),
]


def _finish(
    run: Callable[[Plan], BenchResult],
    rounds: Rounds,
    max_rounds: MaxRounds,
    precision: Precision,
    seed: Seed,
    as_json: options.AsJson = False,
    keep: Keep = None,
    report: ReportFile = None,
) -> None:
    """Measure, print and save: the steps that all benchmarks share."""
    result = run(Plan(rounds, max_rounds, precision, seed))
    if keep is not None:
        result.keep(keep)
    _show(result, as_json)
    if report is not None:
        _report([result], report, quietly=as_json)
    if result.exit_code:
        raise typer.Exit(result.exit_code)


_COMMON: Final = dict(list(inspect.signature(_finish, eval_str=True).parameters.items())[1:])
"""Options that every benchmark has."""


ABOUT: Final[dict[str, str]] = {}
"""Name of a benchmark -> what it measures."""


def benchmark(name: str) -> Callable[[_Run], _Run]:
    """Make a command of a function that takes a plan and its own options, and returns a result."""
    about = BENCHMARKS[name]
    plan = asdict(about.plan)
    common = {key: one.replace(default=plan.get(key, one.default)) for key, one in _COMMON.items()}

    def decorate(run: _Run) -> _Run:
        def command(**given: Any) -> None:
            shared = {option: given.pop(option) for option in common}
            if shared["rounds"] > about.plan.max_rounds == shared["max_rounds"]:
                shared["max_rounds"] = shared["rounds"]
            _finish(lambda plan: run(plan, **given), **shared)

        ABOUT[name] = str(run.__doc__)
        own = list(inspect.signature(run, eval_str=True).parameters.values())[1:]
        take(command, [*own, *common.values()])
        sudo = "" if name in _WITHOUT_ROOT else "sudo "
        app.command(
            name,
            help=f"{run.__doc__}\n\nThe benchmark takes {about.minutes_text}.",
            epilog=options.examples(f"{sudo}ccp bench {name} --keep out/bench"),
        )(command)
        return run

    return decorate


def _show(result: BenchResult, as_json: bool) -> None:
    if as_json:
        typer.echo(result.to_json(), nl=False)
    else:
        # A pipe has no width; metric names must not be cut there.
        result.print(Console() if sys.stdout.isatty() else Console(width=PIPE_WIDTH))


@benchmark("datapath")
def _datapath(
    plan: Plan,
    seconds: Annotated[
        float | None,
        options.seconds("Length of each transfer", min=1, show_default="4s, or 2s with --against"),
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(
            "--congestion-control",
            metavar="NAME",
            help="Also measure this congestion control of the kernel, such as bbr; repeatable.",
        ),
    ] = None,
    algorithm: Annotated[str, options.algorithm("ccplane algorithm to measure.")] = "cubic",
    against: Annotated[
        str | None,
        typer.Option(
            metavar="REVISION",
            help="Compare this build with that of a git revision; exit code 1 if this build is worse.",
        ),
    ] = None,
) -> BenchResult:
    """Compare a ccplane flow with a kernel CUBIC flow: throughput, retransmissions, CPU time per ACK."""
    if against is None:
        return datapath.run(plan, seconds or datapath.SECONDS, peer or [], algorithm=algorithm)
    if peer:
        raise BenchError(
            "bench.bad_options",
            "--congestion-control cannot be combined with --against",
            "--against, --congestion-control",
            "--against compares two builds of ccplane, without other congestion controls",
            "leave out --congestion-control",
        )
    return guard.run(plan, against, seconds, algorithm)


@benchmark("latency")
def _latency(plan: Plan) -> BenchResult:
    """Measure the time from an ACK to the update that it causes, on an idle and on a busy machine."""
    return latency.run(plan)


@benchmark("reports")
def _reports(plan: Plan) -> BenchResult:
    """Measure how many reports per second a Python process handles, with both kinds of algorithms."""
    return reports.run(plan)


@benchmark("flows")
def _flows(
    plan: Plan,
    count: Annotated[int, typer.Option("--flows", min=1, max=30_000, help="Concurrent flows.")] = 10_000,
) -> BenchResult:
    """Compare many concurrent ccplane flows with as many kernel CUBIC flows: memory per flow, CPU time."""
    return flows.run(plan, count=count)


@benchmark("bus")
def _bus(plan: Plan) -> BenchResult:
    """Measure messages per second and latency through a broker."""
    return bus.run(plan)


@benchmark("int")
def _int(
    plan: Plan, seconds: Annotated[float, options.seconds("Length of each transfer", min=1)] = 4.0
) -> BenchResult:
    """Compare transfers with in-band telemetry with transfers without: throughput, retransmissions, CPU."""
    return inband.run(plan, seconds)


@benchmark("sim")
def _sim(plan: Plan) -> BenchResult:
    """Measure packet events and environment steps per second of the simulator on one core."""
    return sim.run(plan)


def _report(results: Sequence[BenchResult], file: Path, *, quietly: bool = False) -> None:
    typer.echo(write(report_of(results, ABOUT), file), err=quietly)


@app.command("all", epilog=options.examples("sudo ccp bench all --keep out/bench --report bench.html"))
def all_command(keep: Keep = None, report: ReportFile = None) -> None:
    """Run all benchmarks, one after the other, and print how long each took.

    Exit code 1: a benchmark failed; the others still ran.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = keep or Path(scratch)
        failed = every.run(Console(), folder)
        if report is not None and (results := read(folder)):
            _report(results, report)
    if failed:
        typer.echo(f"failed: {', '.join(failed)}", err=True)
        raise typer.Exit(1)


@app.command("show", epilog=options.examples("ccp bench show latency", "ccp bench show --report bench.html"))
def show(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Benchmarks.", show_default="all saved ones"),
    ] = None,
    results: Annotated[
        Path,
        typer.Option(
            "--results",
            metavar="FOLDER",
            help="Folder of results that `ccp bench NAME --keep FOLDER` saved.",
            show_default="docs/results/bench",
        ),
    ] = KEPT,
    report: ReportFile = None,
) -> None:
    """Print saved results of benchmarks, or write a report of them; run nothing."""
    saved = {one.name: one for one in read(results)}
    for name in names or list(saved) or ["all"]:
        if name not in saved:
            raise not_kept(f"`{name}`", results, saved, f"sudo ccp bench NAME --keep {results}")
    chosen = [one for one in saved.values() if not names or one.name in names]
    if report is not None:
        _report(chosen, report)
        return
    for one in chosen:
        _show(one, as_json=False)
