"""`ccp bench NAME`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

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
    rtcp,
    sim,
)
from experiments.bench.errors import BenchError
from experiments.bench.every import BENCHMARKS
from experiments.bench.result import BenchResult
from experiments.bench.rounds import LEAST_ROUNDS, Plan
from experiments.validation.command import validation_command

app = typer.Typer(help="Measure ccplane on this machine, side by side with the kernel.", no_args_is_help=True)

PIPE_WIDTH: Final = 120

Count = Annotated[int, typer.Option(min=1, max=30_000, help="Concurrent flows.")]
Seconds = Annotated[float, typer.Option(min=1, help="Length of each transfer, in seconds.")]
Keep = Annotated[
    Path | None, typer.Option("--keep", metavar="FOLDER", help="Keep the result there, as NAME.json.")
]

_Run = Callable[..., BenchResult]


def _common(plan: Plan) -> dict[str, tuple[Any, Any]]:
    """Return the options of every benchmark: their types and defaults."""
    least = f"Rounds that count, at least; below {LEAST_ROUNDS} there is no interval and no verdict."
    narrow = "Stop when half the 95 % interval of each headline figure is at most this share of its median."
    return {
        "rounds": (Annotated[int, typer.Option(min=1, help=least)], plan.rounds),
        "max_rounds": (Annotated[int, typer.Option(min=1, help="Rounds at most.")], plan.max_rounds),
        "precision": (Annotated[float, typer.Option(min=0, help=narrow)], plan.precision),
        "seed": (Annotated[int, typer.Option(help="Of the order within rounds.")], plan.seed),
        "as_json": (
            Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")],
            False,
        ),
        "keep": (Keep, None),
    }


def benchmark(name: str) -> Callable[[_Run], _Run]:
    """Make a command of a function that takes a plan and options of its own, and returns a result."""
    about = BENCHMARKS[name]
    common = _common(about.plan)

    def decorate(run: _Run) -> _Run:
        own = list(inspect.signature(run, eval_str=True).parameters.values())[1:]

        def command(**given: Any) -> None:
            told = {option: given.pop(option) for option in common}
            least, most = told["rounds"], told["max_rounds"]
            if least > about.plan.max_rounds and most == about.plan.max_rounds:
                most = least  # who asks for more rounds at least need not ask twice
            result = run(Plan(least, most, told["precision"], told["seed"]), **given)
            if told["keep"] is not None:
                result.keep(told["keep"])
            _show(result, told["as_json"])
            if result.exit_code:
                raise typer.Exit(result.exit_code)

        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [one.replace(kind=keyword) for one in own] + [
            inspect.Parameter(option, keyword, annotation=annotation, default=default)
            for option, (annotation, default) in common.items()
        ]
        # typer reads both.
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        help_text = f"{run.__doc__}\n\nIt takes {about.told_minutes}."
        app.command(name, help=help_text)(command)
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
            metavar="REVISION|FILE",
            help="Compare this build with another revision, or with a kept result; exit code 1 if worse.",
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


@benchmark("rtcp")
def _rtcp(
    plan: Plan,
    count: Count = 8_000,
    load: Annotated[list[rtcp.Load] | None, typer.Option(help="Only this load.")] = None,
    object_kb: Annotated[
        int, typer.Option(min=1, metavar="KB", help="Length of each download behind a limit.")
    ] = rtcp.OBJECT_BYTES >> 10,
    observe: Annotated[bool, typer.Option("--observe", help="Find limits, and bound nothing.")] = False,
) -> BenchResult:
    """CPU and memory of R-TCP under many connections, against the kernel's CUBIC and BBR."""
    loads = load or tuple(rtcp.Load)
    return rtcp.run(plan, count, loads, object_bytes=object_kb << 10, observe=observe)


@benchmark("bus")
def _bus(
    plan: Plan,
    broker: Annotated[list[str] | None, typer.Option(help="Only this broker: embedded or mosquitto.")] = None,
) -> BenchResult:
    """Messages a second and latency through the embedded broker and Mosquitto."""
    return bus.run(plan, tuple(broker or bus.BROKERS))


@benchmark("int")
def _int(plan: Plan, seconds: Seconds = 4.0) -> BenchResult:
    """Goodput and CPU per GB with in-band telemetry on every packet, on one in ten, and off."""
    return inband.run(plan, seconds)


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


app.command("validation")(validation_command)
