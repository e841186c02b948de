"""`ccp top`: the flows of this machine on a live screen."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ccplane.agent.commands.connection import PIN_DIR, PinDir
from ccplane.base.errors import UsageError


def top(
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between looks.")] = 0.5,
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Watch flows, look into their algorithms, and change these while they run."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "command.no_terminal",
            "`ccp top` needs a terminal to draw on and keys to listen to",
            fix="for a pipe or a file there is `ccp flows --json`",
        )
    # Textual takes a while to import: only here.
    from ccplane.agent.monitor.app import Monitor
    from ccplane.agent.monitor.plane_source import open_source

    monitor = Monitor(open_source(pin_dir), interval_s=interval)
    monitor.run()
    raise typer.Exit(monitor.return_code or 0)
