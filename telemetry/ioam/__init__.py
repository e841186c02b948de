"""In-band telemetry in IPv6 packets: IOAM (RFC 9197, RFC 9486), read and written.

`decode` reads the telemetry of a packet, `insert` adds options, `fill` does what a node on the path does,
`remove` what the last node does; `CaptureReader` reads a capture file. `model` has the classes.

This package may import `ccplane.base.errors`, msgspec, typer, and the native module through
`telemetry.native`. `docs/ioam.md` describes the format.
"""

from telemetry.ioam.codec import CaptureReader, build, decode, decode_header, fill, insert, remove
from telemetry.ioam.errors import IoamError
from telemetry.ioam.model import (
    Contents,
    Decoded,
    E2eField,
    EdgeToEdge,
    Filled,
    IoamFlow,
    Node,
    Option,
    OtherOption,
    OtherState,
    PathEcho,
    Placed,
    Problem,
    Record,
    State,
    Summary,
    TcpState,
    Trace,
    TraceField,
    arrival_ns,
)

__all__ = [
    "CaptureReader",
    "Contents",
    "Decoded",
    "E2eField",
    "EdgeToEdge",
    "Filled",
    "IoamError",
    "IoamFlow",
    "Node",
    "Option",
    "OtherOption",
    "OtherState",
    "PathEcho",
    "Placed",
    "Problem",
    "Record",
    "State",
    "Summary",
    "TcpState",
    "Trace",
    "TraceField",
    "arrival_ns",
    "build",
    "decode",
    "decode_header",
    "fill",
    "insert",
    "remove",
]
