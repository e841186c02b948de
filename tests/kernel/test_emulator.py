"""What links of the emulator do beside delaying, losing and limiting, to real packets."""

from __future__ import annotations

import hashlib
import random
import socket
import threading

import pytest

from experiments.netlab import Host
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.spec import (
    Bernoulli,
    Buffer,
    Direction,
    Family,
)
from experiments.netlab.topologies import point_to_point
from tests.kernel import probes

pytestmark = pytest.mark.kernel(struct_ops=False)

RATE_BYTES_PER_S = 2.5e6
TIMEOUT_S = 60


def count(host: Host, protocol: str, name: str) -> int:
    """Return a counter of the host's kernel."""
    rows = [line.split() for line in host.run(["cat", "/proc/net/snmp"]).stdout.splitlines()]
    names, values = (row for row in rows if row[0] == f"{protocol}:")
    return int(values[names.index(name)])


def send_bytes(net: EmulatedNetwork, data: bytes, family: Family) -> bytes:
    """Send data from one host to the other; return what arrives."""
    receiver = net.hosts["receiver"]
    arrived = bytearray()

    def take() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(TIMEOUT_S)
            while more := connection.recv(1 << 16):
                arrived.extend(more)

    with receiver.tcp_socket(family) as listener, net.hosts["sender"].tcp_socket(family) as sender:
        listener.bind((receiver.address(family), 0))
        listener.listen()
        listener.settimeout(TIMEOUT_S)
        taker = threading.Thread(target=take)
        taker.start()
        sender.settimeout(TIMEOUT_S)
        sender.connect(listener.getsockname())
        sender.sendall(data)
        sender.shutdown(socket.SHUT_WR)
        taker.join(2 * TIMEOUT_S)
    return bytes(arrived)


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_tcp_brings_every_byte_over_a_bad_link(family: Family) -> None:
    bad = Direction(
        rate_bytes_per_s=125e6,
        delay_us=500,
        jitter_us=300,
        loss=Bernoulli(0.002),
        duplicate_ratio=0.01,
        corrupt_ratio=0.005,
        buffer=Buffer(packets=500),
    )
    data = random.Random(1).randbytes(8 << 20)
    with emulated(point_to_point(bad)) as net:
        arrived = send_bytes(net, data, family)
        stats = net.stats()["link>"]
        errors = count(net.hosts["receiver"], "Tcp", "InCsumErrors")
    assert hashlib.sha256(arrived).digest() == hashlib.sha256(data).digest()
    assert stats.duplicated_pkts
    # A packet may be corrupted and duplicated, or be without a socket when it comes.
    assert stats.corrupted_pkts
    assert errors >= stats.corrupted_pkts * 0.9


@pytest.mark.parametrize("ip_bytes", [128, 1500])
def test_datagrams_handed_over_in_one_piece_travel_one_by_one(ip_bytes: int) -> None:
    with (
        emulated(point_to_point(Direction(rate_bytes_per_s=12.5e6, buffer=Buffer(packets=400)))) as net,
        probes.socket_pair(net.hosts["sender"], net.hosts["receiver"]) as (near, far),
    ):
        probes.send_train(near, 400, ip_bytes, at_once=40)
        arrived = probes.arrivals(far)
        stats = net.stats()["link>"]
    assert [one.number for one in arrived] == list(range(400))
    assert (stats.arrived_pkts, stats.arrived_bytes) == (400, 400 * ip_bytes)


def test_a_duplicate_follows_its_original() -> None:
    with (
        emulated(point_to_point(Direction(duplicate_ratio=1.0))) as net,
        probes.socket_pair(net.hosts["sender"], net.hosts["receiver"]) as (near, far),
    ):
        probes.send_train(near, 40, 100, at_once=40)
        arrived = [one.number for one in probes.arrivals(far)]
    assert arrived == [number for number in range(40) for _ in range(2)]
