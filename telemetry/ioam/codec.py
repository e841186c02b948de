"""Reads and writes packets: the Python interface of the codec in `native/ccp-ioam`.

    room = Trace(trace_type=TraceField.NODE | TraceField.QUEUE_DEPTH, remaining_words=8)
    for found in decode(insert(packet, [room])).options:
        print(found.option)

Packets are IPv6 packets, starting with their first byte.
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
"""Number of packets of a file that are read at a time."""

NO_NEXT_HEADER: Final = 59

_OPTIONS: Final = msgspec.json.Decoder(tuple[Option, ...])
_NODE: Final = msgspec.json.Decoder(Node)
_DECODED: Final = msgspec.json.Decoder(Decoded)
_CONTENTS: Final = msgspec.json.Decoder(Contents)
_RECORDS: Final = msgspec.json.Decoder(list[Record])
_SUMMARY: Final = msgspec.json.Decoder(Summary)


def _native() -> AbstractContextManager[Any]:
    return native(IoamError, "ioam.not_built", "telemetry.ioam")


def _checked(value: object, decoder: msgspec.json.Decoder[Any]) -> bytes:
    """Encode a value as JSON, and check its fields."""
    try:
        json = msgspec.json.encode(value)
        decoder.decode(json)
    except (msgspec.ValidationError, TypeError) as error:
        what, _, where = str(error).partition(" - at ")
        raise IoamError(
            "ioam.cannot_write", "the telemetry cannot be written", where.strip("`"), what
        ) from error
    return json


def decode(packet: bytes) -> Decoded:
    """Decode a packet: its options, and errors for unreadable options.

    Raises:
        IoamError: `ioam.not_ipv6`.
    """
    with _native() as module:
        return _DECODED.decode(module.ioam_decode(packet))


def decode_header(header: bytes, kind: Literal["hop_by_hop", "destination"]) -> Contents:
    """Decode an extension header, as received from sockets with IPV6_RECVHOPOPTS or IPV6_RECVDSTOPTS.

    Offsets count from the start of the header.

    Args:
        header: The whole header.
        kind: Kind of header, which the header itself does not show.

    Raises:
        IoamError: `ioam.truncated` or `ioam.bad_length`.
    """
    with _native() as module:
        return _CONTENTS.decode(module.ioam_decode_header(header, kind == "hop_by_hop"))


def insert(packet: bytes, options: Sequence[Option]) -> bytes:
    """Return a packet with options added: traces for every node on the path, others for the last node.

    Existing headers are extended. The packet grows by `len(result) - len(packet)` bytes, which must fit into
    the MTU.

    Raises:
        IoamError: `ioam.cannot_write`, `ioam.cannot_insert`, `ioam.truncated` or `ioam.not_ipv6`.
    """
    with _native() as module:
        return bytes(module.ioam_insert(packet, _checked(options, _OPTIONS)))


def build(options: Sequence[Option], next_header: int = NO_NEXT_HEADER) -> tuple[bytes, bytes]:
    """Return extension headers with options, Hop-by-Hop and Destination Options; empty without options.

    The headers also suit the socket options IPV6_HOPOPTS and IPV6_DSTOPTS.

    Raises:
        IoamError: `ioam.cannot_write`.
    """
    with _native() as module:
        hop_by_hop, destination = module.ioam_build(_checked(options, _OPTIONS), next_header)
        return hop_by_hop, destination


def remove(packet: bytes) -> bytes:
    """Return a packet without IOAM and TCP state; other options stay in place.

    Raises:
        IoamError: `ioam.not_ipv6`, `ioam.truncated` or `ioam.bad_value`.
    """
    with _native() as module:
        return bytes(module.ioam_remove(packet))


def fill(packet: bytes, node: Node, namespace_id: int = 0) -> Filled:
    """Write a node's data into the pre-allocated traces of a namespace, as a node on the path does.

    Fields that a trace does not request are left out; unknown values are marked as missing. Where there is no
    room, the overflow flag is set.

    Raises:
        IoamError: `ioam.cannot_write`, or an error of the packet.
    """
    with _native() as module:
        after, filled, overflowed = module.ioam_fill(packet, namespace_id, _checked(node, _NODE))
    return Filled(packet=after, filled=filled, overflowed=overflowed)


class CaptureReader:
    """Reads captured packets from a file or pipe, pcap or pcapng; the path `-` means standard input.

    Iterate over the reader for the packets with telemetry, or with malformed telemetry. Malformed packets and
    blocks do not end the iteration; a truncated file ends it early, and then `summary().broken` is set.

    Raises:
        IoamError: `ioam.cannot_read` or `ioam.no_capture`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        with _native() as module:
            self._capture: IoamCapture = module.IoamCapture(os.fspath(path))

    def __iter__(self) -> Iterator[Record]:
        while not self._capture.finished:
            yield from _RECORDS.decode(self._capture.read(BATCH_PKTS))

    def summary(self) -> Summary:
        """Return counts of what was read so far."""
        return _SUMMARY.decode(self._capture.summary())
