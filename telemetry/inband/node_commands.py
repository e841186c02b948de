"""`ccp int node`: a node of in-band telemetry on an interface."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Final, cast

import msgspec
import typer

from broker.options import BusOptions
from ccp_base.errors import CcpError
from ccp_base.pins import DEFAULT_PIN_DIR
from telemetry.bus import Bus
from telemetry.inband.node import (
    DEFAULT_ROLES,
    ROLES,
    Counters,
    InterfaceNode,
    NodeSpec,
    Role,
    SinkOptions,
    SourceOptions,
)
from telemetry.inband.node_errors import NodeError
from telemetry.inband.nodes import read_nodes
from telemetry.inband.publisher import READ_BYTES, Publisher
from telemetry.signals import on_signals
from telemetry.status import online, sender_name

FAILED: Final = 1
SUFFIX: Final = "-sink"
"""An agent or receiver on the same host is another sender, and has the host's name."""

Take = Callable[[bytes], object]

_US_PER_MS: Final = 1000


def node(
    interface: Annotated[str, typer.Argument(help="The interface, in this network namespace.")],
    role: Annotated[
        str, typer.Option(help="What it is, of source, transit, sink and reader, with commas between.")
    ] = ",".join(DEFAULT_ROLES),
    node_id: Annotated[int, typer.Option(min=0, max=(1 << 24) - 2, help="Its number in traces.")] = 1,
    every: Annotated[
        int,
        typer.Option(min=1, help="Source: one in so many (super-)packets of a flow carries telemetry."),
    ] = 1,
    max_nodes: Annotated[int, typer.Option(min=1, help="Source: room for so many nodes.")] = 3,
    wireless: Annotated[
        bool, typer.Option("--wireless", help="Source: room for what wireless nodes have to say.")
    ] = False,
    tcp_state: Annotated[
        bool, typer.Option(help="Source: packets carry the congestion window of the sender.")
    ] = True,
    per_packet: Annotated[
        bool,
        typer.Option("--per-packet", help="Source: headers for each packet, and no super-packets (slow)."),
    ] = False,
    to: Annotated[
        str, typer.Option(help="Source: only packets to this prefix. Telemetry must not leave the domain.")
    ] = "::/0",
    trusted: Annotated[
        str,
        typer.Option("--from", help="Reads only what senders in this prefix say; takes off the rest."),
    ] = "::/0",
    echo: Annotated[
        bool,
        typer.Option(
            "--echo", help="Sink: ACKs tell sources of the path. Source: asks for that, and reads it."
        ),
    ] = False,
    namespace_id: Annotated[int, typer.Option(min=0, max=0xFFFF, help="IOAM namespace of all roles.")] = 0,
    interval_ms: Annotated[int, typer.Option(min=1, help="Sink: time between summaries.")] = 10,
    nodes: Annotated[
        Path | None, typer.Option(help="Sink: what nodes mean by their numbers, a YAML file.")
    ] = None,
    records: Annotated[
        Path | None, typer.Option(help="Sink: a CSV file with a row for each packet and node on its way.")
    ] = None,
    broker: Annotated[
        str | None,
        typer.Option(help="Sink: publish to it: mqtt://[USER[:PASSWORD]@]HOST[:PORT], or mqtts://."),
    ] = None,
    sender: Annotated[
        str | None,
        typer.Option(help="Sink: its name on the bus (the broker's user, or this host's name and -sink)."),
    ] = None,
    pin_dir: Annotated[
        str, typer.Option(help="Reader: pin directory of the agent whose flows get the echoes.")
    ] = DEFAULT_PIN_DIR,
    as_json: Annotated[
        bool, typer.Option("--json", help="Sink: print summaries, a JSON object each, one line each.")
    ] = False,
) -> None:
    """Be a source, transit or sink of in-band telemetry on an interface, until Ctrl-C.

    What leaves the interface gets headers (source) and this node's data (transit); what comes has its
    headers taken off, and is summed up for each flow (sink). Needs root: it loads programs into the kernel,
    and a source lowers the IPv6 MTU. All is put back at the end; after a kill, by the next node here.
    """
    try:
        spec = NodeSpec(
            roles=_roles(role, echo),
            node_id=node_id,
            to=_prefix(to, "--to"),
            trusted=_prefix(trusted, "--from"),
            source=SourceOptions(
                namespace_id=namespace_id,
                max_nodes=max_nodes,
                every_pkts=every,
                wireless_nodes=wireless,
                tcp_state=tcp_state,
                per_packet=per_packet,
                echo=echo,
            ),
            sink=SinkOptions(
                interval_us=interval_ms * _US_PER_MS,
                nodes={} if nodes is None else read_nodes(nodes),
                echo=echo,
            ),
            pin_dir=pin_dir,
        )
        with _taking(broker, sender, as_json) as take, _stopping() as stopped:
            counters = _run(interface, spec, records, take, stopped)
        typer.echo(told(counters), err=True)
    except CcpError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(FAILED) from None


def _roles(text: str, echo: bool) -> tuple[Role, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if echo and "source" in names:
        names = tuple(dict.fromkeys([*names, "reader"]))
    if unknown := [name for name in names if name not in ROLES]:
        raise NodeError("int.bad_option", f"no role `{unknown[0]}`", "--role", "", ", ".join(ROLES))
    return cast(tuple[Role, ...], names)


def _prefix(text: str, option: str) -> ipaddress.IPv6Network:
    try:
        return ipaddress.IPv6Network(text)
    except ValueError as error:
        raise NodeError(
            "int.bad_option", f"`{text}` is no IPv6 prefix", option, str(error), "fd00::/8"
        ) from None


@contextlib.contextmanager
def _taking(broker: str | None, sender: str | None, as_json: bool) -> Iterator[Take]:
    """Give what takes what a sink writes."""
    with contextlib.ExitStack() as stack:
        copy = None
        if as_json:
            copy = stack.enter_context(open(sys.stdout.fileno(), "wb", buffering=0, closefd=False))
        if broker is None:
            yield _nowhere if copy is None else copy.write
            return
        way = BusOptions.from_url(broker)
        bus = Bus(way, sender=sender or sender_name(way, SUFFIX), status=online("sink"))
        stack.callback(bus.stop)
        bus.start()
        yield Publisher(bus, copy=copy).feed


def _nowhere(_chunk: bytes) -> None:
    pass


@contextlib.contextmanager
def _stopping() -> Iterator[int]:
    """Give a descriptor that can be read from once Ctrl-C or SIGTERM came."""
    here, there = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        with on_signals(lambda: os.write(there, b"\0")):
            yield here
    finally:
        os.close(here)
        os.close(there)


def _run(interface: str, spec: NodeSpec, records: Path | None, take: Take, stopped: int) -> Counters:
    """Be the node until there is something to read from `stopped`."""
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    with open(reading, "rb", buffering=0) as lines, open(writing, "wb", buffering=0) as summaries:
        with InterfaceNode(interface, spec, summaries.fileno(), records=records) as running:
            typer.echo(f"{interface}: node {spec.node_id}, {', '.join(spec.roles)}", err=True)
            refresh_s = time.monotonic()
            disk_is_full = False
            while True:
                wait_s = max(0.0, refresh_s - time.monotonic())
                ready, _, _ = select.select([stopped, reading], [], [], wait_s)
                if stopped in ready:
                    break
                if reading in ready:
                    take(lines.read(READ_BYTES) or b"")
                if time.monotonic() >= refresh_s:
                    refresh_s = time.monotonic() + running.refresh()
                    if records is not None and not disk_is_full and running.counters().records_lost:
                        disk_is_full = True
                        typer.echo(f"{records} cannot be written: rows are lost from now on", err=True)
        take(lines.read() or b"")
        return running.counters()


def told(counters: Counters) -> str:
    """Return what happened, without what did not."""
    counted = msgspec.structs.asdict(counters).items()
    return ", ".join(f"{name} {count}" for name, count in counted if count) or "no packets"
