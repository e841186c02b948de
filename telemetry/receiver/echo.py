"""Echo probes: their content, and the matching of answers. Pure: no clock, no I/O.

The same 56 bytes are the payload of an ICMP echo request or of a UDP datagram: magic, direction, a token
known only to the prober, and a number. An answer counts once, and only from the probed address.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from typing import Final

_PROBE: Final = struct.Struct("!4sB3x8sI36x")
_MAGIC: Final = b"ccpe"
_REQUEST, _ANSWER = 0, 1
PROBE_BYTES: Final = _PROBE.size
TOKEN_BYTES: Final = 8
TIMEOUT_US: Final = 10_000_000
"""Time after which an answer no longer counts [us]."""

ICMP_ECHO_REQUEST: Final = {4: 8, 6: 128}
"""IP version -> type of an echo request (RFC 792, RFC 4443)."""
ICMP_ECHO_REPLY: Final = {4: 0, 6: 129}
_ICMP: Final = struct.Struct("!BBHHH")


def probe(token: bytes, number: int) -> bytes:
    """Return a probe.

    Args:
        token: `TOKEN_BYTES` unguessable bytes.
        number: Number of this probe; its lower 32 bits are sent.
    """
    return _PROBE.pack(_MAGIC, _REQUEST, token, number % (1 << 32))


def number_of(payload: bytes, token: bytes) -> int | None:
    """Return the number of a probe that came back; None if it is not from this prober."""
    if len(payload) != PROBE_BYTES:
        return None
    magic, _, its_token, number = _PROBE.unpack(payload)
    return int(number) if (magic, its_token) == (_MAGIC, token) else None


def answer(payload: bytes) -> bytes | None:
    """Return the answer of a UDP responder; None for no answer.

    Only requests are answered, with the same number of bytes. So two responders never answer each other, and
    spoofed requests cause no amplification.
    """
    if len(payload) != PROBE_BYTES or payload[:5] != _MAGIC + bytes([_REQUEST]):
        return None
    return payload[:4] + bytes([_ANSWER]) + payload[5:]


def icmp_request(version: int, ident: int, number: int, payload: bytes) -> bytes:
    """Return an ICMP echo request.

    Args:
        version: IP version, 4 or 6.
        ident: Identifier; a ping socket replaces it.
        number: Its lower 16 bits are the sequence number.
        payload: The payload, which the reply returns.
    """
    kind = ICMP_ECHO_REQUEST[version]
    sequence = number % (1 << 16)
    head = _ICMP.pack(kind, 0, 0, ident, sequence)
    # For ICMPv6 the kernel computes the checksum, which includes the addresses.
    sum_ = checksum(head + payload) if version == 4 else 0
    return _ICMP.pack(kind, 0, sum_, ident, sequence) + payload


def icmp_payload(version: int, packet: bytes, *, has_ip_header: bool) -> bytes:
    """Return the payload of an ICMP echo reply; empty if it is something else."""
    if has_ip_header and packet:
        packet = packet[(packet[0] & 15) * 4 :]
    if len(packet) < _ICMP.size or packet[0] != ICMP_ECHO_REPLY[version]:
        return b""
    return packet[_ICMP.size :]


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071) of data of even length."""
    summed: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while summed >> 16:
        summed = (summed & 0xFFFF) + (summed >> 16)
    return ~summed & 0xFFFF


class Outstanding:
    """Unanswered probes."""

    def __init__(self) -> None:
        self._sent: OrderedDict[tuple[str, int], int] = OrderedDict()
        self._next = 0

    def number(self) -> int:
        """Return the number of the next probe."""
        self._next = (self._next + 1) % (1 << 32)
        return self._next

    def sent(self, peer: str, number: int, now_us: int) -> None:
        """Remember a probe that was sent at `now_us` [us]."""
        self._sent[peer, number] = now_us
        while now_us - next(iter(self._sent.values())) > TIMEOUT_US:  # keeps the probe just sent
            self._sent.popitem(last=False)

    def answered(self, peer: str, number: int, now_us: int) -> int | None:
        """Return the RTT of an answer that came at `now_us` [us]; None if it answers no pending probe."""
        sent_us = self._sent.pop((peer, number), None)
        if sent_us is None or now_us - sent_us > TIMEOUT_US:
            return None
        return max(now_us - sent_us, 0)
