"""`ccp ioam`: in-band telemetry in files of captured packets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from ccplane.base.errors import CcpError
from telemetry.ioam import show
from telemetry.ioam.codec import CaptureReader
from telemetry.ioam.errors import IoamError
from telemetry.ioam.model import Problem, TimestampFormat

app = typer.Typer(help="In-band telemetry (IOAM) in captured packets.", no_args_is_help=True)

FAILED: Final = 1
DISSECTOR: Final = Path(__file__).with_name("ccplane.lua")


@app.callback()
def ioam() -> None:
    """In-band telemetry (IOAM) in captured packets."""


@app.command()
def decode(
    file: Annotated[Path, typer.Argument(help="A capture, pcap or pcapng, as tcpdump -w writes it.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object a packet, one line each; null is missing.")
    ] = False,
    timestamps: Annotated[
        str, typer.Option(help="How the domain's nodes write times: posix (as Linux does), ptp or ntp.")
    ] = "posix",
) -> None:
    """Print all telemetry of a capture: packet, time, flow, options, and what each node said.

    Malformed options are shown with the reason. Exit status 1: the file cannot be read, or not to its end.
    """
    try:
        broken = _decode(file, as_json, _format(timestamps))
    except CcpError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(FAILED) from None
    if broken is not None:
        typer.echo(str(IoamError(*msgspec.structs.astuple(broken))), err=True)
        raise typer.Exit(FAILED)


@app.command()
def dissector() -> None:
    """Print where the dissector for Wireshark is that shows ccplane's own options."""
    typer.echo(DISSECTOR)


def _format(name: str) -> TimestampFormat:
    formats: dict[str, TimestampFormat] = {"posix": "posix", "ptp": "ptp", "ntp": "ntp"}
    if name not in formats:
        raise IoamError("ioam.bad_option", f"no timestamps `{name}`", "--timestamps", "", "posix, ptp or ntp")
    return formats[name]


def _decode(file: Path, as_json: bool, timestamps: TimestampFormat) -> Problem | None:
    reader = CaptureReader(file)
    for one in reader:
        if as_json:
            typer.echo(msgspec.json.encode(one))
        else:
            for line in show.record(one, timestamps):
                typer.echo(line)
    summary = reader.summary()
    typer.echo(show.summary(summary), err=True)
    return summary.broken
