"""Brings the summaries of sinks to the bus.

Sinks write a line of JSON a summary (`native/ccp-int`), into a pipe as a rule. `Publisher` reads them there
and publishes them; in a process of its own:

    python -m telemetry.inband.publisher --fd 5 --broker mqtt://127.0.0.1 --sender sink

It says `{"connected": true}` on its standard output once the broker is there, and ends with its input: then
it says what it counted.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import msgspec
import typer

from broker.options import BusOptions
from ccplane.base.errors import CcpError
from telemetry.bus import Bus
from telemetry.codec import MAX_BYTES
from telemetry.schema import IntSummary
from telemetry.status import online

READ_BYTES: Final = 1 << 16
CONNECT_S: Final = 10.0
"""How long the broker may take [s]."""
FLUSH_S: Final = 5.0
"""How long what is left in the end may take to leave [s]."""

_SUMMARY: Final = msgspec.json.Decoder(IntSummary)


class Counters(msgspec.Struct):
    """What a publisher did.

    Attributes:
        published: Summaries given to the bus.
        unreadable: Lines that are no summary.
        dropped: Summaries that left the bus' queue for newer ones, or were lost with the connection.
    """

    published: int = 0
    unreadable: int = 0
    dropped: int = 0


class Publisher:
    """Publishes summaries that come as lines.

    Attributes:
        counters: What it did so far.
    """

    def __init__(self, bus: Bus, *, copy: BinaryIO | None = None, ttl_ms: int | None = None) -> None:
        """Take a bus that is started, or will be.

        Args:
            bus: Where to publish.
            copy: A file that gets all lines as they are, too.
            ttl_ms: How long a summary is true [ms]; None for what the table of topics says.
        """
        self._bus = bus
        self._copy = copy
        self._ttl_ms = ttl_ms
        self._rest = b""
        self._too_long = False
        self.counters = Counters()

    def run(self, fd: int) -> None:
        """Read a blocking descriptor until its end, and publish what comes."""
        while chunk := os.read(fd, READ_BYTES):
            self.feed(chunk)
        self.end()

    def feed(self, chunk: bytes) -> None:
        """Publish the lines that end within these octets; the rest waits for more."""
        if self._copy is not None:
            self._copy.write(chunk)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._line(line)
        if len(self._rest) > MAX_BYTES:
            self._rest, self._too_long = b"", True

    def end(self) -> None:
        """Publish what has no end of a line; nothing more comes."""
        if self._rest:
            self._line(self._rest)
            self._rest = b""

    def _line(self, line: bytes) -> None:
        too_long, self._too_long = self._too_long, False
        try:
            summary = None if too_long else _SUMMARY.decode(line)
        except (msgspec.MsgspecError, ValueError):
            summary = None
        if summary is None:
            self.counters.unreadable += 1
            return
        self._bus.publish(summary, ttl_ms=self._ttl_ms)
        self.counters.published += 1
        self.counters.dropped = self._bus.counters.connection.samples_dropped


def main(
    fd: Annotated[int, typer.Option(min=0, help="Descriptor to read summaries from.")],
    broker: Annotated[str, typer.Option(help="mqtt://[USER[:PASSWORD]@]HOST[:PORT], or mqtts://.")],
    sender: Annotated[str, typer.Option(help="Name on the bus.")],
    copy: Annotated[Path | None, typer.Option(help="File to which all lines are appended, too.")] = None,
) -> None:
    """Publish the summaries that come from a descriptor until it ends."""
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


def _publish(bus: Bus, fd: int, copy: Path | None) -> Counters:
    with contextlib.ExitStack() as stack:
        file = None if copy is None else stack.enter_context(open(copy, "ab"))
        publisher = Publisher(bus, copy=file)
        publisher.run(fd)
    bus.flush(FLUSH_S)
    publisher.counters.dropped = bus.counters.connection.samples_dropped
    return publisher.counters


if __name__ == "__main__":
    typer.run(main)
