"""`ccp demo`: what ccplane is for, in a minute and one picture.

Five runs, one after the other, of one iperf3 flow each: 100 Mbit/s, 50 ms base RTT, a drop-tail buffer of
one bandwidth-delay product. The kernel's CUBIC and ccplane's do the same. Where packets are lost at random, a
rule that needs Python helps. And an algorithm is edited under its flow. What flows did is seen by tracing
their sockets in the kernel, in the same way for all. Where the kernel datapath cannot run, the same runs take
place in the simulator, and everything that is shown says so.
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

from ccplane.base.errors import UsageError
from ccplane.base.extras import extra_part
from experiments.demo.runs import PAYLOAD_SHARE, RATE_BYTES_PER_S, RTT_US, RUNS, Transfer, measure
from experiments.demo.where import Where, choose

# The modules that run scenarios and draw are imported where they are used: `ccp --help` imports this one.

NEXT = (
    "ccp new mine                    an algorithm of your own, in mine.py",
    "ccp simulate mine.py            what it does, without root",
    "sudo ccp run mine.py --reload   the same on real flows (iperf3 -c HOST -C ccp.mine), while you edit it",
)
"""What to try after the demonstration."""

app = typer.Typer(add_completion=False)
if importlib.util.find_spec("experiments.mininet_wifi"):  # the wheel lacks it
    from experiments.demo.wifi import wifi

    app.command()(wifi)


@app.callback(invoke_without_command=True)
def demo(
    context: typer.Context,
    seconds: Annotated[
        int, typer.Option(min=2, max=60, help="Seconds that each of the five runs takes.")
    ] = 8,
    output: Annotated[Path, typer.Option(help="Where to write the picture: png, svg or pdf.")] = Path(
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
    """Show what ccplane is for: five flows, one of them edited as it sends; a table and a picture."""
    if context.invoked_subcommand is not None:
        _no_options(context)
        return
    with extra_part():
        from experiments.demo.picture import draw
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
        typer.echo("\n".join((f"picture: {output}", "next:", *(f"  {line}" for line in NEXT))))


def _no_options(context: typer.Context) -> None:
    """See that nothing is said to this demonstration where another one is asked for."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = "--json" if name == "as_json" else f"--{name}"
            raise UsageError(
                "demo.option_of_other",
                f"`{option}` in front of `{context.invoked_subcommand}` has no meaning",
                f"ccp demo {option}",
                "it is an option of `ccp demo` alone",
                f"write it behind: ccp demo {context.invoked_subcommand} --help",
            )


def show(transfers: Sequence[Transfer], seconds: int, where: Where) -> None:
    """Print the table.

    Args:
        transfers: What to show.
        seconds: How long each took [s].
        where: Where they ran.
    """
    table = Table(
        title=f"one flow through {RATE_BYTES_PER_S / 125e3:.0f} Mbit/s, base RTT {RTT_US / 1e3:.0f} ms, "
        f"{seconds} s each; {where.name}",
        caption=f"Payload acknowledged, of which {PAYLOAD_SHARE * RATE_BYTES_PER_S / 125e3:.1f} Mbit/s fit.\n"
        "CUBIC takes each lost packet for congestion. flex_cubic looks for a\n"
        f"queue first; so does mine.py once edited, {seconds / 2:g} s after its flow began.",
        caption_justify="left",
    )
    table.add_column("loss", justify="right")
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
            f"{one.run.loss_ratio:.1%}",
            one.run.label,
            ", then ".join(f"{rate / 125e3:.1f}" for rate in one.goodput_by_version_bytes_per_s),
            f"{one.retrans_pct:.2f}",
            f"{one.rtt_p50_us / 1e3:.1f}",
            f"{one.rtt_p95_us / 1e3:.1f}",
            end_section=one.run is [run for run in RUNS if run.act == one.run.act][-1],
        )
    Console().print(table)
