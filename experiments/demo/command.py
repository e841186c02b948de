"""`ccp demo`: five runs, a table and a picture.

Each run sends one iperf3 flow over 100 Mbit/s, 50 ms base RTT and a drop-tail buffer of one bandwidth-delay
product. Kernel CUBIC and ccplane's `cubic` perform alike; with random loss an algorithm in Python performs
better; and an algorithm is edited while its flow sends. All flows are measured by tracing their sockets in
the kernel. Where the kernel datapath cannot run, the same runs take place in the simulator, and all output
says so.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ccplane.base import options
from ccplane.base.errors import UsageError
from ccplane.base.extras import extra_part
from experiments.demo.runs import PAYLOAD_SHARE, RATE_BYTES_PER_S, RTT_US, RUNS, Transfer, measure
from experiments.demo.where import Where, choose

# The modules that run scenarios and draw are imported by the command: `ccp --help` imports this module.

NEXT = (
    "ccp new mine                    write a new algorithm to mine.py",
    "ccp play mine.py                draw it live while you edit it",
    "sudo ccp run mine.py --reload   run it on real flows (iperf3 -c HOST -C ccp.mine) while you edit it",
)
"""Next steps."""

app = typer.Typer(add_completion=False)
if importlib.util.find_spec("experiments.mininet_wifi"):  # wheels do not contain it
    from experiments.demo.wifi import wifi

    app.command(
        epilog=options.examples("sudo ccp demo wifi", "sudo ccp demo wifi --figure 6 -o figure6.svg")
    )(wifi)


@app.callback(
    invoke_without_command=True,
    epilog=options.examples("ccp demo", "sudo ccp demo --datapath ebpf -o demo.svg"),
)
def demo(
    context: typer.Context,
    seconds: Annotated[
        int, options.seconds("Duration of each of the five runs", min=2, max=60, whole=True)
    ] = options.in_unit(8, "s"),
    out: Annotated[Path, options.out("File for the picture: png, svg or pdf.", metavar="FILE")] = Path(
        "out/demo.png"
    ),
    datapath: Annotated[
        str | None,
        typer.Option(
            metavar="ebpf|sim",
            help="ebpf: real sockets of this kernel (needs root); sim: the simulator.",
            show_default="ebpf if it works here, else sim",
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Show ccplane in a minute: five flows, one of them with a live edit; a table and a picture."""
    if context.invoked_subcommand is not None:
        _no_options(context)
        return
    with extra_part():
        from experiments.demo.picture import draw
        from experiments.plots.files import format_of
    format_of(out)
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
            "plot": str(out),
        }
        typer.echo(json.dumps(document, indent=2))
    else:
        show(transfers, seconds, where)
    draw(transfers, out, where)  # last: if the file cannot be written, the table is already printed
    if not as_json:
        typer.echo("\n".join((f"picture: {out}", "next:", *(f"  {line}" for line in NEXT))))


def _no_options(context: typer.Context) -> None:
    """Refuse options of `ccp demo` in front of a subcommand."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = "--json" if name == "as_json" else f"--{name}"
            raise UsageError(
                "demo.option_of_other",
                f"`{option}` cannot precede `{context.invoked_subcommand}`",
                f"ccp demo {option}",
                "this option is for `ccp demo` without a subcommand",
                f"put options after the subcommand; see ccp demo {context.invoked_subcommand} --help",
            )


def show(transfers: Sequence[Transfer], seconds: int, where: Where) -> None:
    """Print the table.

    Args:
        transfers: The runs.
        seconds: Duration of each run [s].
        where: Datapath of the runs.
    """
    table = Table(
        title=f"one flow through {RATE_BYTES_PER_S / 125e3:.0f} Mbit/s, base RTT {RTT_US / 1e3:.0f} ms, "
        f"{seconds} s each; {where.name}",
        caption="Goodput is acknowledged payload; "
        f"the payload limit is {PAYLOAD_SHARE * RATE_BYTES_PER_S / 125e3:.1f} Mbit/s.\n"
        "CUBIC treats every lost packet as congestion. lt_cubic checks for a queue\n"
        f"first; so does mine.py once it is edited, {seconds / 2:g} s after its flow started.",
        caption_justify="left",
    )
    table.add_column("loss", justify="right")
    table.add_column("algorithm")
    for name, unit in (
        ("goodput", "Mbit/s"),
        ("retransmitted", "%"),
        ("median RTT", "ms"),
        ("p95 RTT", "ms"),
    ):
        table.add_column(f"{name}\n[not bold]{unit}", justify="right")
    for one in transfers:
        table.add_row(
            f"{one.run.loss_ratio:.1%}",
            one.run.label,
            ", then ".join(f"{rate / 125e3:.1f}" for rate in one.goodput_by_version_bytes_per_s),
            f"{one.retrans_pct:.2f}",
            f"{one.rtt_p50_us / 1e3:.1f}",
            f"{one.rtt_p95_us / 1e3:.1f}",
            end_section=one.run is [run for run in RUNS if run.act == one.run.act][-1],
        )
    Console().print(table)
