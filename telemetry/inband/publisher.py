"""`ccp telemetry publish`: publish the summaries of sinks on the telemetry bus.

Sinks (`native/ccp-int`) write one JSON line per summary, usually into a pipe. `Publisher` reads and publishes
these summaries; as a process:

    ccp telemetry publish --fd 5 --broker mqtt://127.0.0.1 --sender sink

The process prints `{"connected": true}` when the broker is connected. At the end of its input the process
prints its counters and exits.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import msgspec
import typer

from broker.options import BusOptions
from ccplane.base import options
from ccplane.base.decoding import UNREADABLE
from ccplane.base.errors import CcpError
from telemetry.bus import Bus
from telemetry.codec import MAX_BYTES
from telemetry.schema import IntSummary
from telemetry.status import online

READ_BYTES: Final = 1 << 16
CONNECT_S: Final = 10.0
"""Time limit for the connection [s]."""
FLUSH_S: Final = 5.0
"""Time limit for sending the queued messages at the end [s]."""

_SUMMARY: Final = msgspec.json.Decoder(IntSummary)


class PublisherCounters(msgspec.Struct):
    """Counters of a publisher.

    Attributes:
        published: Summaries given to the bus.
        unreadable: Lines that are not valid summaries.
        dropped: Summaries that newer ones displaced from the queue, or that were lost with the connection.
    """

    published: int = 0
    unreadable: int = 0
    dropped: int = 0


class Publisher:
    """Publishes summaries that arrive as lines.

    Attributes:
        counters: Its counters.
    """

    def __init__(self, bus: Bus, *, copy: BinaryIO | None = None, ttl_ms: int | None = None) -> None:
        """Publish on a bus, which the caller starts.

        Args:
            bus: The bus.
            copy: File that also receives all lines, unchanged.
            ttl_ms: Lifetime of a summary [ms]; None for the default of its topic.
        """
        self._bus = bus
        self._copy = copy
        self._ttl_ms = ttl_ms
        self._rest = b""
        self._too_long = False
        self.counters = PublisherCounters()

    def run(self, fd: int) -> None:
        """Read a blocking descriptor until its end, and publish its lines."""
        while chunk := os.read(fd, READ_BYTES):
            self.feed(chunk)
        self.end()

    def feed(self, chunk: bytes) -> None:
        """Publish the lines that end within these bytes; keep the incomplete rest."""
        if self._copy is not None:
            self._copy.write(chunk)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._line(line)
        if len(self._rest) > MAX_BYTES:
            self._rest, self._too_long = b"", True

    def end(self) -> None:
        """Publish an incomplete last line."""
        if self._rest:
            self._line(self._rest)
            self._rest = b""

    def _line(self, line: bytes) -> None:
        too_long, self._too_long = self._too_long, False
        try:
            summary = None if too_long else _SUMMARY.decode(line)
        except UNREADABLE:
            summary = None
        if summary is None:
            self.counters.unreadable += 1
            return
        self._bus.publish(summary, ttl_ms=self._ttl_ms)
        self.counters.published += 1
        self.counters.dropped = self._bus.counters.connection.samples_dropped


app = typer.Typer(add_completion=False)


@app.command(
    epilog=options.examples(
        "ccp telemetry publish --fd 0 --broker mqtt://127.0.0.1 --sender sink < summaries"
    )
)
def main(
    fd: Annotated[int, typer.Option(min=0, help="File descriptor to read from.")],
    broker: Annotated[str, options.broker()],
    sender: Annotated[str, typer.Option(metavar="NAME", help="Name of this sender on the telemetry bus.")],
    copy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also append all lines to this file.")
    ] = None,
) -> None:
    """Read in-band telemetry summaries, one JSON line each, from a file descriptor, and publish them."""
    try:
        bus = Bus(BusOptions.from_url(broker), sender=sender, status=online("sink"))
        bus.start()
        try:
            bus.wait_connected(CONNECT_S)
            typer.echo('{"connected": true}')
            counters = _publish(bus, fd, copy)
        finally:
            bus.stop()
    except CcpError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    typer.echo(msgspec.json.encode(counters))


def _publish(bus: Bus, fd: int, copy: Path | None) -> PublisherCounters:
    with contextlib.ExitStack() as stack:
        file = None if copy is None else stack.enter_context(open(copy, "ab"))
        publisher = Publisher(bus, copy=file)
        publisher.run(fd)
    bus.flush(FLUSH_S)
    publisher.counters.dropped = bus.counters.connection.samples_dropped
    return publisher.counters


if __name__ == "__main__":
    app()
