"""`ccp bench NAME`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console

from experiments.bench import (
    bus,
    datapath,
    emulator,
    flows,
    inband,
    ioam,
    latency,
    reload,
    reports,
    rtcp,
    signal,
    sim,
)
from experiments.bench.result import BenchResult
from experiments.validation.command import validation_command

app = typer.Typer(help="Measure ccplane on this machine, side by side with the kernel.", no_args_is_help=True)

PIPE_WIDTH = 120

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]
Rounds = Annotated[int, typer.Option(min=1, help="Paired rounds; the figures are medians over them.")]
Count = Annotated[int, typer.Option(min=1, max=30_000, help="Concurrent flows.")]


def _show(result: BenchResult, as_json: bool) -> None:
    if as_json:
        typer.echo(result.to_json())
    else:
        # A pipe has no width; names of metrics should be whole there, too.
        result.print(Console() if sys.stdout.isatty() else Console(width=PIPE_WIDTH))


@app.command("datapath")
def datapath_command(
    rounds: Rounds = 9,
    seconds: Annotated[float, typer.Option(min=1, help="Length of each transfer, in seconds.")] = 4.0,
    peer: Annotated[
        list[str] | None,
        typer.Option(help="Another congestion control of this kernel to measure, such as a CCP module's."),
    ] = None,
    algorithm: Annotated[str, typer.Option(help="Which of ccplane's algorithms, by name.")] = "cubic",
    wakeful: Annotated[bool, typer.Option(help="As of `ccp run`.")] = True,
    as_json: Json = False,
) -> None:
    """CPU per GB, throughput and retransmits of one flow, as ratios to kernel CUBIC."""
    result = datapath.run(rounds, seconds, peer or [], algorithm=algorithm, wakeful=wakeful)
    _show(result, as_json)


@app.command("latency")
def latency_command(rounds: Rounds = 5, as_json: Json = False) -> None:
    """Time from an ACK to the update it caused, idle and under load."""
    _show(latency.run(rounds=rounds), as_json)


@app.command("reports")
def reports_command(rounds: Rounds = 5, as_json: Json = False) -> None:
    """Reports a second that one Python process takes, per flow and vectorised."""
    _show(reports.run(rounds=rounds), as_json)


@app.command("flows")
def flows_command(
    rounds: Rounds = 3,
    count: Count = 10_000,
    as_json: Json = False,
) -> None:
    """Memory per flow and CPU of many concurrent flows against kernel CUBIC."""
    _show(flows.run(rounds=rounds, count=count), as_json)


@app.command("rtcp")
def rtcp_command(
    rounds: Rounds = 3,
    count: Count = 8_000,
    load: Annotated[list[rtcp.Load] | None, typer.Option(help="Only this load.")] = None,
    as_json: Json = False,
) -> None:
    """CPU and memory of R-TCP under many connections, against the kernel's CUBIC and BBR."""
    _show(rtcp.run(rounds, count, load or tuple(rtcp.Load)), as_json)


@app.command("reload")
def reload_command(
    rounds: Rounds = 5,
    count: Count = 1_000,
    as_json: Json = False,
) -> None:
    """How long the agent's thread is busy with a new version of an algorithm under many flows."""
    _show(reload.run(rounds=rounds, count=count), as_json)


@app.command("emulator")
def emulator_command(rounds: Rounds = 5, as_json: Json = False) -> None:
    """Packets a second of the link emulator, and the errors of its delay, rate and loss."""
    _show(emulator.run(rounds=rounds), as_json)


@app.command("bus")
def bus_command(
    rounds: Rounds = 3,
    broker: Annotated[list[str] | None, typer.Option(help="Only this broker: embedded or mosquitto.")] = None,
    as_json: Json = False,
) -> None:
    """Messages a second and latency through the embedded broker and Mosquitto."""
    _show(bus.run(rounds, tuple(broker or bus.BROKERS)), as_json)


@app.command("signal")
def signal_command(
    rounds: Rounds = 3,
    seconds: Annotated[int, typer.Option(min=2, help="Length of each transfer, in seconds.")] = 15,
    as_json: Json = False,
) -> None:
    """Time from a receiver's signal to the changed window, through the embedded broker and Mosquitto."""
    _show(signal.run(rounds=rounds, seconds=seconds), as_json)


@app.command("ioam")
def ioam_command(rounds: Rounds = 5, as_json: Json = False) -> None:
    """Packets a second that nodes of in-band telemetry make, fill, read and strip, on one core."""
    _show(ioam.run(rounds=rounds), as_json)


@app.command("int")
def int_command(
    rounds: Rounds = 5,
    seconds: Annotated[float, typer.Option(min=1, help="Length of each transfer, in seconds.")] = 4.0,
    as_json: Json = False,
) -> None:
    """Goodput and CPU per GB with in-band telemetry on every packet, on one in ten, and off."""
    _show(inband.run(rounds, seconds), as_json)


@app.command("sim")
def sim_command(rounds: Rounds = 5, as_json: Json = False) -> None:
    """Packet events and environment steps of the simulator a second, on one core; simulated by real time."""
    _show(sim.run(rounds=rounds), as_json)


app.command("validation")(validation_command)
