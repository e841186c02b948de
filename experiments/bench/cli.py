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
    agents,
    bus,
    canary,
    datapath,
    datapaths,
    echo,
    emulator,
    every,
    flows,
    inband,
    ioam,
    latency,
    ns3_peer,
    peers,
    quic,
    reload,
    reports,
    rtcp,
    signal,
    sim,
)
from experiments.bench.errors import BenchError
from experiments.bench.every import APART, BENCHMARKS
from experiments.bench.libccp import PROGRAM as LIBCCP_PATH
from experiments.bench.result import BenchResult
from experiments.bench.rounds import LEAST_ROUNDS, Plan
from experiments.traffic.files import PROGRAM as FILES
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
    about = {**BENCHMARKS, **APART}[name]
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


@benchmark("peers")
def _peers(plan: Plan, seconds: Seconds = 4.0) -> BenchResult:
    """As `datapath`, beside kernel BBR, CUBIC in BPF without an agent, and CUBIC all in Python."""
    return peers.run(plan, seconds)


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


@benchmark("reload")
def _reload(plan: Plan, count: Count = 1_000) -> BenchResult:
    """How long the agent's thread is busy with a new version of an algorithm under many flows."""
    return reload.run(plan, count=count)


@benchmark("canary")
def _canary(
    plan: Plan,
    tries: Annotated[int, typer.Option(min=0, help="Trials of a version against itself.")] = 100,
) -> BenchResult:
    """What a bad version costs on 5 % of new flows, and how often a good one is taken back."""
    return canary.run(plan, tries)


@benchmark("emulator")
def _emulator(plan: Plan) -> BenchResult:
    """Packets a second of the link emulator, and the errors of its delay, rate and loss."""
    return emulator.run(plan)


@benchmark("bus")
def _bus(plan: Plan) -> BenchResult:
    """Messages a second and latency through a broker."""
    return bus.run(plan)


@benchmark("signal")
def _signal(
    plan: Plan,
    seconds: Annotated[int, typer.Option(min=2, help="Length of each transfer, in seconds.")] = 15,
) -> BenchResult:
    """Time from a receiver's signal to the changed window, through a broker."""
    return signal.run(plan, seconds=seconds)


@benchmark("ioam")
def _ioam(plan: Plan) -> BenchResult:
    """Packets a second that nodes of in-band telemetry make, fill, read and strip, on one core."""
    return ioam.run(plan)


@benchmark("int")
def _int(plan: Plan, seconds: Seconds = 4.0) -> BenchResult:
    """Goodput and CPU per GB with in-band telemetry on every packet, on one in ten, and off."""
    return inband.run(plan, seconds)


@benchmark("echo")
def _echo(
    plan: Plan,
    seconds: Annotated[int, typer.Option(min=2, help="Length of each transfer, in seconds.")] = 5,
) -> BenchResult:
    """How old in-band telemetry is when an algorithm decides, by echoes in ACKs and through a broker."""
    return echo.run(plan, seconds)


@benchmark("sim")
def _sim(
    plan: Plan,
    peer: Annotated[
        str | None,
        typer.Option(metavar="ns3", help="Flows here and in another simulator: cost, and what they come to."),
    ] = None,
    beside_kernel: Annotated[
        bool, typer.Option("--beside-kernel", help="With --peer: the same flows in the kernel (needs root).")
    ] = False,
) -> BenchResult:
    """Packet events and environment steps of the simulator a second, on one core; simulated by real time."""
    if peer is None and not beside_kernel:
        return sim.run(plan)
    if peer != ns3_peer.NS3:
        raise BenchError(
            "bench.bad_options",
            f"there is no simulator `{peer}` to measure beside" if peer else "--beside-kernel wants a peer",
            "--peer",
            fix=f"give --peer {ns3_peer.NS3}",
        )
    return ns3_peer.run(plan, beside_kernel=beside_kernel)


@benchmark("agents")
def _agents(
    plan: Plan,
    agent: Annotated[
        list[str],
        typer.Option(metavar="NAME=COMMAND", help="An agent made with portus: reno='./reno --ipc unix'."),
    ],
    ours: Annotated[
        list[str] | None, typer.Option(help="Our algorithm to measure along; the first is the yardstick.")
    ] = None,
    kernel: Annotated[
        list[str] | None, typer.Option(help="The kernel's likewise; the yardstick if there is none of ours.")
    ] = None,
    libccp: Annotated[
        Path | None,
        typer.Option(
            metavar="PROGRAM",
            help="The example libccp_path of the crate ccp-difftest: each agent on libccp is its yardstick.",
        ),
    ] = None,
    rate_mbit: Annotated[float, typer.Option(help="Rate of the emulated path.")] = 48.0,
    rtt_ms: Annotated[float, typer.Option(help="Its RTT.")] = 40.0,
    buffer_bdp: Annotated[float, typer.Option(min=0.01, help="Its buffer, by its BDP.")] = 1.0,
    scenario: Annotated[
        agents.Scenario | None, typer.Option(help="A path of `ccp bench datapath` instead.")
    ] = None,
    seconds: Seconds = 12.0,
    omit: Annotated[int, typer.Option(min=0, help="Seconds before these that are not measured.")] = 3,
) -> BenchResult:
    """Agents made with portus, through `ccp serve-ccp`, beside our algorithms and the kernel's."""
    where, length = agents.Where(scenario, rate_mbit, rtt_ms, buffer_bdp), agents.Length(seconds, omit)
    return agents.run(plan, agent, agents.Beside(ours or [], kernel or [], libccp), where, length)


@benchmark("quic")
def _quic(
    plan: Plan,
    files: Annotated[
        Path, typer.Option(metavar="PROGRAM", help="The example `files` of the crate ccp-quic.")
    ] = FILES,
) -> BenchResult:
    """Connections of quinn under `cubic` by `ccp run --datapath quic`, beside quinn's own CUBIC."""
    return quic.run(plan, files)


@benchmark("datapaths")
def _datapaths(
    plan: Plan,
    algorithm: Annotated[str, typer.Option(help="Which of ccplane's algorithms, as of `ccp run`.")] = "reno",
    rate_mbit: Annotated[float, typer.Option(help="Rate of the emulated path.")] = 48.0,
    rtt_ms: Annotated[float, typer.Option(help="Its RTT; its buffer is one BDP.")] = 20.0,
    seconds: Seconds = 9.0,
    omit: Annotated[int, typer.Option(min=0, help="Seconds of these that are left out at first.")] = 2,
    libccp: Annotated[
        Path, typer.Option(metavar="PROGRAM", help="The example `libccp_path` of the crate ccp-difftest.")
    ] = LIBCCP_PATH,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the windows of the last round there.")
    ] = None,
) -> BenchResult:
    """An algorithm, the same file, on the kernel's TCP, the simulator, libccp and QUIC, over one path."""
    where, length = agents.Where(None, rate_mbit, rtt_ms), agents.Length(seconds, omit)
    return datapaths.run(plan, algorithm, where, length, libccp, picture)


@app.command("all")
def all_command(keep: Keep = None) -> None:
    """All but `agents`, `datapaths`, `quic` and `validation`, one after the other, and how long each takes.

    Exit code 1: one of them failed; the others are measured nevertheless.
    """
    if failed := every.run(Console(), keep):
        typer.echo(f"failed: {', '.join(failed)}", err=True)
        raise typer.Exit(1)


app.command("validation")(validation_command)
