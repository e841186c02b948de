"""Echoes of the path over real interfaces: a chain of hosts, what ACKs carry, what sockets were told."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import re
import socket
import struct
import termios
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from experiments.netlab import Host, Lab
from telemetry.inband.node import InterfaceNode, NodeSpec, SinkOptions, SourceOptions
from telemetry.ioam import PathEcho, decode
from tests.kernel.bpf_maps import opened
from tests.kernel.driving import PIN_DIR, wait_until
from tests.kernel.inband_hosts import LAB, WAIT_S, Summaries, in_a_row, node_on

PIN = f"{PIN_DIR}/paths/echoes_2"
MISSING = (1 << 32) - 1

SOURCE, TRANSIT, SINK = 1, 2, 3
DSTOPTS, TCP = 60, 6
ECHO_BYTES = 56
INBAND = """
(def (Report (age 0) (fresh false) (hop 7) (node 7) (hops 7) (known true) (queue 7) (free 7)
    (arrival 7) (link 7) (flows 7) (congestion 7) (lossy 7) (unknown 7)))
(when true
    (:= Report.age Int.age_us)
    (:= Report.fresh Int.fresh)
    (:= Report.hop Int.hop)
    (:= Report.node Int.node)
    (:= Report.hops Int.hops)
    (:= Report.known Int.all_known)
    (:= Report.queue Int.queue_bytes)
    (:= Report.free Int.free_bytes)
    (:= Report.arrival Int.arrival_bytes_per_s)
    (:= Report.link Int.link_bytes_per_s)
    (:= Report.flows Int.flow_count)
    (:= Report.congestion Int.losses_congestion)
    (:= Report.lossy Int.losses_link)
    (:= Report.unknown Int.losses_unknown)
    (:= Cwnd 289600)
    (report))
"""
"""All that an echo brings, on every ACK."""


@dataclass(frozen=True)
class Running:
    source: InterfaceNode
    sink: InterfaceNode


@dataclass(frozen=True)
class Chain:
    """source -- transit -- sink."""

    source: Host
    transit: Host
    sink: Host

    @contextlib.contextmanager
    def nodes(
        self,
        *,
        asks: bool = True,
        reflects: bool = True,
        transit_reports: bool = True,
        trusted: ipaddress.IPv6Network | None = LAB,
        pin_dir: str = PIN_DIR,
    ) -> Iterator[Running]:
        """Be source with a reader, transit node, and sink."""
        source = NodeSpec(
            roles=("source", "transit", "reader"),
            node_id=SOURCE,
            trusted=trusted,
            source=SourceOptions(echo=asks),
            pin_dir=pin_dir,
        )
        sink = NodeSpec(roles=("sink",), node_id=SINK, trusted=LAB, sink=SinkOptions(echo=reflects))
        transit = NodeSpec(roles=("transit",), node_id=TRANSIT)
        with (
            contextlib.closing(Summaries()) as summaries,
            node_on(self.sink, "eth0", sink, summaries.fd) as last,
            contextlib.ExitStack() as between,
            node_on(self.source, "eth0", source, summaries.fd) as first,
        ):
            if transit_reports:
                between.enter_context(node_on(self.transit, "eth1", transit, summaries.fd))
            yield Running(first, last)

    @contextlib.contextmanager
    def connected(self, congestion: str = "cubic") -> Iterator[tuple[socket.socket, socket.socket]]:
        """Give both ends of a connection that the source opened."""
        with (
            self.sink.tcp_socket("ipv6") as listener,
            self.source.tcp_socket("ipv6", congestion) as client,
        ):
            listener.bind(("::", 0))
            listener.listen()
            client.settimeout(WAIT_S)
            client.connect((self.sink.ipv6, listener.getsockname()[1]))
            server, _ = listener.accept()
            with server:
                server.settimeout(WAIT_S)
                yield client, server


@contextlib.contextmanager
def chained() -> Iterator[Chain]:
    """Connect three hosts."""
    with Lab() as lab:
        source, sink = lab.add_host("source"), lab.add_host("sink")
        transit = lab.add_host("transit", forwards=True)
        in_a_row(lab, source, transit, sink)
        yield Chain(source, transit, sink)


def transfer(client: socket.socket, server: socket.socket, total_bytes: int) -> None:
    """Send so much, and wait until all of it is acknowledged."""
    sending = threading.Thread(target=client.sendall, args=(bytes(total_bytes),))
    sending.start()
    while total_bytes:
        total_bytes -= len(server.recv(1 << 16))
    sending.join()
    wait_until(lambda: fcntl.ioctl(client, termios.TIOCOUTQ, bytes(4)) == bytes(4))  # all is acknowledged


def untraced() -> int:
    """What the kernel did not show to the nodes' tracing programs: drops that interrupted one of them."""
    found = 0
    for file in Path("/proc/self/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):
            text = file.read_text()
            if "prog_type:\t26\n" in text and (missed := re.search(r"recursion_misses:\s+(\d+)", text)):
                found += int(missed[1])
    return found


def echoes_in(acks: list[bytes]) -> list[PathEcho]:
    """The echoes, of packets that have nothing else, and are pure ACKs."""
    found = []
    for packet in acks:
        if packet[6] != DSTOPTS:
            continue
        decoded = decode(packet)
        assert decoded.errors == ()
        (placed,) = decoded.options
        assert isinstance(placed.option, PathEcho)
        tcp = packet[40 + ECHO_BYTES :]
        assert decoded.flow.protocol == TCP
        assert len(tcp) == (tcp[12] >> 4) * 4
        found.append(placed.option)
    return found


def newest_of(echoes: list[PathEcho]) -> PathEcho:
    """The one of the packet that left last; of two at the same moment the one that came later."""
    return max(enumerate(echoes), key=lambda one: (one[1].sent_s, one[1].sent_us, one[0]))[1]


@dataclass(frozen=True, kw_only=True)
class Reported:
    """All of a socket's; numbers that are missing are None."""

    echoes: int
    hops: int
    hop: int
    all_known: bool
    node_id: int | None
    queue_pkts: int | None
    free_pkts: int | None
    arrival_pkts_per_s: int | None
    link_rate_bytes_per_s: int | None
    flow_count: int | None
    left_us: int
    losses: tuple[int, int, int]


def reported(sock: socket.socket) -> Reported | None:
    """Return what a socket was told; None if nothing."""
    try:
        with opened(PIN) as echoes:
            value = echoes[struct.pack("=i", sock.fileno())]
    except FileNotFoundError:
        return None
    _, count, _, hops, hop, known, *numbers, left_us, first, second, third = struct.unpack_from(
        "=12I4Q", value
    )
    node_id, queue, free, arrivals, rate, flows = (None if one == MISSING else one for one in numbers)
    return Reported(
        echoes=count,
        hops=hops,
        hop=hop,
        all_known=bool(known),
        node_id=node_id,
        queue_pkts=queue,
        free_pkts=free,
        arrival_pkts_per_s=arrivals,
        link_rate_bytes_per_s=rate,
        flow_count=flows,
        left_us=left_us,
        losses=(first, second, third),
    )
