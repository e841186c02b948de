"""`python -m broker.embedded`: a broker for as long as the command runs."""

from __future__ import annotations

import contextlib
import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from broker.embedded import LOOPBACK, EmbeddedBroker
from broker.errors import BusError
from broker.options import PORT


def main(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = LOOPBACK,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = PORT,
    users: Annotated[Path | None, typer.Option(help="Mosquitto password file.")] = None,
    acl: Annotated[
        Path | None,
        typer.Option(help="Mosquitto access list [default: users publish under their own name only]."),
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="Certificate for TLS, PEM.")] = None,
    key: Annotated[Path | None, typer.Option(help="Its key, PEM.")] = None,
    anonymous: Annotated[
        bool,
        typer.Option("--anonymous", help="Accept clients without a user, on closed networks such as a lab."),
    ] = False,
) -> None:
    """Run Mosquitto with ccplane's settings until it is interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with EmbeddedBroker(
            port, host=host, users=users, acl=acl, certificate=certificate, key=key, anonymous=anonymous
        ) as broker:
            typer.echo(f"listening on {broker.options}")
            with contextlib.suppress(KeyboardInterrupt):
                threading.Event().wait()
    except BusError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def run() -> None:
    """Run `main` for the command line."""
    typer.run(main)
