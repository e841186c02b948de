"""`ccp unload`: nothing of ccplane stays in the kernel."""

from __future__ import annotations

from typing import Annotated

import typer

from ccplane.agent.features import features
from ccplane.datapath import ebpf


def unload(
    pin_dir: Annotated[str, typer.Option(help="Directory in a bpffs.")] = ebpf.DEFAULT_PIN_DIR,
) -> None:
    """Remove registrations, programs and maps; sockets and defaults get one of the kernel's own."""
    came = ebpf.unload(pin_dir)
    for feature in features():
        for line in feature.unload() if feature.unload is not None else ():
            typer.echo(line)
    for what, lines in (("removed", came.removed), ("moved", came.moved), ("left", came.left)):
        for line in lines:
            typer.echo(f"{what} {line}")
    if not came.removed:
        typer.echo(f"nothing was loaded in {pin_dir}")
