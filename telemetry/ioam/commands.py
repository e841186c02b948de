"""`ccp telemetry decode` and `ccp telemetry dissector`: in-band telemetry in captured packets."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from ccplane.base import options
from ccplane.base.errors import CcpError
from telemetry.ioam import show
from telemetry.ioam.codec import CaptureReader
from telemetry.ioam.errors import IoamError
from telemetry.ioam.model import Problem, TimestampFormat

app = typer.Typer(
    help="In-band telemetry (IOAM) in captured packets.", no_args_is_help=True, add_completion=False
)

FAILED: Final = 1
DISSECTOR: Final = Path(__file__).with_name("ccplane.lua")


@app.callback()
def ioam() -> None:
    """In-band telemetry (IOAM) in captured packets."""


@app.command(
    epilog=options.examples(
        "ccp telemetry decode capture.pcap --json",
        "sudo tcpdump -U -w - -i eth0 ip6 | ccp telemetry decode -",
    )
)
def decode(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Capture, pcap or pcapng, such as from tcpdump -w; `-` is standard input."
        ),
    ],
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print JSON, one object per line and packet; missing values are null."),
    ] = False,
    timestamps: Annotated[
        str,
        typer.Option(metavar="FORMAT", help="Timestamp format of the nodes: posix (Linux), ptp or ntp."),
    ] = "posix",
) -> None:
    """Print the in-band telemetry in a capture: packet, time, flow, options, and the data of each node.

    Malformed options are printed with the reason. Exit code 1: the file, or a block in it,
    could not be read.
    """
    try:
        problems = _decode(file, as_json, _format(timestamps))
    except CcpError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(FAILED) from None
    for one in problems:
        typer.echo(str(IoamError(*msgspec.structs.astuple(one))), err=True)
    if problems:
        raise typer.Exit(FAILED)


@app.command(epilog=options.examples("wireshark -X lua_script:$(ccp telemetry dissector) capture.pcap"))
def dissector() -> None:
    """Print the path of the Wireshark dissector for ccplane's own options."""
    typer.echo(DISSECTOR)


def _format(name: str) -> TimestampFormat:
    formats: dict[str, TimestampFormat] = {"posix": "posix", "ptp": "ptp", "ntp": "ntp"}
    if name not in formats:
        raise IoamError(
            "ioam.bad_option", f"no timestamp format `{name}`", "--timestamps", "", "choose posix, ptp or ntp"
        )
    return formats[name]


def _decode(file: Path, as_json: bool, timestamps: TimestampFormat) -> list[Problem]:
    reader = CaptureReader(file)
    with suppress(KeyboardInterrupt):  # ends a capture that comes through a pipe
        for one in reader:
            if as_json:
                typer.echo(msgspec.json.encode(one))
            else:
                for line in show.record(one, timestamps):
                    typer.echo(line)
    summary = reader.summary()
    typer.echo(show.summary(summary), err=True)
    return [one for one in (summary.malformed_block, summary.broken) if one is not None]
