"""UDP packets with times: sent at known moments, stamped by the kernel when the receiver's device has them.

The kernel's stamp is what a transport protocol would see. What the receiving process does later is not in it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from experiments.netlab import Host

HEADERS_BYTES: Final = 28
"""IPv4 and UDP."""

_SO_TIMESTAMPNS: Final = 35  # <asm-generic/socket.h>, as the next
_SO_RCVBUFFORCE: Final = 33
_SOL_UDP: Final = 17
_UDP_SEGMENT: Final = 103  # <linux/udp.h>
_RECEIVE_BUFFER_BYTES: Final = 256 << 20
_PRIORITY: Final = 2  # above the emulator: what it measures is not to wait for it
_QUIET_S: Final = 0.5
"""After so long without a packet none comes any more."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One packet.

    Attributes:
        number: Which one it was.
        at_ns: When the receiver's device had it, time of day [ns].
    """

    number: int
    at_ns: int


@contextlib.contextmanager
def socket_pair(sender: Host, receiver: Host) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Give a UDP socket at either host, connected, the second one with times and a large buffer.

    Args:
        sender: Host of the first.
        receiver: Host of the second.

    Yields:
        The sockets.
    """
    with sender.call(udp) as near, receiver.call(udp) as far:
        far.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER_BYTES)
        far.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        far.bind((receiver.ipv4, 0))
        far.settimeout(_QUIET_S)
        near.connect(far.getsockname())
        yield near, far


def send_train(near: socket.socket, count: int, ip_bytes: int, at_once: int) -> None:
    """Send numbered packets as fast as it goes, several with one system call.

    Args:
        near: Socket of the sender.
        count: Packets; a multiple of `at_once`.
        ip_bytes: Size of each as an IP packet [bytes].
        at_once: Packets with one call; 64 KiB at most.
    """
    payload_bytes = send_many(near, ip_bytes)
    numbered = [struct.pack("=I", number).ljust(payload_bytes, b"\0") for number in range(count)]
    train = [b"".join(numbered[first : first + at_once]) for first in range(0, count, at_once)]
    with _urgent():  # the link is not to run empty because this process had no turn
        for together in train:
            near.send(together)


def send_many(near: socket.socket, ip_bytes: int) -> int:
    """Let the kernel cut what a socket sends into packets of this size, and return the payload of each.

    Args:
        near: Socket of the sender.
        ip_bytes: Size of each as an IP packet [bytes].
    """
    payload_bytes = ip_bytes - HEADERS_BYTES
    near.setsockopt(_SOL_UDP, _UDP_SEGMENT, payload_bytes)
    return payload_bytes


def arrivals(far: socket.socket) -> list[Arrival]:
    """Return the packets that came, and those that come until none does for half a second."""
    arrived = []
    try:
        while True:
            data, ancillary, _, _ = far.recvmsg(2048, 64)
            seconds, nanoseconds = struct.unpack("=qq", _timestamp(ancillary))
            arrived.append(Arrival(struct.unpack_from("=I", data)[0], seconds * 1_000_000_000 + nanoseconds))
    except TimeoutError:
        return arrived


def udp() -> socket.socket:
    """Return a UDP socket, to be called in a host."""
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _timestamp(ancillary: Sequence[tuple[int, int, bytes]]) -> bytes:
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
            return data
    raise AssertionError("the kernel gave a packet no time")


@contextlib.contextmanager
def _urgent() -> Iterator[None]:
    """Let this process come before others, where permitted: a probe is sent when its time was taken."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(_PRIORITY))
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)
