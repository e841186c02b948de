"""Packets in and out: the Python face of the codec in `native/ccp-ioam`.

    room = Trace(trace_type=TraceField.NODE | TraceField.QUEUE_DEPTH, remaining_words=8)
    for found in decode(insert(packet, [room])).options:
        print(found.option)

Packets are IPv6 packets, from their first octet on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from telemetry.ioam.errors import IoamError
from telemetry.ioam.model import Contents, Decoded, Filled, Node, Option, Record, Summary
from telemetry.native import native

if TYPE_CHECKING:
    from ccplane.base._native import IoamCapture

BATCH_PKTS: Final = 10_000
"""Packets of a file that are read at once."""

NO_NEXT_HEADER: Final = 59

_OPTIONS: Final = msgspec.json.Decoder(tuple[Option, ...])
_NODE: Final = msgspec.json.Decoder(Node)
_DECODED: Final = msgspec.json.Decoder(Decoded)
_CONTENTS: Final = msgspec.json.Decoder(Contents)
_RECORDS: Final = msgspec.json.Decoder(list[Record])
_SUMMARY: Final = msgspec.json.Decoder(Summary)


def _native() -> AbstractContextManager[Any]:
    """Give the compiled module; what it raises becomes IoamError."""
    return native(IoamError, "ioam.not_built", "telemetry.ioam")


def _checked(value: object, decoder: msgspec.json.Decoder[Any]) -> bytes:
    """Return a value as JSON, after its fields were looked at."""
    try:
        json = msgspec.json.encode(value)
        decoder.decode(json)
    except (msgspec.ValidationError, TypeError) as error:
        what, _, where = str(error).partition(" - at ")
        raise IoamError(
            "ioam.cannot_write", "this is no telemetry that can be written", where.strip("`"), what
        ) from error
    return json


def decode(packet: bytes) -> Decoded:
    """Return what a packet carries: options, and what is wrong with those that cannot be read.

    Raises:
        IoamError: `ioam.not_ipv6`.
    """
    with _native() as module:
        return _DECODED.decode(module.ioam_decode(packet))


def decode_header(header: bytes, kind: Literal["hop_by_hop", "destination"]) -> Contents:
    """Return what an extension header carries, as sockets with IPV6_RECVHOPOPTS or IPV6_RECVDSTOPTS get it.

    Offsets count from its start.

    Args:
        header: The whole header.
        kind: Which one it is; it does not say so itself.

    Raises:
        IoamError: `ioam.truncated` or `ioam.bad_length`.
    """
    with _native() as module:
        return _CONTENTS.decode(module.ioam_decode_header(header, kind == "hop_by_hop"))


def insert(packet: bytes, options: Sequence[Option]) -> bytes:
    """Return a packet with options: traces for every node on the path, the rest for the last one.

    Headers that it has already take them in. It gets longer by `len(result) - len(packet)` octets, which the
    MTU has to allow.

    Raises:
        IoamError: `ioam.cannot_write`, `ioam.cannot_insert`, `ioam.truncated` or `ioam.not_ipv6`.
    """
    with _native() as module:
        return bytes(module.ioam_insert(packet, _checked(options, _OPTIONS)))


def build(options: Sequence[Option], next_header: int = NO_NEXT_HEADER) -> tuple[bytes, bytes]:
    """Return extension headers with options, Hop-by-Hop and Destination Options; empty without any.

    They are what the socket options IPV6_HOPOPTS and IPV6_DSTOPTS take, too.

    Args:
        options: What to put in.
        next_header: Number of the protocol that follows.

    Raises:
        IoamError: `ioam.cannot_write`.
    """
    with _native() as module:
        hop_by_hop, destination = module.ioam_build(_checked(options, _OPTIONS), next_header)
        return hop_by_hop, destination


def remove(packet: bytes) -> bytes:
    """Return a packet without IOAM and without the TCP state; options of others stay where they were.

    Raises:
        IoamError: `ioam.not_ipv6`, `ioam.truncated` or `ioam.bad_value`.
    """
    with _native() as module:
        return bytes(module.ioam_remove(packet))


def fill(packet: bytes, node: Node, namespace_id: int = 0) -> Filled:
    """Write a node's data into the pre-allocated traces of a namespace, as a node on the path does.

    What a trace does not ask for is left out; what the node does not know is marked as missing. Where there
    is no room, the overflow flag is set.

    Raises:
        IoamError: `ioam.cannot_write`, or what is wrong with the packet.
    """
    with _native() as module:
        after, filled, overflowed = module.ioam_fill(packet, namespace_id, _checked(node, _NODE))
    return Filled(packet=after, filled=filled, overflowed=overflowed)


class CaptureReader:
    """Goes through a file of captured packets, pcap or pcapng.

    Iterate over it for the packets that carry telemetry, or something wrong in its place. What is malformed
    does not end it; a file that is cut off ends it early, which `summary().broken` says.

    Raises:
        IoamError: `ioam.cannot_read` or `ioam.no_capture`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open it."""
        with _native() as module:
            self._capture: IoamCapture = module.IoamCapture(os.fspath(path))

    def __iter__(self) -> Iterator[Record]:
        """Yield records in the order of the file."""
        while not self._capture.finished:
            yield from _RECORDS.decode(self._capture.read(BATCH_PKTS))

    def summary(self) -> Summary:
        """Return how much was read so far."""
        return _SUMMARY.decode(self._capture.summary())
