"""`ccp top`: the flows of this machine on a live screen."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ccplane.agent.commands.connection import PIN_DIR, PinDir
from ccplane.base import options
from ccplane.base.errors import UsageError

app = typer.Typer(add_completion=False)


@app.command(epilog=options.examples("ccp top", "ccp top --interval 2s"))
def top(
    interval_s: Annotated[
        float, options.duration("--interval", unit="s", min=0.1, help="Time between updates")
    ] = options.in_unit(0.5, "s"),
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Watch flows on a full screen; inspect and change their algorithms while they run."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "command.no_terminal",
            "`ccp top` needs a terminal, for its screen and for keys",
            fix="use `ccp flows` or `ccp flows --json` for a pipe or a file",
        )
    # Textual takes a while to import: only here.
    from ccplane.agent.monitor.app import Monitor
    from ccplane.agent.monitor.loop_source import open_source

    monitor = Monitor(open_source(pin_dir), interval_s=interval_s)
    monitor.run()
    raise typer.Exit(monitor.return_code or 0)
