"""`ccp demo wifi`: flows over simulated Wi-Fi with in-band telemetry, and Figures 4 to 7 of the paper.

Two stations and two access points with a slow wire between them (`experiments.mininet_wifi.chain`), built
from the kernel's simulated radios and hostapd, or by Mininet-WiFi. Every flow is measured at its socket, and
at the telemetry sink.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from ccplane.base import options
from ccplane.base.extras import extra_part
from experiments.mininet_wifi.conditions import AIR_DELAY_MS, RATE_BYTES_PER_S, Conditions
from experiments.units import MBIT

if TYPE_CHECKING:
    from experiments.mininet_wifi.recipes import Recipe, Run
    from experiments.mininet_wifi.transfers import Transfer


NEXT: Final = (
    "sudo ccp demo wifi --figure 6                           kernel CUBIC, New L1, New L2; three losses",
    "sudo ccp demo wifi -a int_cubic -p wireless_loss=mild   your own algorithm: FILE.py, or kernel/NAME",
    "sudo ccp paper int-adaptive --quick                     the paper's experiments without radios",
)
"""Next steps."""


def wifi(
    algorithm: Annotated[
        list[str] | None,
        options.algorithm(
            "Algorithm of a flow: name, FILE.py, module:Class, or kernel/NAME; repeatable.",
            show_default="kernel/cubic and int_cubic",
        ),
    ] = None,
    param: Annotated[list[str] | None, options.param()] = None,
    figure: Annotated[
        int | None,
        typer.Option(
            help="Repeat a figure of the paper on INT-driven CUBIC: 4 (losses and window), 5 (queue and"
            " window), 6 (goodput of kernel CUBIC, New L1 and New L2) or 7 (growth with telemetry).",
            show_default="none",
        ),
    ] = None,
    loss: Annotated[
        float | None,
        options.ratio(
            "--loss",
            help="Random packet loss on the second radio hop",
            max=0.9,
            show_default="0.05, or the figure's",
        ),
    ] = None,
    rate_mbit: Annotated[
        float, options.rate("--rate", unit="mbit", help="Rate of the wire", min=0.1, max=50)
    ] = options.in_unit(RATE_BYTES_PER_S / MBIT, "mbit"),
    delay_ms: Annotated[
        float,
        options.duration(
            "--delay",
            unit="ms",
            help="One-way delay of the second radio hop, towards the receiver",
            min=0,
            max=2000,
        ),
    ] = options.in_unit(AIR_DELAY_MS, "ms"),
    seconds: Annotated[
        int | None,
        options.seconds(
            "Duration of each flow", min=2, max=120, whole=True, show_default="10s to 15s, by figure"
        ),
    ] = None,
    mininet_wifi: Annotated[
        bool,
        typer.Option(
            "--mininet-wifi", help="Build the network with Mininet-WiFi.", rich_help_panel=options.ADVANCED
        ),
    ] = False,
    out: Annotated[Path, options.out("File for the picture: png, svg or pdf.", metavar="FILE")] = Path(
        "out/wifi.png"
    ),
    as_json: options.AsJson = False,
) -> None:
    """Show in-band telemetry over simulated Wi-Fi: a table and a picture.

    Needs root, hostapd, iw, Mosquitto, iperf3, and a kernel with mac80211_hwsim.
    `make test-wifi` builds a virtual machine with all of these programs.
    """
    with extra_part():
        from experiments.demo.wifi_picture import draw
        from experiments.plots.files import format_of
    from experiments.mininet_wifi.ready import must_be_ready
    from experiments.mininet_wifi.recipes import choose

    format_of(out)
    recipe = choose(figure, algorithm or (), param or (), loss_ratio=loss, seconds=seconds)
    conditions = Conditions(rate_mbit * MBIT, delay_ms)
    must_be_ready()
    transfers = _measured(recipe, conditions, mininet_wifi=mininet_wifi)
    if as_json:
        document = {
            "name": "demo wifi",
            "figure": figure,
            "built_by": _builder(mininet_wifi),
            "kernel": os.uname().release,
            "rate_bytes_per_s": conditions.rate_bytes_per_s,
            "buffer_bytes": conditions.buffer_bytes,
            "delay_ms": conditions.delay_ms,
            "seconds": recipe.seconds,
            "transfers": [transfer.as_dict() for transfer in transfers],
            "plot": str(out),
        }
        typer.echo(json.dumps(document, indent=2))
    else:
        Console().print(table(recipe.title, transfers, conditions))
    note = f"one run of each, in turn; {_builder(mininet_wifi)}, Linux {os.uname().release}"
    draw(
        transfers, recipe, conditions, note, out
    )  # last: if the file cannot be written, the table is already printed
    if not as_json:
        typer.echo("\n".join((f"picture: {out}", "next:", *(f"  {line}" for line in NEXT))))


def _builder(mininet_wifi: bool) -> str:
    return "Mininet-WiFi" if mininet_wifi else "mac80211_hwsim and hostapd"


def _measured(recipe: Recipe, conditions: Conditions, *, mininet_wifi: bool) -> list[Transfer]:
    """Build the network and run all flows, with a progress bar on standard error."""
    from experiments.mininet_wifi.transfers import measure

    if mininet_wifi:
        from experiments.mininet_wifi.int_demo import mininet_chain as build
    else:
        from experiments.mininet_wifi.chain import simulated_chain as build
    columns = (TextColumn("{task.description:<45}"), BarColumn(None), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("radios, access points, telemetry", total=len(recipe.runs))
        begun = -1

        def started(run: Run) -> None:
            nonlocal begun
            begun += 1
            bar.update(task, description=f"{run.variant.label}, {run.loss_ratio:.1%} loss", completed=begun)

        with build(conditions) as chain:
            return measure(chain, recipe, started)


def table(title: str, transfers: Sequence[Transfer], conditions: Conditions) -> Table:
    """Return the table of results.

    Args:
        title: Title of the table.
        transfers: The flows.
        conditions: Rate and delay of the links.
    """
    from experiments.plots import label

    shown = Table(
        title=f"{title}: {conditions.rate_bytes_per_s / MBIT:g} Mbit/s, {conditions.delay_ms:g} ms",
        caption="Goodput and RTT are measured at the socket, the rest by in-band telemetry.",
        caption_justify="left",
    )
    shown.add_column("loss", justify="right")
    shown.add_column("algorithm", no_wrap=True)
    for name, unit in (
        ("goodput", "Mbit/s"),
        ("median RTT", "ms"),
        ("window", "kB"),
        ("queue", "pkts"),
        ("lost on air", "pkts"),
        ("lost in queue", "pkts"),
    ):
        shown.add_column(f"{name}\n[not bold]{unit}", justify="right")
    for one in transfers:
        figures = one.figures
        shown.add_row(
            f"{one.run.loss_ratio:.1%}",
            label(one.run.variant.label),
            _written(figures["goodput_bytes_per_s"], 1 / MBIT, 3),
            _written(figures["rtt_p50_us"], 1e-3, 0),
            _written(figures["cwnd_bytes"], 1e-3, 1),
            _written(figures["queue_depth_pkts"], 1, 1),
            _written(figures["lost_link_pkts"], 1, 0),
            _written(figures["lost_congestion_pkts"], 1, 0),
        )
    return shown


def _written(value: float | None, scale: float, digits: int) -> str:
    return "" if value is None else f"{value * scale:.{digits}f}"
