"""`ccp upgrade`: let a service's agent start the installed version, which takes its flows over."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Final

import typer

from ccplane.agent.commands.connection import PIN_DIR, Connect, Keys, PinDir, client
from ccplane.agent.upgrade import START_S
from ccplane.base.errors import CcpError, LoadError
from ccplane.base.options import examples

_LOOK_S: Final = 0.1
"""Interval between two questions whether the new agent serves [s]."""

app = typer.Typer(add_completion=False)


@app.command(epilog=examples("sudo ccp upgrade"))
def upgrade(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ARGUMENT...",
            help="Arguments of `ccp run` for the new agent, after `--`.",
            show_default="those of the running agent",
        ),
    ] = None,
    connect: Connect = None,
    keys: Keys = None,
    pin_dir: PinDir = PIN_DIR,
) -> None:
    """Upgrade the agent of a service to the installed version; its flows never use the fallback.

    The agent starts the new version as a process of the same service, and ends when the new one has all that
    it needs. If the new one cannot start, the agent keeps its flows. `systemctl reload ccplane-agent` runs
    this command. `ccp load` replaces only algorithms.
    """
    with client(connect, keys, pin_dir) as agent:
        pid = agent.upgrade(arguments or None)
    end_s = time.monotonic() + START_S
    while not _serves(pid, connect, keys, pin_dir):
        if time.monotonic() > end_s:
            raise LoadError(
                "upgrade.failed",
                f"the new agent, process {pid}, took over but does not answer",
                fix="see the agent's log: `journalctl -u ccplane-agent`",
            )
        time.sleep(_LOOK_S)
    typer.echo(f"ccp: process {pid} has taken the flows over")


def _serves(pid: int, connect: str | None, keys: Path | None, pin_dir: str) -> bool:
    """Return whether the agent that answers is a process; its answers begin when it has adopted the flows."""
    try:
        with client(connect, keys, pin_dir) as agent:
            return bool(agent.status()["pid"] == pid)
    except CcpError:
        return False
