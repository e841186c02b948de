"""`ccp demo`: kernel CUBIC and ccplane's, over a clean path and over one that loses packets at random.

Four runs, one after the other, of one iperf3 flow each: 100 Mbit/s, 50 ms base RTT, a drop-tail buffer of one
bandwidth-delay product. What flows did is seen by tracing their sockets in the kernel, in the same way for
both.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from datapath import ebpf
from datapath.errors import CcpError, LoadError
from experiments.agent_process import PIN_DIR

if TYPE_CHECKING:
    import pandas as pd

    from experiments.scenario import Scenario

# The modules that run scenarios and draw are imported where they are used: `ccp --help` imports this one.

RATE_BYTES_PER_S: Final = 12.5e6
RTT_US: Final = 50_000
PAYLOAD_SHARE: Final = 1448 / 1500
"""What of the rate is TCP payload: an IP packet of 1500 bytes carries 1448, with TCP timestamps."""
PATHS: Final = {"clean": 0.0, "0.5 % random loss": 0.005}
"""What the path is called -> share of packets that it loses at random."""
ALGORITHMS: Final = ("kernel/cubic", "cubic")

_FIGURES: Final = ("goodput_bytes_per_s", "retrans_pct", "rtt_p50_us", "rtt_p95_us")
_EXTRA_S: Final = 3.0
"""What a run takes beside its duration, for the progress bar [s]."""

app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class Transfer:
    """One flow, measured.

    Attributes:
        path: One of `PATHS`.
        algorithm: As in scenarios.
        goodput_bytes_per_s: Payload acknowledged, by time [bytes/s].
        retrans_pct: Share of what was sent that was sent again [%].
        rtt_p50_us: Median RTT [us].
        rtt_p95_us: 95th percentile of the same [us].
        samples: The flow over time, a table `flow_samples`.
    """

    path: str
    algorithm: str
    goodput_bytes_per_s: float
    retrans_pct: float
    rtt_p50_us: float
    rtt_p95_us: float
    samples: pd.DataFrame

    def as_dict(self) -> dict[str, Any]:
        """Return the figures by name; of the samples, how many."""
        return {**vars(self), "samples": len(self.samples)}


@app.command()
def demo(
    seconds: Annotated[
        int, typer.Option(min=2, max=60, help="Seconds that each of the four runs takes.")
    ] = 10,
    output: Annotated[Path, typer.Option(help="Where to write the plot: png, svg or pdf.")] = Path(
        "out/demo.png"
    ),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:
    """Compare kernel CUBIC with ccplane's, with and without random loss: a table and a plot (needs root)."""
    must_be_able()
    transfers = measure(seconds)
    if as_json:
        document = {
            "name": "demo",
            "kernel": os.uname().release,
            "rate_bytes_per_s": RATE_BYTES_PER_S,
            "base_rtt_us": RTT_US,
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
    from agent.runfile import RunFile

    with RunFile(PIN_DIR):
        try:
            ebpf.load(ebpf.LoadOptions(pin_dir=PIN_DIR, max_flows=1)).close()
        finally:
            ebpf.unload(PIN_DIR)


def scenario(algorithm: str, path: str, seconds: float) -> Scenario:
    """Return one of the four runs.

    Args:
        algorithm: One of `ALGORITHMS`.
        path: One of `PATHS`.
        seconds: How long it sends [s].
    """
    from experiments.netlab.spec import Bernoulli, Buffer, Direction
    from experiments.scenario import Flow, PointToPoint, Scenario

    ratio = PATHS[path]
    forward = Direction(
        rate_bytes_per_s=RATE_BYTES_PER_S,
        delay_us=RTT_US // 2,
        buffer=Buffer(bdp=1),
        loss=Bernoulli(ratio=ratio) if ratio else None,
    )
    return Scenario(
        name=f"demo: {algorithm}, {path}",
        topology=PointToPoint(forward),
        flows=(Flow(name="flow", sender="sender", receiver="receiver", algorithm=algorithm),),
        duration_s=seconds,
    )


def measure(seconds: int) -> list[Transfer]:
    """Do all runs, with a progress bar on stderr.

    Args:
        seconds: Length of each [s].

    Returns:
        The transfers, path by path, in the order of `ALGORITHMS`.

    Raises:
        LoadError: If the datapath does not load, or the network cannot be built.
        CcpError: If a run fails.
    """
    from experiments.netlab import LabError
    from experiments.plots import label
    from experiments.run import run

    columns = (TextColumn("{task.description:<35}"), BarColumn(None), TimeRemainingColumn())
    each_s = seconds + _EXTRA_S
    transfers: list[Transfer] = []
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=len(PATHS) * len(ALGORITHMS) * each_s)
        try:
            try_loading()
            for path in PATHS:
                for algorithm in ALGORITHMS:
                    bar.update(task, description=f"{label(algorithm)}, {path}")
                    before_s = len(transfers) * each_s

                    def told(_what: str, passed_s: float, before_s: float = before_s) -> None:
                        bar.update(task, completed=before_s + min(passed_s, each_s))

                    result = run(scenario(algorithm, path, seconds), progress=told)
                    row = result.flows.iloc[0]
                    figures = {name: float(row[name]) for name in _FIGURES}
                    transfers.append(Transfer(path, algorithm, **figures, samples=result.flow_samples))
        except LabError as error:
            if error.slug == "lab.not_permitted":
                raise LoadError(*error.args) from error  # told in one line, as all that keeps us from running
            raise
    return transfers


def draw(transfers: Sequence[Transfer], output: Path) -> None:
    """Write the plot.

    Args:
        transfers: What to draw.
        output: The file.

    Raises:
        CcpError: `demo.cannot_write`.
        MetricError: `plot.format`.
    """
    import pandas as pd

    from experiments import plots

    columns = {
        path: pd.concat([one.samples.assign(flow=one.algorithm) for one in transfers if one.path == path])
        for path in PATHS
    }
    figure = plots.side_by_side(
        columns,
        pd.DataFrame({"flow": ALGORITHMS, "algorithm": ALGORITHMS}),
        limits={"goodput_bytes_per_s": PAYLOAD_SHARE * RATE_BYTES_PER_S},
        goodput_interval_s=0.5,
        title="One flow over 100 Mbit/s and 50 ms: the kernel's CUBIC and ccplane's",
        note=f"drop-tail buffer of 1 BDP; one run each, in turn, seed 1; Linux {os.uname().release}",
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
    from experiments.plots import label

    table = Table(
        title=f"one flow through {RATE_BYTES_PER_S / 125e3:.0f} Mbit/s, base RTT {RTT_US / 1e3:.0f} ms, "
        f"{seconds} s each",
        caption=f"Payload acknowledged, of which {PAYLOAD_SHARE * RATE_BYTES_PER_S / 125e3:.1f} Mbit/s fit.\n"
        "To CUBIC a lost packet is congestion, wherever it runs: random loss slows it down.",
        caption_justify="left",
    )
    table.add_column("path")
    table.add_column("algorithm")
    for name, unit in (
        ("goodput", "Mbit/s"),
        ("sent again", "%"),
        ("median RTT", "ms"),
        ("p95 RTT", "ms"),
    ):
        table.add_column(f"{name}\n[not bold]{unit}", justify="right")
    for one in transfers:
        table.add_row(
            one.path,
            label(one.algorithm),
            f"{one.goodput_bytes_per_s / 125e3:.1f}",
            f"{one.retrans_pct:.2f}",
            f"{one.rtt_p50_us / 1e3:.1f}",
            f"{one.rtt_p95_us / 1e3:.1f}",
            end_section=one.algorithm == ALGORITHMS[-1],
        )
    Console().print(table)
