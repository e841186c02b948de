"""Telemetry as text: a line per packet, per option and per node."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from msgspec import structs

from telemetry.ioam.model import (
    E2eField,
    EdgeToEdge,
    IoamFlow,
    Node,
    Option,
    OtherOption,
    OtherState,
    PathEcho,
    Placed,
    Problem,
    Record,
    Summary,
    TcpState,
    TimestampFormat,
    Trace,
    TraceField,
    arrival_ns,
)

_NS_PER_S: Final = 1_000_000_000
_NS_PER_US: Final = 1000
_PROTOCOLS: Final = {6: "tcp", 17: "udp", 58: "icmpv6", 59: "nothing"}
_HEADERS: Final = {"hop_by_hop": "hop-by-hop", "destination": "destination"}
_UNITS: Final = {"ns": "ns", "pkts": "packets", "bytes": "bytes", "dbm": "dBm", "db": "dB"}


def record(one: Record, timestamps: TimestampFormat) -> Iterator[str]:
    """Yield the lines of a packet."""
    when = "no time" if one.time_ns is None else time(one.time_ns)
    cut = "" if one.captured_bytes >= one.bytes else f", {one.captured_bytes} of {one.bytes} bytes captured"
    yield f"packet {one.packet}  {when}  {flow(one.flow)}{cut}"
    for placed in one.options:
        yield from (f"  {line}" for line in option(placed, timestamps))
    for wrong in one.errors:
        yield f"  malformed: {problem(wrong)}"


def time(ns: int) -> str:
    """Format a time in UTC; as a number if it is out of range."""
    whole_s, rest_ns = divmod(ns, _NS_PER_S)
    try:
        return f"{datetime.fromtimestamp(whole_s, UTC):%Y-%m-%dT%H:%M:%S}.{rest_ns:09d}Z"
    except (ValueError, OverflowError, OSError):
        return f"{ns} ns"


def flow(one: IoamFlow) -> str:
    """Return a flow: protocol and both ends."""
    protocol = "unknown" if one.protocol is None else _PROTOCOLS.get(one.protocol, f"protocol {one.protocol}")
    ends = [(one.src, one.src_port), (one.dst, one.dst_port)]
    src, dst = (address if port is None else f"[{address}]:{port}" for address, port in ends)
    return f"{protocol} {src} > {dst}"


def option(placed: Placed, timestamps: TimestampFormat) -> Iterator[str]:
    """Yield the lines of an option."""
    first, *rest = _lines(placed.option, timestamps)
    yield f"{_HEADERS[placed.header]} at {placed.offset}: {first}"
    yield from (f"  {line}" for line in rest)


def _lines(one: Option, timestamps: TimestampFormat) -> list[str]:
    match one:
        case Trace():
            kind = "incremental trace" if one.incremental else "trace"
            flags = [name for name in ("overflow", "loopback", "active") if getattr(one, name)]
            fields = ", ".join(
                [f"type {one.trace_type:#08x}", *flags, f"room for {one.remaining_words} words"]
            )
            nodes = [
                f"node {n}: {_node(node, timestamps, one.trace_type)}" for n, node in enumerate(one.nodes, 1)
            ]
            return [f"{kind}, namespace {one.namespace_id}, {fields}", *nodes]
        case EdgeToEdge():
            reported = _reported(one, ("sequence",))
            if one.e2e_type & (E2eField.TIMESTAMP_S | E2eField.TIMESTAMP_FRACTION):
                reported.append(_when(one, timestamps))
            return [f"edge to edge, namespace {one.namespace_id}: " + (", ".join(reported) or "nothing")]
        case TcpState():
            reported = _reported(one, ("cwnd_bytes", "mss_bytes", "first_sequence")) or ["not traced"]
            return ["sender's TCP: " + ", ".join(reported + ["wants echoes"] * one.wants_echo)]
        case PathEcho():
            numbers = [name for name in one.__struct_fields__ if not name.startswith(("sent_", "all_"))]
            reported = [*_reported(one, tuple(numbers)), "all known" if one.all_known else "not all known"]
            sent = time(one.sent_s * _NS_PER_S + one.sent_us * _NS_PER_US)
            return [f"path echo: {', '.join(reported)}, sent {sent}"]
        case OtherOption():
            return [f"IOAM option type {one.ioam_type}: {one.data or 'nothing'}"]


def _node(node: Node, timestamps: TimestampFormat, trace_type: int) -> str:
    reported = _reported(node, ("hop_limit", "node_id", "ingress_if", "egress_if"))
    if trace_type & (TraceField.TIMESTAMP_S | TraceField.TIMESTAMP_FRACTION):
        reported.append(_when(node, timestamps))
    later = node.__struct_fields__[node.__struct_fields__.index("transit_delay_ns") :]
    reported += _reported(node, tuple(name for name in later if name != "snapshot"))
    if isinstance(node.snapshot, OtherState):
        reported.append(f"schema {node.snapshot.schema_id:#x}: {node.snapshot.data or 'nothing'}")
    elif node.snapshot is not None:
        reported += _reported(node.snapshot, node.snapshot.__struct_fields__)
    return ", ".join(reported) or "nothing known"


def _when(what: Node | EdgeToEdge, timestamps: TimestampFormat) -> str:
    ns = arrival_ns(what, timestamps)
    if ns is not None:
        return time(ns)
    return ", ".join(_reported(what, ("timestamp_s", "timestamp_fraction"))) or "no time"


def _reported(what: object, names: tuple[str, ...]) -> list[str]:
    """Return `name value unit` of the fields that are known; units come from the names."""
    reported = []
    for name in names:
        value = getattr(what, name)
        if value is None:
            continue
        words = name.split("_")
        unit = ""
        if name.endswith("_per_s"):
            words, unit = words[:-3], f" {_UNITS[words[-3]]}/s"
        elif words[-1] in _UNITS:
            words, unit = words[:-1], f" {_UNITS[words[-1]]}"
        elif words[-1] == "s":
            words, unit = words[:-1], " s"
        reported.append(f"{' '.join(words)} {value}{unit}")
    return reported


def problem(one: Problem) -> str:
    """Describe a problem in one line."""
    why = f" ({one.why})" if one.why else ""
    where = f" at {one.where}" if one.where else ""
    return f"{one.slug}: {one.message}{where}{why}"


def summary(one: Summary) -> str:
    """Format the counts in one line."""
    counts = structs.asdict(one)
    reported = [
        f"{counts['packets']} packets",
        f"{counts['ipv6']} are IPv6",
        f"{counts['with_options']} with telemetry",
        f"{counts['malformed']} malformed",
    ]
    if one.unknown_link:
        reported.append(f"{one.unknown_link} on unsupported links")
    if one.other_blocks:
        reported.append(f"{one.other_blocks} blocks without packets")
    if one.malformed_blocks:
        reported.append(f"{one.malformed_blocks} malformed blocks")
    return ", ".join(reported)
