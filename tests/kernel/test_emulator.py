"""What links of the emulator do beside delaying, losing and limiting, to real packets."""

from __future__ import annotations

import csv
import hashlib
import random
import socket
import statistics
import threading
from pathlib import Path

import pytest

from experiments.netlab import Host, iperf3
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.spec import (
    Bernoulli,
    Buffer,
    CoDel,
    Direction,
    DropTail,
    Family,
    Queue,
    Red,
    TokenBucket,
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


def test_a_policer_lets_its_bucket_pass() -> None:
    bucket = TokenBucket(rate_bytes_per_s=1.0, bucket_bytes=30_999)
    with (
        emulated(point_to_point(Direction(token_bucket=bucket))) as net,
        probes.socket_pair(net.hosts["sender"], net.hosts["receiver"]) as (near, far),
    ):
        probes.send_train(near, 80, 1000, at_once=40)
        arrived = [one.number for one in probes.arrivals(far)]
        stats = net.stats()["link>"]
    assert arrived == list(range(30))
    assert stats.dropped_policer_pkts == 50


def test_a_trace_carries_its_opportunities(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.write_text("2\n4\n4\n10\n")  # 4 of 1500 bytes in 10 ms
    link = Direction(trace=str(trace), buffer=Buffer(packets=400))
    with (
        emulated(point_to_point(link)) as net,
        probes.socket_pair(net.hosts["sender"], net.hosts["receiver"]) as (near, far),
    ):
        probes.send_train(near, 400, 1500, at_once=40)
        arrived = probes.arrivals(far)
    assert len(arrived) == 400
    # 400 packets are 100 periods of 10 ms, less at most one before the first packet and one behind the last.
    took_s = (arrived[-1].at_ns - arrived[0].at_ns) / 1e9
    assert took_s == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize(
    ("queue", "ecn"),
    [
        (CoDel(target_us=5_000, interval_us=50_000), True),
        (CoDel(target_us=5_000, interval_us=50_000), False),
        (Red(min_bytes=10_000, max_bytes=40_000, weight=0.02), True),
        (Red(min_bytes=10_000, max_bytes=40_000, weight=0.02), False),
    ],
)
def test_active_queues_stay_short_by_marks_or_drops(queue: Queue, ecn: bool, tmp_path: Path) -> None:
    bytes_ = {}
    for name, discipline in (("active", queue), ("passive", DropTail())):
        link = Direction(
            rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=10_000, buffer=Buffer(packets=300), queue=discipline
        )
        path = tmp_path / name
        with emulated(point_to_point(link), samples_path=path, sample_interval_us=10_000) as net:
            for host in net.hosts.values():
                host.set_sysctl("net.ipv4.tcp_ecn", int(ecn))
            iperf3(net.hosts["sender"], net.hosts["receiver"], congestion="cubic", duration_s=4)
            stats = net.stats()["link>"]
        if name == "active":
            assert bool(stats.marked_pkts) == ecn
            assert ecn or stats.dropped_aqm_pkts
        with path.open() as file:
            waiting = [int(row["queue_bytes"]) for row in csv.DictReader(file) if row["link"] == "link>"]
        bytes_[name] = statistics.mean(waiting[len(waiting) // 2 :])
    assert bytes_["active"] < bytes_["passive"] / 3
    assert bytes_["passive"] > 100_000
