"""`ccp unload`: remove ccplane from the kernel."""

from __future__ import annotations

import typer

from ccplane.agent.commands.connection import PIN_DIR, PinDir
from ccplane.agent.features import features
from ccplane.base.options import examples
from ccplane.datapath import ebpf

app = typer.Typer(add_completion=False)


@app.command(epilog=examples("sudo ccp unload"))
def unload(pin_dir: PinDir = PIN_DIR) -> None:
    """Remove ccplane from the kernel: congestion controls, programs and maps.

    Sockets that use ccplane, and namespaces that have it as default, get a built-in congestion control.
    """
    done = ebpf.unload(pin_dir)
    for feature in features():
        for line in feature.unload() if feature.unload is not None else ():
            typer.echo(line)
    for what, lines in (("removed", done.removed), ("moved", done.moved), ("left", done.left)):
        for line in lines:
            typer.echo(f"{what} {line}")
    if not done.removed:
        typer.echo(f"nothing was loaded in {pin_dir}")
