"""`ccp demo wifi`: flows over simulated Wi-Fi, with in-band telemetry, and the paper's Figures 4 to 7 there.

Two stations, two access points and a slow wire between these (`experiments.mininet_wifi.chain`), of the
kernel's simulated radios and hostapd, or of Mininet-WiFi. Whatever steers a flow, it is measured in the same
way: by its socket, and by what its packets tell the sink.
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

from ccplane.base.extras import extra_part
from experiments.mininet_wifi.conditions import AIR_DELAY_MS, RATE_BYTES_PER_S, Conditions
from experiments.units import MBIT

if TYPE_CHECKING:
    from experiments.mininet_wifi.recipes import Recipe, Run
    from experiments.mininet_wifi.transfers import Transfer


NEXT: Final = (
    "sudo ccp demo wifi --figure 6                           kernel CUBIC, New L1, New L2 at three losses",
    "sudo ccp demo wifi -a int_cubic -p wireless_loss=mild   an algorithm of yours: FILE.py, kernel/NAME",
    "sudo ccp paper int-adaptive --quick                     the paper without radios, with intervals",
)
"""What to try after the demonstration."""


def wifi(
    algorithm: Annotated[
        list[str] | None,
        typer.Option(
            "--algorithm",
            "-a",
            help="What steers a flow: NAME, FILE.py, module:Class, or kernel/NAME; may be given again."
            " By default kernel/cubic and int_cubic.",
            show_default=False,
        ),
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", help="NAME=VALUE or ALGORITHM.NAME=VALUE.")
    ] = None,
    figure: Annotated[
        int | None,
        typer.Option(
            help="Of the paper on INT-driven CUBIC: 4, losses and window; 5, queue and window; 6, goodput of"
            " kernel CUBIC, New L1, New L2; 7, growth by telemetry.",
            show_default=False,
        ),
    ] = None,
    loss: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=0.9,
            help="Share of packets that the second air loses, 0.01 for 1 %; else 0.05, or the figure's.",
            show_default=False,
        ),
    ] = None,
    rate_mbit: Annotated[float, typer.Option(min=0.1, max=50, help="Rate of the wire, in Mbit/s.")] = (
        RATE_BYTES_PER_S / MBIT
    ),
    delay_ms: Annotated[
        float, typer.Option(min=0, max=2000, help="Delay of the second air towards the receiver, in ms.")
    ] = AIR_DELAY_MS,
    seconds: Annotated[
        int | None,
        typer.Option(min=2, max=120, help="Seconds of each flow; 10 to 15 by default.", show_default=False),
    ] = None,
    mininet_wifi: Annotated[
        bool, typer.Option("--mininet-wifi", help="Let Mininet-WiFi build the network.")
    ] = False,
    output: Annotated[Path, typer.Option(help="Where to write the picture: png, svg or pdf.")] = Path(
        "out/wifi.png"
    ),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a table.")
    ] = False,
) -> None:
    """Show in-band telemetry over simulated Wi-Fi: a table and a picture.

    It needs root, hostapd, iw, Mosquitto, iperf3, and a kernel with mac80211_hwsim. `make test-wifi`
    makes a virtual machine that has all that.
    """
    with extra_part():
        from experiments.demo.wifi_picture import draw
    from experiments.mininet_wifi.ready import must_be_ready
    from experiments.mininet_wifi.recipes import choose

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
            "plot": str(output),
        }
        typer.echo(json.dumps(document, indent=2))
    else:
        Console().print(table(recipe.title, transfers, conditions))
    note = f"one run each, in turn; {_builder(mininet_wifi)}, Linux {os.uname().release}"
    draw(transfers, recipe, conditions, note, output)  # last: a plot that cannot be written costs no figures
    if not as_json:
        typer.echo("\n".join((f"picture: {output}", "next:", *(f"  {line}" for line in NEXT))))


def _builder(mininet_wifi: bool) -> str:
    return "Mininet-WiFi" if mininet_wifi else "mac80211_hwsim and hostapd"


def _measured(recipe: Recipe, conditions: Conditions, *, mininet_wifi: bool) -> list[Transfer]:
    """Build the network, and do all runs, with progress on stderr."""
    from experiments.mininet_wifi.transfers import measure

    if mininet_wifi:
        from experiments.mininet_wifi.int_demo import mininet_chain as build
    else:
        from experiments.mininet_wifi.chain import simulated_chain as build
    columns = (TextColumn("{task.description:<45}"), BarColumn(None), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("radios, access points, telemetry", total=len(recipe.runs))
        begun = -1

        def told(run: Run) -> None:
            nonlocal begun
            begun += 1
            bar.update(task, description=f"{run.variant.label}, {run.loss_ratio:.1%} loss", completed=begun)

        with build(conditions) as chain:
            return measure(chain, recipe, told)


def table(title: str, transfers: Sequence[Transfer], conditions: Conditions) -> Table:
    """Return the table of what flows came to.

    Args:
        title: What they show.
        transfers: The flows.
        conditions: What the links were like.
    """
    from experiments.plots import label

    shown = Table(
        title=f"{title}: {conditions.rate_bytes_per_s / MBIT:g} Mbit/s, {conditions.delay_ms:g} ms",
        caption="Goodput and RTT by the socket; all else as packets told it.",
        caption_justify="left",
    )
    shown.add_column("loss", justify="right")
    shown.add_column("algorithm", no_wrap=True)
    for name, unit in (
        ("goodput", "Mbit/s"),
        ("median RTT", "ms"),
        ("window", "kB"),
        ("queue", "pkts"),
        ("lost, air", "pkts"),
        ("lost, queue", "pkts"),
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
