"""`ccp demo`: kernel CUBIC and ccplane's CUBIC, one after the other, over the same bottleneck.

Two hosts with a router between them that lets 100 Mbit/s through and has a drop-tail buffer of 20 ms; one
iperf3 flow each. Window, RTT and throughput of both are read from the socket in the same way (TCP_INFO), and
CPU time is that of the whole machine, so that neither side is measured by itself.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated, Any, Final

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from agent.runfile import RunFile
from datapath import ebpf
from datapath.errors import CcpError, LoadError
from experiments.agent_process import PIN_DIR, running_agent
from experiments.netlab import (
    CpuMeter,
    LabError,
    Path,
    TcpInfo,
    TcpWatch,
    bottleneck,
    start_iperf3,
)

RATE_BYTES_PER_S: Final = 12.5e6
BUFFER_BYTES: Final = 250_000
PAYLOAD_SHARE: Final = 1448 / 1514
"""What of the rate is TCP payload: an Ethernet frame of 1514 bytes carries 1448, with TCP timestamps."""
SAMPLE_S: Final = 0.02
"""How often a flow is looked at [s]."""
LABELS: Final = {"cubic": "kernel CUBIC", "ccp.cubic": "ccplane's CUBIC"}
"""What is compared: congestion-control name -> what people call it."""

_EXTRA_S: Final = 1.0
"""What a transfer takes beside its duration, for the progress bar [s]."""

app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class Transfer:
    """One flow, measured.

    Attributes:
        congestion: Congestion-control name.
        goodput_bytes_per_s: What arrived [bytes/s].
        retransmits_pkts: Segments sent again; None if iperf3 does not tell.
        rtt_mean_us: Mean over the samples of the kernel's smoothed RTT [us].
        rtt_p99_us: 99th percentile of the same [us].
        cpu_s_per_gb: Busy time of all processors per 1e9 bytes received [s].
        samples: The flow over time.
    """

    congestion: str
    goodput_bytes_per_s: float
    retransmits_pkts: int | None
    rtt_mean_us: float
    rtt_p99_us: float
    cpu_s_per_gb: float
    samples: Sequence[TcpInfo]

    def as_dict(self) -> dict[str, Any]:
        """Return the figures by name, without the samples."""
        return {
            "congestion": self.congestion,
            "goodput_bytes_per_s": self.goodput_bytes_per_s,
            "retransmits_pkts": self.retransmits_pkts,
            "rtt_mean_us": self.rtt_mean_us,
            "rtt_p99_us": self.rtt_p99_us,
            "cpu_s_per_gb": self.cpu_s_per_gb,
            "samples": len(self.samples),
        }


@app.command()
def demo(
    seconds: Annotated[
        int, typer.Option(min=2, max=60, help="Seconds that each of the two transfers takes.")
    ] = 12,
    output: Annotated[FilePath, typer.Option(help="Where to write the plot.")] = FilePath("out/demo.png"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:
    """Compare kernel CUBIC with ccplane's over a 100 Mbit/s bottleneck: a table and a plot (needs root)."""
    must_be_able()
    transfers = measure(seconds)
    if as_json:
        document = {
            "name": "demo",
            "kernel": os.uname().release,
            "rate_bytes_per_s": RATE_BYTES_PER_S,
            "buffer_bytes": BUFFER_BYTES,
            "seconds": seconds,
            "transfers": [transfer.as_dict() for transfer in transfers],
            "plot": str(output),
        }
        typer.echo(json.dumps(document, indent=2))
    else:
        show(transfers, seconds)
    draw(transfers, output)  # last: a plot that cannot be written costs no figures
    if not as_json:
        typer.echo(f"plot: {output}")


def must_be_able() -> None:
    """Find out whether this machine and process have what the datapath needs.

    Raises:
        LoadError: `load.missing`, with the first thing that is missing.
    """
    for needed in ebpf.probe():
        if needed.required and not needed.ok:
            raise LoadError(
                "load.missing",
                "the demo cannot run here",
                why=f"{needed.name}: {needed.detail}",
                fix=needed.fix,
            )


def try_loading() -> None:
    """Load the datapath and unload it: what speaks against it is told before anything is measured.

    Raises:
        LoadError: If it does not load, or an agent is running.
    """
    with RunFile(PIN_DIR):
        try:
            ebpf.load(ebpf.LoadOptions(pin_dir=PIN_DIR, max_flows=1)).close()
        finally:
            ebpf.unload(PIN_DIR)


def measure(seconds: int) -> list[Transfer]:
    """Run both transfers, with a progress bar on stderr.

    Args:
        seconds: Length of each [s].

    Returns:
        The transfers, in the order of `LABELS`.

    Raises:
        LoadError: If the datapath does not load, or the network cannot be built.
        CcpError: If a transfer fails.
    """
    columns = (TextColumn("{task.description:<16}"), BarColumn(None), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("building", total=len(LABELS) * (seconds + _EXTRA_S))

        def step(passed_s: float) -> None:
            progress.advance(task, passed_s)

        try:
            with bottleneck(RATE_BYTES_PER_S, BUFFER_BYTES) as path:
                try_loading()
                progress.update(task, description=LABELS["cubic"])
                kernel = transfer(path, "cubic", seconds, step)
                progress.update(task, description=LABELS["ccp.cubic"])
                with running_agent("cubic"):
                    return [kernel, transfer(path, "ccp.cubic", seconds, step)]
        except LabError as error:
            if error.slug == "lab.not_permitted":
                raise LoadError(*error.args) from error  # told in one line, as all that keeps us from running
            raise


def transfer(path: Path, congestion: str, seconds: int, step: Callable[[float], None]) -> Transfer:
    """Send for a while, and look at the socket meanwhile.

    Args:
        path: Where.
        congestion: Congestion-control name.
        seconds: For how long [s].
        step: Told how much time passed [s], now and then.

    Raises:
        CcpError: `demo.no_samples`, or if the transfer fails.
    """
    samples: list[TcpInfo] = []
    then_s = time.monotonic()
    with (
        TcpWatch(path.sender) as watch,
        CpuMeter() as meter,
        start_iperf3(path.sender, path.receiver, congestion=congestion, duration_s=seconds) as run,
    ):
        while run.running:
            if (sample := watch.read()) is not None:
                samples.append(sample)
            time.sleep(SAMPLE_S)
            now_s = time.monotonic()
            step(now_s - then_s)
            then_s = now_s
        result = run.wait()
        busy_s = meter.spent.busy_s
    if len(samples) < seconds / SAMPLE_S / 10:
        raise CcpError(
            "demo.no_samples",
            f"the flow of {congestion} was seen only {len(samples)} times in {seconds} s",
            why="its connection is not in inet_diag, or this machine stalls",
            fix="`ss -ti` in a second terminal shows whether inet_diag works; `modprobe tcp_diag` if not",
        )
    srtt_us = np.array([sample.srtt_us for sample in samples])
    return Transfer(
        congestion=congestion,
        goodput_bytes_per_s=result.goodput_bytes_per_s,
        retransmits_pkts=result.retransmits_pkts,
        rtt_mean_us=float(srtt_us.mean()),
        rtt_p99_us=float(np.percentile(srtt_us, 99)),
        cpu_s_per_gb=busy_s / (result.received_bytes / 1e9),
        samples=samples,
    )


def draw(transfers: Sequence[Transfer], output: FilePath) -> None:
    """Write the plot.

    Args:
        transfers: What to draw.
        output: The file.

    Raises:
        CcpError: `demo.cannot_write`.
    """
    from experiments import plots  # matplotlib takes a while to import, and `ccp --help` imports this module

    figure = plots.flows_figure(
        [plots.Trace(one.congestion, LABELS[one.congestion], one.samples) for one in transfers],
        title="One flow through 100 Mbit/s: the kernel's CUBIC and ccplane's",
        subtitle=f"drop-tail buffer of {_buffer_ms():.0f} ms, no other delay; one run each, "
        f"one after the other; Linux {os.uname().release}",
        limit_bytes_per_s=PAYLOAD_SHARE * RATE_BYTES_PER_S,
    )
    try:
        plots.save(figure, output)
    except OSError as error:
        raise CcpError(
            "demo.cannot_write",
            f"the plot cannot be written to {output}",
            why=error.strerror or str(error),
            fix="choose another file with --output",
        ) from error


def show(transfers: Sequence[Transfer], seconds: int) -> None:
    """Print the table.

    Args:
        transfers: What to show.
        seconds: How long each took [s].
    """
    table = Table(
        title=f"one flow through {RATE_BYTES_PER_S / 125e3:.0f} Mbit/s, buffer {_buffer_ms():.0f} ms, "
        f"{seconds} s each",
        caption=f"RTT: the kernel's smoothed RTT, read from the socket every {SAMPLE_S * 1e3:.0f} ms "
        "(TCP_INFO).\nCPU: busy time of all processors, iperf3 and the agent included, per GB received.",
        caption_justify="left",
    )
    table.add_column("")
    for name, unit in (
        ("goodput", "Mbit/s"),
        ("retransmits", "segments"),
        ("mean RTT", "ms"),
        ("p99 RTT", "ms"),
        ("CPU", "s/GB"),
    ):
        table.add_column(f"{name}\n[not bold]{unit}", justify="right")
    for one in transfers:
        table.add_row(
            LABELS[one.congestion],
            f"{one.goodput_bytes_per_s / 125e3:.1f}",
            "?" if one.retransmits_pkts is None else str(one.retransmits_pkts),
            f"{one.rtt_mean_us / 1e3:.1f}",
            f"{one.rtt_p99_us / 1e3:.1f}",
            f"{one.cpu_s_per_gb:.2f}",
        )
    Console().print(table)


def _buffer_ms() -> float:
    return 1e3 * BUFFER_BYTES / RATE_BYTES_PER_S
