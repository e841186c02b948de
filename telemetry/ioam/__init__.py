"""In-band telemetry in IPv6 packets: IOAM (RFC 9197, RFC 9486), read and written.

Purpose: `decode` says what a packet carries, `insert` puts options into one, `fill` is what a node on the
path does, `remove` what the last one does; `CaptureReader` goes through a file. `model` has the classes.

May import: `ccplane.base.errors`, msgspec, typer, and by `telemetry.native` the compiled module. The format
is described in `docs/ioam.md`.
"""

from telemetry.ioam.codec import CaptureReader, build, decode, decode_header, fill, insert, remove
from telemetry.ioam.errors import IoamError
from telemetry.ioam.model import (
    Contents,
    Decoded,
    E2eField,
    EdgeToEdge,
    Filled,
    Flow,
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
    "Flow",
    "IoamError",
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
