"""Reads the emulator's captures: pcapng with raw IP packets and times in ns (draft-ietf-opsawg-pcapng)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

SECTION: Final = 0x0A0D0D0A
"""Type of a file's first block."""
PACKET: Final = 6
"""Type of an enhanced packet block."""
_HEADER: Final = struct.Struct(">II")
_PACKET: Final = struct.Struct(">IIIIIII")
_SMALLEST_BYTES: Final = 12


def packets(capture: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the packets of a file: the time since 1970 [ns], and the packet from its IP header on.

    Raises:
        ValueError: If it is no such file, or is cut off.
    """
    at = 0
    while at < len(capture):
        kind, length = _HEADER.unpack_from(capture, at) if at + 8 <= len(capture) else (0, 0)
        if (at == 0 and kind != SECTION) or length < _SMALLEST_BYTES or at + length > len(capture):
            raise ValueError(f"byte {at} begins no whole pcapng block")
        if kind == PACKET:
            _, _, _, high, low, captured, _ = _PACKET.unpack_from(capture, at)
            start = at + _PACKET.size
            yield high << 32 | low, capture[start : start + captured]
        at += length
