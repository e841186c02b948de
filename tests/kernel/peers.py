"""A host with connections to two peers, whose ordinary sockets follow the regimes of their paths."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path as File

from ccplane.agent.features.regime.rules import Treatment, parse_socket_rule
from ccplane.agent.features.regime.sockets import SocketActuator
from ccplane.base.errors import CcpError
from experiments.netlab import Host, Lab
from experiments.netlab.namespace import path_of
from experiments.netlab.spec import Family
from telemetry.regime import follow
from telemetry.regime.detector import SHARED, SINGLE_OWNER, Regime

CUBIC_ALONE: dict[Regime, Treatment] = {
    SINGLE_OWNER: Treatment(congestion="cubic"),
    SHARED: Treatment(congestion="reno"),
}

NO_LIMIT = 2**64 - 1
"""Of the pacing rate, where nobody set one."""


@dataclass
class Peers:
    """A host that sends to a near and to a far one."""

    sender: Host
    near: Host
    far: Host
    open: list[socket.socket] = field(default_factory=list)

    def close(self) -> None:
        """Close all connections."""
        for sock in self.open:
            sock.close()

    def path_to(self, peer: Host) -> follow.Path:
        """Return the way of data to a peer, as its decisions name it."""
        own = self.sender.interfaces[0 if peer is self.near else 1]
        return follow.Path(own.ipv4, peer.ipv4)

    def connect(
        self, server: Host, client: Host | None = None, *, family: Family = "ipv4", port: int = 0
    ) -> tuple[socket.socket, socket.socket]:
        """Return the client's and the server's end of a new connection; else the sender is the client."""
        listener = server.tcp_socket(family)
        client_end = (client or self.sender).tcp_socket(family)
        address = server.address(family)
        if server is self.sender and client is self.far:
            address = server.interfaces[1].ipv4
        with listener:
            listener.bind((address, port))
            listener.listen()
            client_end.connect(listener.getsockname())
            server_end, _ = listener.accept()
        self.open += [client_end, server_end]
        return client_end, server_end

    def accept_on_both_families(self, client: Host) -> socket.socket:
        """Return the sender's end of a new IPv4 connection to a socket of IPv6, as servers have them."""
        listener, client_end = self.sender.tcp_socket("ipv6"), client.tcp_socket()
        with listener:
            listener.bind(("::", 0))
            listener.listen()
            client_end.connect((self.sender.ipv4, port_of(listener)))
            server_end, _ = listener.accept()
        self.open += [client_end, server_end]
        return server_end

    @contextlib.contextmanager
    def switched(
        self, *rules: str, treatments: dict[Regime, Treatment] = CUBIC_ALONE, cgroup: File | None = None
    ) -> Iterator[SocketActuator]:
        """Switch the sender's sockets within the block, and leave them as they are then."""
        parsed = [parse_socket_rule(rule) for rule in rules]
        actuator = SocketActuator(treatments, parsed, netns=path_of(self.sender.namespace), cgroup=cgroup)
        try:
            yield actuator
        finally:
            with contextlib.suppress(CcpError):
                actuator.close(leave=True)


def port_of(sock: socket.socket) -> int:
    return sock.getsockname()[1]


def has_ecn(sock: socket.socket) -> bool:
    options = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[5]
    return bool(options & 8)  # TCPI_OPT_ECN


def window_of(sock: socket.socket) -> tuple[int, int]:
    """Congestion window and slow-start threshold [packets]."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    ssthresh, cwnd = struct.unpack_from("=II", info, 76)
    return cwnd, ssthresh


def pacing_limit_of(sock: socket.socket) -> int:
    so_max_pacing_rate = 47
    return struct.unpack("=Q", sock.getsockopt(socket.SOL_SOCKET, so_max_pacing_rate, 8))[0]


@contextlib.contextmanager
def two_peers() -> Iterator[Peers]:
    """Make a host, one near to it and one far from it."""
    with Lab() as lab:
        sender, near, far = (lab.add_host(name) for name in ("sender", "near", "far"))
        lab.connect(sender, near)
        lab.connect(sender, far)
        with contextlib.closing(Peers(sender, near, far)) as peers:
            yield peers
