"""`ccp demo int`: one flow over simulated Wi-Fi, and whether in-band telemetry says what happened."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ccplane.agent import console
from ccplane.base import options
from ccplane.base.errors import CcpError

FAILED = 2
"""Exit status if the demo could not run."""


def int_(
    loss: Annotated[
        float, typer.Option(metavar="RATIO", min=0.0, max=1.0, help="Loss ratio of the second air link.")
    ] = 0.05,
    seconds: Annotated[
        float, options.seconds("Duration of each of the two phases", min=1, whole=True)
    ] = options.in_unit(25, "s"),
    mininet_wifi: Annotated[
        bool,
        typer.Option("--mininet-wifi", help="Build the network with Mininet-WiFi, not with hostapd alone."),
    ] = False,
    out: Annotated[
        Path | None,
        options.out(
            "Folder for the capture, the agent's records and the findings.",
            metavar="FOLDER",
            show_default="they are not kept",
        ),
    ] = None,
) -> None:
    """Send a flow over simulated Wi-Fi with in-band telemetry, and check what the telemetry says.

    Needs root. The loss rule of int_cubic changes between the two phases. Exit status: 1 if a finding does
    not hold, 2 if the demo could not run.
    """
    # Not above: `ccp demo`, which also runs without Linux, imports this module.
    from experiments.mininet_wifi import show
    from experiments.mininet_wifi.chain import simulated_chain
    from experiments.mininet_wifi.demo import record
    from experiments.mininet_wifi.findings import findings
    from experiments.mininet_wifi.int_demo import mininet_chain
    from experiments.mininet_wifi.recorded import read

    with contextlib.ExitStack() as stack:
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with mininet_chain() if mininet_wifi else simulated_chain() as chain:
                record(chain, folder, loss_ratio=loss, phase_s=int(seconds))
            found = findings(read(folder, loss))
        except CcpError as error:
            console.show_error(error, debug=False)
            raise typer.Exit(FAILED) from None
        show.write_findings(folder, found)
    Console(highlight=False).print(show.table(found))
    if not all(one.holds for one in found):
        raise typer.Exit(1)
