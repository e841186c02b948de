"""Hosts in a row for tests of in-band telemetry on real interfaces, and what is done to them."""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from experiments.netlab import Host, Lab
from experiments.netlab.contexts import held
from experiments.netlab.topology import Shaper
from telemetry.inband.node import InterfaceNode, NodeSpec

ETH_P_ALL = 3
SO_RCVBUFFORCE = 33  # <asm-generic/socket.h>
FRAME_BYTES = 1514
RESOLVING_PORT = 4999
WAIT_S = 20.0
LAB = ipaddress.IPv6Network("fd00::/8")
"""Prefix of all hosts."""


def in_a_row(lab: Lab, *hosts: Host) -> None:
    """Connect hosts: by default the first half of them send to the right, the others to the left."""
    links = [lab.connect(near, far) for near, far in itertools.pairwise(hosts)]
    half = len(hosts) // 2
    rights = [(host, right) for host, (_, right) in zip(hosts[:half], links, strict=False)]
    lefts = [(host, left) for host, (left, _) in zip(hosts[-half:], links[-half:], strict=True)]
    for host, via in (*rights, *lefts):
        host.run(["ip", "-6", "route", "add", "default", "via", via.ipv6])
    # While an address is being resolved, packets wait for it, and later ones overtake them on another
    # processor: a summary counts those that wait as lost.
    with datagrams(hosts[0], hosts[-1], RESOLVING_PORT) as (near, far):
        near.send(b"")
        far.recv(1)


@contextlib.contextmanager
def shaped(router: Host, rate_bytes_per_s: float, buffer_bytes: int) -> Iterator[Shaper]:
    """Give a router a slow link to the right."""
    shaper = Shaper(
        router,
        "eth1",
        rate_bytes_per_s=rate_bytes_per_s,
        buffer_bytes=buffer_bytes,
        burst_bytes=2 * FRAME_BYTES,
    )
    try:
        yield shaper
    finally:
        router.run(["tc", "qdisc", "del", "dev", "eth1", "root"])


@contextlib.contextmanager
def packet_by_packet(host: Host, device: str) -> Iterator[None]:
    """Let a device take no super-packets."""
    host.run(["ip", "link", "set", "dev", device, "gso_max_segs", "1"])
    try:
        yield
    finally:
        host.run(["ip", "link", "set", "dev", device, "gso_max_segs", "65535"])


@contextlib.contextmanager
def captured(host: Host) -> Iterator[socket.socket]:
    """Give a socket that sees what comes to a host before its node does, and what leaves it after."""
    with host.call(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)) as capture:
        capture.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
        capture.bind(("eth0", ETH_P_ALL))
        capture.settimeout(WAIT_S)
        yield capture


def drained(capture: socket.socket, sender: Host) -> list[bytes]:
    """All packets over IPv6 from a host that a capture holds."""
    address = socket.inet_pton(socket.AF_INET6, sender.ipv6)
    packets: list[bytes] = []
    capture.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            packets.append(capture.recv(65_600))
    return [packet for packet in packets if packet[0] >> 4 == 6 and packet[8:24] == address]


@contextlib.contextmanager
def datagrams(source: Host, sink: Host, port: int) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Give a socket that sends to the sink's, and that one."""
    near, far = (
        host.call(lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)) for host in (source, sink)
    )
    with near, far:
        far.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)  # for all that nobody has read yet
        far.bind(("::", port))
        far.settimeout(WAIT_S)
        near.connect((sink.ipv6, port))
        yield near, far


class Summaries:
    """A pipe for a sink's summaries, which are `lines` once it is closed."""

    def __init__(self) -> None:
        reading, self.fd = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.fd, False)
        self.lines: list[bytes] = []
        self._thread = threading.Thread(target=self._read, args=(reading,))
        self._thread.start()

    def _read(self, reading: int) -> None:
        with open(reading, "rb") as pipe:
            self.lines = pipe.read().splitlines()

    def close(self) -> None:
        os.close(self.fd)
        self._thread.join()


@contextlib.contextmanager
def node_on(
    host: Host, interface: str, spec: NodeSpec, summaries_fd: int, records: Path | None = None
) -> Iterator[InterfaceNode]:
    """Run a node on an interface of a host."""
    node = InterfaceNode(interface, spec, summaries_fd, records=records)
    with held(host, node, node.refresh):
        yield node
