"""`ccp demo`: kernel CUBIC and ccplane's, over a clean path and over one that loses packets at random.

Four runs, one after the other, of one iperf3 flow each: 100 Mbit/s, 50 ms base RTT, a drop-tail buffer of one
bandwidth-delay product. What flows did is seen by tracing their sockets in the kernel, in the same way for
both. Where the kernel datapath cannot run, the same four run in the simulator, and everything that is shown
says so.
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

from ccp_base.errors import CcpError, LoadError, VerifierError
from ccp_base.names import close_names
from datapath import ebpf
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

_OTHER_TROUBLE: Final = {"load.already_running", "load.no_native_module"}
"""No reasons for the simulator: it needs the compiled part, too, and an agent that runs is somebody's."""
_NO_NETWORK: Final = {"lab.no_command", "lab.no_tun", "lab.not_permitted"}

_FIGURES: Final = ("goodput_bytes_per_s", "retrans_pct", "rtt_p50_us", "rtt_p95_us")
_EXTRA_S: Final = 3.0
"""What a run takes beside its duration, for the progress bar [s]."""

app = typer.Typer(add_completion=False)


@dataclass(frozen=True)
class Where:
    """Where the transfers run, and why there.

    Attributes:
        datapath: `ebpf`, on real sockets of this machine's kernel, or `sim`.
        why: What keeps them from the kernel; empty, if the datapath was chosen or it is the kernel.
        fix: What to do about it; empty likewise.
    """

    datapath: str
    why: str = ""
    fix: str = ""

    @property
    def name(self) -> str:
        """What it is called in titles."""
        return f"Linux {os.uname().release}" if self.datapath == "ebpf" else "simulated"

    def __str__(self) -> str:
        """Return what is said first."""
        if self.datapath == "ebpf":
            return f"on real sockets of this kernel, {self.name}"
        said = "in the simulator: virtual time, no sockets"
        if self.why:
            said += f"\n  why  {self.why}\n  fix  {self.fix}" if self.fix else f"\n  why  {self.why}"
        return said


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
    datapath: Annotated[
        str | None,
        typer.Option(
            help="ebpf, real sockets of this kernel (needs root), or sim; by default the first that works.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:
    """Compare kernel CUBIC with ccplane's, with and without random loss: a table and a plot."""
    where = choose(datapath)
    if not as_json:
        typer.echo(where)
    transfers = measure(seconds, where.datapath)
    if as_json:
        document = {
            "name": "demo",
            "datapath": where.datapath,
            "why_not_the_kernel": where.why or None,
            "kernel": os.uname().release if where.datapath == "ebpf" else None,
            "rate_bytes_per_s": RATE_BYTES_PER_S,
            "base_rtt_us": RTT_US,
            "seconds": seconds,
            "transfers": [transfer.as_dict() for transfer in transfers],
            "plot": str(output),
        }
        typer.echo(json.dumps(document, indent=2))
    else:
        show(transfers, seconds, where)
    draw(transfers, output, where)  # last: a plot that cannot be written costs no figures
    if not as_json:
        typer.echo(f"plot: {output}")


def choose(datapath: str | None) -> Where:
    """Find out where to run.

    Args:
        datapath: `ebpf` or `sim`; None for the first of them that can run here.

    Raises:
        CcpError: `demo.datapath`, if there is no such datapath.
        LoadError: If `ebpf` was asked for and cannot run here, or an agent steers flows already.
    """
    if datapath not in (None, "ebpf", "sim"):
        raise CcpError(
            "demo.datapath",
            f"there is no datapath `{datapath}`",
            "--datapath",
            fix=close_names(datapath, ["ebpf", "sim"], "datapath"),
        )
    if datapath == "sim":
        return Where("sim")
    try:
        must_be_able()
        try_loading()
        try_network()
    except CcpError as error:
        if datapath is None and _keeps_from_the_kernel(error):
            return Where("sim", error.why or error.message, error.fix)
        if error.slug == "lab.not_permitted":
            raise LoadError(*error.args) from error  # told in one line, as all that keeps us from running
        raise
    return Where("ebpf")


def _keeps_from_the_kernel(error: CcpError) -> bool:
    is_load = isinstance(error, LoadError | VerifierError) and error.slug not in _OTHER_TROUBLE
    return is_load or error.slug in _NO_NETWORK


def must_be_able() -> None:
    """Find out whether this machine and process have what the kernel datapath needs.

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


def try_network() -> None:
    """Build the network of a run and remove it again, for the same reason.

    Raises:
        LabError: If it cannot be built.
    """
    from experiments.netlab.emulated import emulated

    with emulated(scenario(ALGORITHMS[0], "clean", 1).network):
        pass


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


def measure(seconds: int, datapath: str) -> list[Transfer]:
    """Do all runs, with a progress bar on stderr.

    Args:
        seconds: Length of each [s].
        datapath: `ebpf` or `sim`.

    Returns:
        The transfers, path by path, in the order of `ALGORITHMS`.

    Raises:
        CcpError: If a run fails.
    """
    from experiments.plots import label
    from experiments.run import run

    columns = (TextColumn("{task.description:<35}"), BarColumn(None), TimeRemainingColumn())
    each_s = seconds + _EXTRA_S
    transfers: list[Transfer] = []
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=len(PATHS) * len(ALGORITHMS) * each_s)
        for path in PATHS:
            for algorithm in ALGORITHMS:
                bar.update(task, description=f"{label(algorithm)}, {path}")
                before_s = len(transfers) * each_s

                def told(_what: str, passed_s: float, before_s: float = before_s) -> None:
                    bar.update(task, completed=before_s + min(passed_s, each_s))

                result = run(scenario(algorithm, path, seconds), datapath=datapath, progress=told)
                row = result.flows.iloc[0]
                figures = {name: float(row[name]) for name in _FIGURES}
                transfers.append(Transfer(path, algorithm, **figures, samples=result.flow_samples))
    return transfers


def draw(transfers: Sequence[Transfer], output: Path, where: Where) -> None:
    """Write the plot.

    Args:
        transfers: What to draw.
        output: The file.
        where: Where they ran.

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
        note=f"drop-tail buffer of 1 BDP; one run each, in turn, seed 1; {where.name}",
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


def show(transfers: Sequence[Transfer], seconds: int, where: Where) -> None:
    """Print the table.

    Args:
        transfers: What to show.
        seconds: How long each took [s].
        where: Where they ran.
    """
    from experiments.plots import label

    table = Table(
        title=f"one flow through {RATE_BYTES_PER_S / 125e3:.0f} Mbit/s, base RTT {RTT_US / 1e3:.0f} ms, "
        f"{seconds} s each; {where.name}",
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
