"""`ccp bus serve`: run a broker until it is interrupted."""

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
from ccplane.base import options

app = typer.Typer(add_completion=False)


@app.command(epilog=options.examples("ccp bus serve", "ccp bus serve --host 0.0.0.0 --users users"))
def main(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = LOOPBACK,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free port.")] = PORT,
    users: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Password file, as written by `ccp bus user add`.")
    ] = None,
    acl: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Mosquitto access list.",
            show_default="users publish under their own name only",
        ),
    ] = None,
    certificate: Annotated[Path | None, typer.Option(metavar="FILE", help="TLS certificate, PEM.")] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Private key of the certificate, PEM.")
    ] = None,
    anonymous: Annotated[
        bool,
        typer.Option("--anonymous", help="Accept clients without user names, for closed networks (a lab)."),
    ] = False,
) -> None:
    """Run a broker of the telemetry bus (Mosquitto, with ccplane's settings) until it is interrupted."""
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
    """Run the command, for `ccp bus serve`."""
    app()
