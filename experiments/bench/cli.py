"""`ccp bench NAME`."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from ccplane.agent.commands.shared_options import take
from experiments.bench import (
    against as guard,
)
from experiments.bench import (
    bus,
    datapath,
    every,
    flows,
    latency,
    reports,
    sim,
)
from experiments.bench.errors import BenchError
from experiments.bench.every import BENCHMARKS
from experiments.bench.result import BenchResult
from experiments.bench.rounds import LEAST_ROUNDS, Plan

app = typer.Typer(help="Measure ccplane on this machine, side by side with the kernel.", no_args_is_help=True)

PIPE_WIDTH: Final = 120

Count = Annotated[int, typer.Option(min=1, max=30_000, help="Concurrent flows.")]
Keep = Annotated[
    Path | None, typer.Option("--keep", metavar="FOLDER", help="Keep the result there, as NAME.json.")
]

_Run = Callable[..., BenchResult]


Rounds = Annotated[
    int,
    typer.Option(
        min=1, help=f"Rounds that count, at least; below {LEAST_ROUNDS} there is no interval and no verdict."
    ),
]
MaxRounds = Annotated[int, typer.Option(min=1, help="Rounds at most.")]
Precision = Annotated[
    float,
    typer.Option(
        min=0,
        help="Stop when half the 95 % interval of each headline figure is at most this share of its median.",
    ),
]
Seed = Annotated[int, typer.Option(help="Of the order within rounds.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]


def _finish(
    run: Callable[[Plan], BenchResult],
    rounds: Rounds,
    max_rounds: MaxRounds,
    precision: Precision,
    seed: Seed,
    as_json: AsJson = False,
    keep: Keep = None,
) -> None:
    """Measure, show and keep: what all benchmarks have in common."""
    result = run(Plan(rounds, max_rounds, precision, seed))
    if keep is not None:
        result.keep(keep)
    _show(result, as_json)
    if result.exit_code:
        raise typer.Exit(result.exit_code)


_COMMON: Final = dict(list(inspect.signature(_finish, eval_str=True).parameters.items())[1:])
"""Options of every benchmark."""


def benchmark(name: str) -> Callable[[_Run], _Run]:
    """Make a command of a function that takes a plan and options of its own, and returns a result."""
    about = BENCHMARKS[name]
    plan = asdict(about.plan)
    common = {key: one.replace(default=plan.get(key, one.default)) for key, one in _COMMON.items()}

    def decorate(run: _Run) -> _Run:
        def command(**given: Any) -> None:
            shared = {option: given.pop(option) for option in common}
            if shared["rounds"] > about.plan.max_rounds == shared["max_rounds"]:
                shared["max_rounds"] = shared["rounds"]  # more rounds at least are more at most
            _finish(lambda plan: run(plan, **given), **shared)

        own = list(inspect.signature(run, eval_str=True).parameters.values())[1:]
        take(command, [*own, *common.values()])
        app.command(name, help=f"{run.__doc__}\n\nIt takes {about.told_minutes}.")(command)
        return run

    return decorate


def _show(result: BenchResult, as_json: bool) -> None:
    if as_json:
        typer.echo(result.to_json(), nl=False)
    else:
        # A pipe has no width; names of metrics should be whole there, too.
        result.print(Console() if sys.stdout.isatty() else Console(width=PIPE_WIDTH))


@benchmark("datapath")
def _datapath(
    plan: Plan,
    seconds: Annotated[
        float | None,
        typer.Option(min=1, help="Length of each transfer, in seconds: 4, or 2 with --against."),
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(help="Another congestion control of this kernel to measure, such as a CCP module's."),
    ] = None,
    algorithm: Annotated[str, typer.Option(help="Which of ccplane's algorithms, by name.")] = "cubic",
    against: Annotated[
        str | None,
        typer.Option(
            metavar="REVISION",
            help="Compare this build with another revision; exit code 1 if worse.",
        ),
    ] = None,
) -> BenchResult:
    """CPU per GB, throughput and retransmits of one flow, by kernel CUBIC; what an ACK costs."""
    if against is None:
        return datapath.run(plan, seconds or datapath.SECONDS, peer or [], algorithm=algorithm)
    if peer:
        raise BenchError(
            "bench.bad_options",
            "builds are compared as `ccp run` has them, without peers",
            "--against, --peer",
            fix="leave out --peer",
        )
    return guard.run(plan, against, seconds, algorithm)


@benchmark("latency")
def _latency(plan: Plan) -> BenchResult:
    """Time from an ACK to the update it caused, idle and under load."""
    return latency.run(plan)


@benchmark("reports")
def _reports(plan: Plan) -> BenchResult:
    """Reports a second that one Python process takes, per flow and vectorised."""
    return reports.run(plan)


@benchmark("flows")
def _flows(plan: Plan, count: Count = 10_000) -> BenchResult:
    """Memory per flow and CPU of many concurrent flows against kernel CUBIC."""
    return flows.run(plan, count=count)


@benchmark("bus")
def _bus(plan: Plan) -> BenchResult:
    """Messages a second and latency through a broker."""
    return bus.run(plan)


@benchmark("sim")
def _sim(plan: Plan) -> BenchResult:
    """Packet events and environment steps of the simulator a second, on one core; simulated by real time."""
    return sim.run(plan)


@app.command("all")
def all_command(keep: Keep = None) -> None:
    """All but `validation`, one after the other, and how long each takes.

    Exit code 1: one of them failed; the others are measured nevertheless.
    """
    if failed := every.run(Console(), keep):
        typer.echo(f"failed: {', '.join(failed)}", err=True)
        raise typer.Exit(1)


if importlib.util.find_spec("experiments.validation"):  # the wheel lacks it
    from experiments.validation.command import validation_command

    app.command("validation")(validation_command)
