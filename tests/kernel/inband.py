"""A chain of stations and access points with telemetry inside the packets, and a connection across it."""

from __future__ import annotations

import socket
import threading
from typing import Any

from experiments.netlab.emulated import EmulatedNetwork
from experiments.netlab.linkstats import LinkStats
from experiments.netlab.spec import Buffer, Direction, Int, IntNode, Link, Radio, Topology
from tests.kernel.driving import wait_until

WAIT_S = 30
ENDS = ("source", "sink")
NEAR, FAR = Direction(delay_us=500), Direction(delay_us=500)
WIRED = Direction(rate_bytes_per_s=2.5e6, delay_us=4_000, buffer=Buffer(packets=60))


def chain(*, wired: Direction = WIRED, far: Direction = FAR, **options: Any) -> Topology:
    """Return sta1 -- ap1 == ap2 -- sta2, where both directions carry headers, into which ap1 and ap2 write.

    Args:
        wired: The bottleneck.
        far: The link behind it.
        **options: Of `Int`.
    """
    return Topology(
        hosts=("sta1", "sta2"),
        routers=("ap1", "ap2"),
        links=(
            Link("near", "sta1", "ap1", NEAR),
            Link("wired", "ap1", "ap2", wired),
            Link("far", "ap2", "sta2", far),
        ),
        telemetry=Int(
            nodes=(
                IntNode("sta1", ENDS),
                IntNode("ap1", ("transit",)),
                IntNode("ap2", ("transit",), radio=Radio(rssi_dbm=-60.5, mcs=7)),
                IntNode("sta2", ENDS),
            ),
            **options,
        ),
    )


def send(net: EmulatedNetwork, total_bytes: int) -> None:
    """Send so much from sta1 to sta2 over a connection of its own; wait until nothing of it is under way."""
    sta1, sta2 = net.hosts["sta1"], net.hosts["sta2"]
    with sta2.tcp_socket("ipv6") as server, sta1.tcp_socket("ipv6", "cubic") as client:
        server.bind((sta2.ipv6, 0))
        server.listen()
        client.settimeout(WAIT_S)
        client.connect(server.getsockname())
        taken, _ = server.accept()
        with taken:
            taken.settimeout(WAIT_S)
            sending = threading.Thread(target=_send, args=(client, total_bytes))
            sending.start()
            received_bytes = 0
            while data := taken.recv(1 << 16):
                received_bytes += len(data)
            sending.join()
            assert received_bytes == total_bytes
        assert client.recv(1) == b""
    wait_until(lambda: not _under_way(net.stats()))


def _under_way(stats: dict[str, LinkStats]) -> bool:
    ways = (("near>", "far>"), ("far<", "near<"))
    return any(stats[first].arrived_pkts != stats[last].delivered_pkts for first, last in ways)


def _send(client: socket.socket, total_bytes: int) -> None:
    client.sendall(bytes(total_bytes))
    client.shutdown(socket.SHUT_WR)
