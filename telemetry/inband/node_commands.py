"""`ccp telemetry node`: a node of in-band telemetry on an interface."""

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
from ccplane.base import options
from ccplane.base.errors import CcpError
from ccplane.base.pins import DEFAULT_PIN_DIR
from telemetry.bus import Bus
from telemetry.inband.node import (
    DEFAULT_ROLES,
    ROLES,
    InterfaceNode,
    NodeCounters,
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
"""Follows the host name in the sender name, because the host's agent already uses the host name."""

Take = Callable[[bytes], object]

_US_PER_MS: Final = 1000


def node(
    interface: Annotated[str, typer.Argument(metavar="INTERFACE", help="Network interface.")],
    role: Annotated[
        str,
        typer.Option(metavar="ROLES", help=f"Comma-separated roles: {', '.join(ROLES)}."),
    ] = ",".join(DEFAULT_ROLES),
    node_id: Annotated[
        int, typer.Option(min=0, max=(1 << 24) - 2, help="ID of this node in the packets' traces.")
    ] = 1,
    every: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Source: add telemetry to one in N packets of a flow; a GSO packet counts once.",
        ),
    ] = 1,
    max_nodes: Annotated[
        int, typer.Option(min=1, help="Source: number of nodes on the path to reserve space for.")
    ] = 3,
    wireless: Annotated[
        bool, typer.Option("--wireless", help="Source: reserve space for the data of wireless nodes.")
    ] = False,
    tcp_state: Annotated[
        bool,
        typer.Option(
            help="Source: add the sender's congestion window to the packets.",
            rich_help_panel=options.ADVANCED,
        ),
    ] = True,
    per_packet: Annotated[
        bool,
        typer.Option(
            "--per-packet",
            help="Source: give each packet its own headers, instead of one copy per GSO packet (slow).",
            rich_help_panel=options.ADVANCED,
        ),
    ] = False,
    to: Annotated[
        str,
        typer.Option(
            "--to-prefix",
            metavar="PREFIX",
            help="Source: add telemetry only to packets to this prefix, which must be within your domain.",
        ),
    ] = "::/0",
    trusted: Annotated[
        str | None,
        typer.Option(
            "--from-prefix",
            metavar="PREFIX",
            help="Sink, reader: read telemetry from this prefix; remove all other telemetry unread.",
            show_default="no sender is trusted",
        ),
    ] = None,
    echo: Annotated[
        bool,
        typer.Option(
            "--echo",
            help="Sink: return the path's state to sources in ACKs. Source: request and read the echoes.",
        ),
    ] = False,
    namespace_id: Annotated[
        int,
        typer.Option(
            min=0, max=0xFFFF, help="IOAM namespace, for all roles.", rich_help_panel=options.ADVANCED
        ),
    ] = 0,
    interval_ms: Annotated[
        int, options.duration("--interval", unit="ms", help="Sink: time between summaries", min=1, whole=True)
    ] = options.in_unit(10, "ms"),
    nodes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Sink: YAML file with the names and queues of the nodes by ID (docs/nodes.md).",
        ),
    ] = None,
    out: Annotated[
        Path | None, options.out("Sink: CSV file with one row for each packet and node.", metavar="FILE")
    ] = None,
    broker: Annotated[str | None, options.broker("Sink: telemetry bus to publish summaries to")] = None,
    sender: Annotated[
        str | None, options.sender(f"the broker's user, or HOSTNAME{SUFFIX}", panel=options.ADVANCED)
    ] = None,
    pin_dir: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="Reader: pin directory of the agent whose flows receive the echoes.",
            rich_help_panel=options.ADVANCED,
        ),
    ] = DEFAULT_PIN_DIR,
    as_json: Annotated[
        bool, typer.Option("--json", help="Sink: print summaries as JSON, one object per line.")
    ] = False,
) -> None:
    """Add, fill, remove or read in-band telemetry in the packets of an interface, until Ctrl-C.

    A source adds headers to outgoing packets, a transit node writes its data into
    them, a sink removes them from incoming packets and summarises each flow.
    Needs root: it loads programs into the kernel, and a source lowers the IPv6 MTU.
    All changes are undone at the end; after a kill, the next node on the interface undoes them.
    """
    try:
        spec = NodeSpec(
            roles=_roles(role, echo),
            node_id=node_id,
            to=_prefix(to, "--to-prefix"),
            trusted=None if trusted is None else _prefix(trusted, "--from-prefix"),
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
            counters = _run(interface, spec, out, take, stopped)
        typer.echo(summary(counters), err=True)
    except CcpError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(FAILED) from None


def _roles(text: str, echo: bool) -> tuple[Role, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if echo and "source" in names:
        names = tuple(dict.fromkeys([*names, "reader"]))
    if unknown := [name for name in names if name not in ROLES]:
        raise NodeError(
            "int.bad_option", f"no role `{unknown[0]}`", "--role", "", f"choose roles from {', '.join(ROLES)}"
        )
    return cast(tuple[Role, ...], names)


def _prefix(text: str, option: str) -> ipaddress.IPv6Network:
    try:
        return ipaddress.IPv6Network(text)
    except ValueError as error:
        raise NodeError(
            "int.bad_option",
            f"`{text}` is not an IPv6 prefix",
            option,
            str(error),
            "write a prefix such as fd00::/8",
        ) from None


@contextlib.contextmanager
def _taking(broker: str | None, sender: str | None, as_json: bool) -> Iterator[Take]:
    """Yield the function that receives the sink's output."""
    with contextlib.ExitStack() as stack:
        copy = None
        if as_json:
            copy = stack.enter_context(open(sys.stdout.fileno(), "wb", buffering=0, closefd=False))
        if broker is None:
            yield _nowhere if copy is None else copy.write
            return
        address = BusOptions.from_url(broker)
        bus = Bus(address, sender=sender or sender_name(address, SUFFIX), status=online("sink"))
        stack.callback(bus.stop)
        bus.start()
        yield Publisher(bus, copy=copy).feed


def _nowhere(_chunk: bytes) -> None:
    pass


@contextlib.contextmanager
def _stopping() -> Iterator[int]:
    """Yield a descriptor that becomes readable on Ctrl-C or SIGTERM."""
    here, there = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        with on_signals(lambda: os.write(there, b"\0")):
            yield here
    finally:
        os.close(here)
        os.close(there)


def _run(interface: str, spec: NodeSpec, records: Path | None, take: Take, stopped: int) -> NodeCounters:
    """Run the node until `stopped` is readable."""
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    with open(reading, "rb", buffering=0) as lines, open(writing, "wb", buffering=0) as summaries:
        with InterfaceNode(interface, spec, summaries.fileno(), records=records) as running:
            typer.echo(f"{interface}: node {spec.node_id}, {', '.join(spec.roles)}", err=True)
            if note := trusts_no_sender(spec):
                typer.echo(f"{interface}: {note}", err=True)
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
                        typer.echo(f"cannot write to {records}: further rows are lost", err=True)
        take(lines.read() or b"")
        return running.counters()


def trusts_no_sender(spec: NodeSpec) -> str | None:
    """Return the note for a node that removes telemetry but reads none; None for other nodes."""
    if spec.trusted is not None or not {"sink", "reader"}.intersection(spec.roles):
        return None
    return (
        "no sender is trusted: telemetry is removed unread; "
        "to read that of your own domain, give its prefix: --from-prefix fd00::/8"
    )


def summary(counters: NodeCounters) -> str:
    """Return all counters that are not zero, as text."""
    counted = msgspec.structs.asdict(counters).items()
    return ", ".join(f"{name} {count}" for name, count in counted if count) or "no packets"
