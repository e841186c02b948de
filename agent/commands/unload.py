"""`ccp unload`: nothing of ccplane stays in the kernel."""

from __future__ import annotations

from typing import Annotated

import typer

from datapath import ebpf


def unload(
    pin_dir: Annotated[str, typer.Option(help="Directory in a bpffs.")] = ebpf.DEFAULT_PIN_DIR,
) -> None:
    """Remove registrations, programs and maps; sockets that use them keep running under the fallback law."""
    removed = ebpf.unload(pin_dir)
    for line in removed:
        typer.echo(f"removed {line}")
    if not removed:
        typer.echo(f"nothing was loaded in {pin_dir}")
