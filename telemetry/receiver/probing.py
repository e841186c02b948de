"""RTT by echo: ICMP where sockets for it are permitted, UDP where ICMP is blocked; and the responder for UDP.

The kernel timestamps answers on arrival, so that a busy process does not inflate RTTs.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from telemetry.receiver import echo
from telemetry.receiver.errors import ReceiverError
from telemetry.receiver.peers import by_address, socket_address
from telemetry.schema import canonical

log = logging.getLogger("ccplane.telemetry")

Kind = Literal["icmp", "udp"]

DEFAULT_PORT: Final = 4717
"""UDP port of `ccp telemetry receive --respond`."""

_FAMILIES: Final = {4: socket.AF_INET, 6: socket.AF_INET6}
_PROTOCOLS: Final = {4: socket.IPPROTO_ICMP, 6: socket.IPPROTO_ICMPV6}
_SO_TIMESTAMPNS: Final = 35  # <asm-generic/socket.h>; Python lacks it
_SOL_RAW: Final = 255
_ICMP_FILTER: Final = 1  # <linux/icmp.h>
_ICMP6_FILTER: Final = 1  # <linux/icmpv6.h>
_BATCH: Final = 256
"""Maximum number of datagrams read in a row, so that a flood does not block other work."""


_CLOCK_TRIES: Final = 5
_CLOCK_SPAN_US: Final = 10
"""Maximum time between readings of two clocks that count as simultaneous [us]; above, there was an
interruption."""


@dataclass(frozen=True, slots=True)
class Rtt:
    """One answered probe: the peer, the time of the answer [us, monotonic] and the RTT [us]."""

    peer: str
    t_us: int
    rtt_us: int


def ip_version(address: str) -> int:
    """Return 4 or 6."""
    return 6 if ":" in address else 4


class _Channel(Protocol):
    """A socket for probes and answers."""

    sock: socket.socket
    port: int

    def send(self, where: Any, number: int, payload: bytes) -> None:
        """Send a probe; raises OSError."""

    def payload(self, packet: bytes) -> bytes:
        """Return the probe in a received packet."""


class _Icmp:
    port = 0

    def __init__(self, version: int) -> None:
        self._version = version
        self._ident = secrets.randbelow(1 << 16)
        self.sock, self.is_raw = _icmp_socket(version)

    def send(self, where: Any, number: int, payload: bytes) -> None:
        self.sock.sendto(echo.icmp_request(self._version, self._ident, number, payload), where)

    def payload(self, packet: bytes) -> bytes:
        has_header = self.is_raw and self._version == 4
        return echo.icmp_payload(self._version, packet, has_ip_header=has_header)


class _Udp:
    def __init__(self, version: int, port: int) -> None:
        self.port = port
        self.sock = _open(version, socket.SOCK_DGRAM, 0)

    def send(self, where: Any, number: int, payload: bytes) -> None:
        self.sock.sendto(payload, where)

    def payload(self, packet: bytes) -> bytes:
        return packet


def _open(version: int, kind: int, protocol: int) -> socket.socket:
    sock = socket.socket(_FAMILIES[version], kind | socket.SOCK_NONBLOCK, protocol)
    sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    return sock


def _icmp_socket(version: int) -> tuple[socket.socket, bool]:
    """Return a ping socket, or a raw one where ping sockets are not permitted; and whether it is raw."""
    protocol = _PROTOCOLS[version]
    with contextlib.suppress(PermissionError):
        return _open(version, socket.SOCK_DGRAM, protocol), False
    try:
        sock = _open(version, socket.SOCK_RAW, protocol)
    except PermissionError as error:
        raise ReceiverError(
            "receiver.no_icmp",
            "cannot measure RTT by ICMP: neither ping sockets nor raw sockets are permitted",
            f"IPv{version}",
            "this user's group is not in the sysctl net.ipv4.ping_group_range, and CAP_NET_RAW is missing",
            "`sysctl net.ipv4.ping_group_range='0 2147483647'`, or `--probe udp` with "
            "`ccp telemetry receive --respond` at the peer",
        ) from error
    kind = echo.ICMP_ECHO_REPLY[version]  # a set bit blocks its message type
    if version == 4:
        sock.setsockopt(_SOL_RAW, _ICMP_FILTER, struct.pack("=I", 0xFFFFFFFF & ~(1 << kind)))
    else:
        words = [0xFFFFFFFF] * 8
        words[kind // 32] &= ~(1 << kind % 32)
        sock.setsockopt(socket.IPPROTO_ICMPV6, _ICMP6_FILTER, struct.pack("=8I", *words))
    return sock, True


def received_us(ancillary: Sequence[tuple[int, int, bytes]], now_us: int, wall_ns: int) -> int:
    """Return the arrival time of a datagram by the monotonic clock [us].

    Args:
        ancillary: Ancillary data from `recvmsg`, with the kernel's wall-clock stamp, if there is one.
        now_us: Current monotonic clock [us].
        wall_ns: Current wall clock [ns].

    Returns:
        The time; `now_us` if there is no stamp, or an impossible one because the wall clock was set.
    """
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) >= 16:
            seconds, nanoseconds = struct.unpack_from("=qq", data)
            waited_us = (wall_ns - seconds * 1_000_000_000 - nanoseconds) // 1000
            if 0 <= waited_us < 1_000_000:
                return now_us - int(waited_us)
    return now_us


def _received(sock: socket.socket, clock_us: Callable[[], int]) -> Iterator[tuple[str, bytes, int]]:
    """Yield the datagrams of a socket: sender, data, time of arrival [us]."""
    for _ in range(_BATCH):
        try:
            data, ancillary, _, source = sock.recvmsg(2048, 64)
        except BlockingIOError:
            return
        except OSError:  # an ICMP error for an earlier datagram
            continue
        yield canonical(source[0]), data, received_us(ancillary, *_both_clocks(clock_us))


def _both_clocks(clock_us: Callable[[], int]) -> tuple[int, int]:
    """Read the monotonic clock [us] and the wall clock [ns] as simultaneously as possible."""
    for _ in range(_CLOCK_TRIES):
        before_us, wall_ns, after_us = clock_us(), time.time_ns(), clock_us()
        if after_us - before_us <= _CLOCK_SPAN_US:
            break
    return (before_us + after_us) // 2, wall_ns


class Prober:
    """Sends probes to each peer at a constant rate, and returns RTTs.

    Attributes:
        how: Description of the method.
    """

    def __init__(
        self,
        peers: Sequence[str],
        interval_us: int,
        clock_us: Callable[[], int],
        kind: Kind = "icmp",
        port: int = DEFAULT_PORT,
    ) -> None:
        """Open the sockets, in the network namespace of this thread.

        Args:
            peers: Addresses as returned by `telemetry.receiver.peers.resolve`.
            interval_us: Time between two probes to a peer [us].
            clock_us: The monotonic clock [us].
            kind: Kind of probes.
            port: Port of the responders, for UDP.

        Raises:
            ReceiverError: `receiver.no_icmp` or `receiver.bad_peer`.
        """
        named = by_address(peers)
        self._where: dict[str, Any] = {}
        self._failing: set[str] = set()
        self._interval_us = interval_us
        self._clock_us = clock_us
        self._token = secrets.token_bytes(echo.TOKEN_BYTES)
        self._outstanding = echo.Outstanding()
        self._channels: dict[int, _Channel] = {}
        self.due_us = clock_us()
        self.sent = self.unsent = self.answered = 0
        try:
            for version in sorted({ip_version(peer) for peer in peers}):
                self._channels[version] = _Icmp(version) if kind == "icmp" else _Udp(version, port)
            for plain, peer in named.items():
                self._where[plain] = socket_address(peer, self._channels[ip_version(peer)].port)
        except BaseException:
            self.close()
            raise
        raw = any(isinstance(channel, _Icmp) and channel.is_raw for channel in self._channels.values())
        names = {"icmp": f"ICMP echo ({'raw' if raw else 'ping'} socket)", "udp": f"UDP echo, port {port}"}
        self.how = names[kind]

    def close(self) -> None:
        """Close the sockets."""
        for channel in self._channels.values():
            channel.sock.close()

    @property
    def files(self) -> list[int]:
        """File descriptors that become readable when answers come."""
        return [channel.sock.fileno() for channel in self._channels.values()]

    def poll(self) -> list[Rtt]:
        """Send due probes, and return the received answers. Never blocks."""
        found = [rtt for channel in self._channels.values() for rtt in self._take(channel)]
        now_us = self._clock_us()
        if now_us >= self.due_us:
            late = (now_us - self.due_us) // self._interval_us  # missed probes are skipped
            self.due_us += (late + 1) * self._interval_us
            for peer in self._where:
                self._send(peer)
        return found

    def _send(self, peer: str) -> None:
        number = self._outstanding.number()
        now_us = self._clock_us()
        try:
            where = self._where[peer]
            self._channels[ip_version(peer)].send(where, number, echo.probe(self._token, number))
        except OSError as error:  # no route, a full queue, a filter: the probe counts as lost
            self.unsent += 1
            if peer not in self._failing:
                self._failing.add(peer)
                log.warning("cannot send probes to %s: %s", peer, error.strerror or error)
        else:
            self._failing.discard(peer)
            self.sent += 1
            self._outstanding.sent(peer, number, now_us)

    def _take(self, channel: _Channel) -> Iterator[Rtt]:
        for peer, packet, t_us in _received(channel.sock, self._clock_us):
            number = echo.number_of(channel.payload(packet), self._token)
            if number is None:
                continue
            rtt_us = self._outstanding.answered(peer, number, t_us)
            if rtt_us is not None:
                self.answered += 1
                yield Rtt(peer, t_us, rtt_us)


class Responder:
    """Answers UDP probes on a port, over IPv4 and IPv6.

    port: Port on which it listens.
    answered: Number of answered probes.
    """

    def __init__(self, port: int = DEFAULT_PORT, address: str = "") -> None:
        """Open the socket in the network namespace of this thread.

        Args:
            port: Port to listen on; 0 for a free one.
            address: Local address to listen on; empty for all.

        Raises:
            ReceiverError: `receiver.no_port`.
        """
        self.answered = 0
        try:
            self.sock = _bound(address, port)
        except OSError as error:
            raise ReceiverError(
                "receiver.no_port",
                f"cannot answer probes on UDP port {port}",
                f"address {address}" if address else "all addresses",
                os.strerror(error.errno) if error.errno else str(error),
                "choose another port with `--port`, here and at the prober",
            ) from error
        self.port: int = self.sock.getsockname()[1]

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()

    def poll(self) -> int:
        """Answer received probes; return their number. Never blocks."""
        before = self.answered
        for _ in range(_BATCH):
            try:
                data, source = self.sock.recvfrom(2048)
            except BlockingIOError:
                break
            except OSError:
                continue
            if (reply := echo.answer(data)) is not None:
                with contextlib.suppress(OSError):  # a full queue or no route: the probe counts as lost
                    self.sock.sendto(reply, source)
                    self.answered += 1
        return self.answered - before


def _bound(address: str, port: int) -> socket.socket:
    """Return a socket that listens on an address, or on all addresses of both families."""
    kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK
    version = ip_version(address) if address else 6
    try:
        sock = socket.socket(_FAMILIES[version], kind)
    except OSError:
        if address:
            raise
        version, sock = 4, socket.socket(socket.AF_INET, kind)  # a kernel without IPv6
    try:
        if version == 6 and not address:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind((address, port))
    except BaseException:
        sock.close()
        raise
    return sock
