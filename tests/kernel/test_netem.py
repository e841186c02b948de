"""The kernel's own queueing disciplines do what a description says, as far as this kernel has them."""

from __future__ import annotations

import contextlib
import csv
import os
import socket
import struct
import subprocess
import time
from pathlib import Path

import pytest

from experiments.netlab import Lab, LabError, iperf3, namespace
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.linkstats import SAMPLE_COLUMNS
from experiments.netlab.spec import Bernoulli, Buffer, Direction, GilbertElliott, Link, Topology
from experiments.netlab.topologies import dumbbell, point_to_point

pytestmark = pytest.mark.kernel(struct_ops=False)

RATE_BYTES_PER_S = 4e5  # what an emulated processor manages, too
PAYLOAD_SHARE = 1448 / 1500
LATE_US = 15_000
"""How much later than due a packet may be on an emulated processor."""


@pytest.fixture(scope="module")
def kernel_has_netem() -> bool:
    with Lab() as lab:
        command = ["tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms"]
        return lab.add_host("a").run(command, check=False).returncode == 0


@pytest.fixture
def needs_netem(kernel_has_netem: bool) -> None:
    if not kernel_has_netem:
        pytest.skip(f"this kernel ({os.uname().release}) has no sch_netem")


def rtt_us(net: EmulatedNetwork, a: str, b: str, pings: int = 10) -> float:
    """Return the least time of a packet to b and back."""
    sockets = [net.hosts[name].call(lambda: socket.socket(type=socket.SOCK_DGRAM)) for name in (a, b)]
    times_us = []
    with sockets[0] as near, sockets[1] as far:
        for sock, name in ((near, a), (far, b)):
            sock.settimeout(5)
            sock.bind((net.hosts[name].ipv4, 0))
        for _ in range(pings):
            sent_ns = time.monotonic_ns()
            near.sendto(b"ping", far.getsockname())
            far.sendto(*far.recvfrom(100))
            near.recv(100)
            times_us.append((time.monotonic_ns() - sent_ns) / 1000)
    return min(times_us)


@pytest.mark.parametrize("buffer", [Buffer(packets=20), Buffer(bytes=30_000)])
def test_tcp_gets_the_rate_and_a_change_of_it(buffer: Buffer, tmp_path: Path) -> None:
    link = Direction(rate_bytes_per_s=RATE_BYTES_PER_S, buffer=buffer)
    samples = tmp_path / "links.csv"
    with emulated(dumbbell(1, link), backend="netem", samples_path=samples) as net:
        for rate in (RATE_BYTES_PER_S, RATE_BYTES_PER_S / 2):
            net.change("bottleneck>", rate_bytes_per_s=rate)
            result = iperf3(net.hosts["s1"], net.hosts["r1"], congestion="cubic", duration_s=2)
            # an emulated processor leaves some of it unused
            assert 0.7 * rate < result.goodput_bytes_per_s < 1.03 * rate * PAYLOAD_SHARE
        stats = net.stats()
        assert net.emulator_stats() is None
    assert stats["bottleneck>"].dropped_queue_pkts
    assert stats["bottleneck<"].dropped_queue_pkts == 0
    assert stats["access-s1>"].delivered_bytes > stats["bottleneck>"].delivered_bytes
    with samples.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["link"] == "bottleneck>"]
    assert tuple(rows[0]) == SAMPLE_COLUMNS
    assert max(int(row["queue_bytes"]) for row in rows) > 15_000
    assert int(rows[-1]["delivered_bytes"]) >= stats["bottleneck>"].delivered_bytes
    assert rows[-1]["marked_pkts"] == ""


def test_a_limit_comes_and_goes() -> None:
    with emulated(point_to_point(Direction()), backend="netem") as net:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        net.change("link>", rate_bytes_per_s=2e5, buffer=Buffer(packets=50))
        limited = iperf3(sender, receiver, congestion="cubic", duration_s=1)
        net.change("link>", rate_bytes_per_s=None)
        unlimited = iperf3(sender, receiver, congestion="cubic", duration_s=1)
    assert limited.goodput_bytes_per_s < 2.2e5
    assert unlimited.goodput_bytes_per_s > 1e6


def test_packets_take_the_way_that_is_set() -> None:
    topology = Topology(
        hosts=("a", "b"),
        routers=("x", "y"),
        links=(
            Link(name="in", a="a", b="x"),
            Link(name="near", a="x", b="y"),
            Link(name="far", a="x", b="y"),
            Link(name="out", a="y", b="b"),
        ),
    )
    with emulated(topology, backend="netem") as net:
        before = net.stats()
        rtt_us(net, "a", "b")
        net.set_route(["a", "x", "far", "y", "b"])
        rtt_us(net, "a", "b", pings=7)
        after = net.stats()
    carried = {name: after[name].delivered_pkts - before[name].delivered_pkts for name in after}
    assert carried["near>"] >= 10
    assert carried["far>"] >= 7
    assert carried["far<"] >= 7


def test_nobody_asks_for_hardware_addresses() -> None:
    with emulated(dumbbell(1, Direction()), backend="netem") as net:
        rtt_us(net, "s1", "r1")
        for name in net.lab.namespaces:
            told = subprocess.run(["ip", "-n", name, "neighbour"], capture_output=True, text=True, check=True)
            known = [line for line in told.stdout.splitlines() if not line.startswith("fe80:")]
            assert len(known) in (2, 4, 6)  # both addresses of each neighbour
            assert all("PERMANENT" in line for line in known)


def test_a_missing_qdisc_is_named_and_nothing_stays(kernel_has_netem: bool) -> None:
    if kernel_has_netem:
        pytest.skip("this kernel lacks no queueing discipline that is needed")
    with pytest.raises(LabError) as caught, emulated(point_to_point(Direction(delay_us=1)), backend="netem"):
        pytest.fail("it was built")
    assert caught.value.slug == "lab.no_qdisc"
    assert "`netem`" in caught.value.message
    assert caught.value.where == "link>, qdisc netem"
    assert not [name for name in namespace.names() if name.startswith(f"ccp-{os.getpid()}-")]


# --- with sch_netem ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("needs_netem")
def test_netem_delays_and_a_change_of_the_delay_holds() -> None:
    with emulated(dumbbell(1, Direction(delay_us=10_000, jitter_us=1000)), backend="netem") as net:
        assert 20_000 <= rtt_us(net, "s1", "r1") < 22_000 + LATE_US
        net.change("bottleneck>", delay_us=60_000)
        assert 70_000 <= rtt_us(net, "s1", "r1") < 72_000 + LATE_US


@pytest.mark.usefixtures("needs_netem")
@pytest.mark.parametrize("loss", [Bernoulli(0.1), GilbertElliott(0.05, 0.5)])
def test_netem_loses_copies_and_keeps_the_order(loss: Bernoulli | GilbertElliott) -> None:
    packets = 2000
    forward = Direction(delay_us=5000, jitter_us=20_000, loss=loss, duplicate_ratio=0.05)
    with emulated(point_to_point(forward, Direction()), backend="netem", seed=7) as net:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]
        near, far = (host.call(lambda: socket.socket(type=socket.SOCK_DGRAM)) for host in (sender, receiver))
        with near, far:
            far.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
            far.bind((receiver.ipv4, 0))
            far.settimeout(1)
            for number in range(packets):
                near.sendto(struct.pack("=I", number), far.getsockname())
            numbers = []
            with contextlib.suppress(TimeoutError):
                while data := far.recv(100):
                    numbers += struct.unpack("=I", data)
        lost = packets - len(set(numbers))
        # IPv6 looks for routers and groups meanwhile
        assert net.stats()["link>"].delivered_pkts == pytest.approx(len(numbers), abs=20)
    expected = 0.1 if isinstance(loss, Bernoulli) else 0.05 / (0.05 + 0.5)
    assert lost == pytest.approx(packets * expected, rel=0.35)
    assert 50 < len(numbers) - len(set(numbers)) < 200
    first_seen = list(dict.fromkeys(numbers))
    assert first_seen == sorted(first_seen)


@pytest.mark.usefixtures("needs_netem")
def test_netem_and_tbf_together_keep_delay_and_rate() -> None:
    link = Direction(rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=5000, buffer=Buffer(packets=20))
    with emulated(dumbbell(1, link), backend="netem") as net:
        assert 10_000 <= rtt_us(net, "s1", "r1") < 10_000 + LATE_US
        result = iperf3(net.hosts["s1"], net.hosts["r1"], congestion="cubic", duration_s=3)
        stats = net.stats()["bottleneck>"]
    assert 0.7 * RATE_BYTES_PER_S < result.goodput_bytes_per_s < 1.03 * RATE_BYTES_PER_S * PAYLOAD_SHARE
    assert stats.dropped_queue_pkts
    assert stats.dropped_loss_pkts == 0
