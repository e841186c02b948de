"""Real packets over emulated links find the delay, rate, buffer, losses and marks that were asked for."""

from __future__ import annotations

import contextlib
import csv
import os
import signal
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.netlab import Host, LabError, iperf3, namespace, start_iperf3, tun
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.linkstats import SAMPLE_COLUMNS
from experiments.netlab.spec import Buffer, Direction, DropTail, Family, Link, Topology
from experiments.netlab.topologies import dumbbell, parking_lot, point_to_point

pytestmark = pytest.mark.kernel(struct_ops=False)

RATE_BYTES_PER_S = 12.5e6
FAMILIES = {"ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}
IP_UDP_BYTES = 28
SO_SNDBUFFORCE, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 32, 33, 35  # Python has no names for them
ECT_0 = 0x02  # RFC 3168, section 5
LATE_US = 4_000
"""How much later than due a packet may be on a machine that does other things."""


@contextlib.contextmanager
def udp(host: Host, family: Family = "ipv4") -> Iterator[socket.socket]:
    """Give a socket that is bound to the host's address."""
    with host.call(lambda: socket.socket(FAMILIES[family], socket.SOCK_DGRAM)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)  # a test counts what the link loses
        sock.settimeout(5)
        sock.bind((host.address(family), 0))
        yield sock


def rtt_us(net: EmulatedNetwork, a: str, b: str, family: Family = "ipv4") -> float:
    """Return the least time of ten packets to b and back."""
    with udp(net.hosts[a], family) as near, udp(net.hosts[b], family) as far:
        times_us = []
        for _ in range(10):
            sent_ns = time.monotonic_ns()
            near.sendto(b"ping", far.getsockname())
            data, peer = far.recvfrom(100)
            far.sendto(data, peer)
            near.recv(100)
            times_us.append((time.monotonic_ns() - sent_ns) / 1000)
    return min(times_us)


class Burst:
    """Numbered packets that were sent at once.

    Attributes:
        sent_ms: When the last one was sent, since the first [ms].
        numbers: Those that arrived, in that order.
        arrived_ms: When, since the first was sent [ms].
        last_arrived: Whether the empty one behind them did.
    """

    def __init__(
        self, net: EmulatedNetwork, a: str, b: str, packets: int, ip_bytes: int, *, ecn: bool = False
    ) -> None:
        """Send them from one host to another, and a last, empty one; see which arrive."""
        self.numbers: list[int] = []
        self.arrived_ms: list[float] = []
        self.last_arrived = False
        with udp(net.hosts[a]) as near, udp(net.hosts[b]) as far:
            far.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            near.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, ECT_0 if ecn else 0)
            goal = far.getsockname()
            start_s = time.time()
            for number in range(packets):
                near.sendto(struct.pack("=I", number).ljust(ip_bytes - IP_UDP_BYTES, b"."), goal)
            self.sent_ms = (time.time() - start_s) * 1000
            near.sendto(b"", goal)  # may be lost as any
            far.settimeout(0.3)
            with contextlib.suppress(TimeoutError):
                while (received := far.recvmsg(2000, 100))[0]:
                    data, ((_, _, stamp),), _, _ = received
                    seconds, nanoseconds = struct.unpack("=qq", stamp)
                    self.numbers.append(struct.unpack_from("=I", data)[0])
                    self.arrived_ms.append((seconds - start_s + nanoseconds / 1e9) * 1000)
                self.last_arrived = True


# --- delay -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_the_rtt_is_the_sum_of_the_delays(family: Family) -> None:
    topology = dumbbell(2, Direction(delay_us=10_000), access=[Direction(delay_us=1000), Direction()])
    with emulated(topology) as net:
        for pair, base_us in (("1", 22_000), ("2", 20_000)):
            assert net.base_rtt_us(f"s{pair}", f"r{pair}") == base_us
            assert base_us <= rtt_us(net, f"s{pair}", f"r{pair}", family) < base_us + LATE_US


def test_a_change_of_the_delay_holds_for_what_comes() -> None:
    with emulated(point_to_point(Direction(delay_us=2000))) as net:
        assert rtt_us(net, "sender", "receiver") < 4000 + LATE_US
        net.change("link>", delay_us=30_000)
        assert 32_000 <= rtt_us(net, "sender", "receiver") < 32_000 + LATE_US
        assert net.base_rtt_us("sender", "receiver") == 32_000
        net.set_link("link", Direction(delay_us=10_000))
        assert 20_000 <= rtt_us(net, "sender", "receiver") < 20_000 + LATE_US


def test_packets_take_the_way_that_is_set() -> None:
    topology = Topology(
        hosts=("a", "b"),
        routers=("x", "y"),
        links=(
            Link(name="in", a="a", b="x"),
            Link(name="near", a="x", b="y", forward=Direction(delay_us=1000)),
            Link(name="far", a="x", b="y", forward=Direction(delay_us=15_000)),
            Link(name="out", a="y", b="b"),
        ),
    )
    with emulated(topology) as net:
        assert 2000 <= rtt_us(net, "a", "b") < 2000 + LATE_US
        net.set_route(["a", "x", "far", "y", "b"])
        assert 30_000 <= rtt_us(net, "a", "b", "ipv6") < 30_000 + LATE_US
        net.set_route(["a", "x", "near", "y", "b"], both=False)
        assert 16_000 <= rtt_us(net, "a", "b") < 16_000 + LATE_US
        counted = net.stats()
        assert [counted[name].delivered_pkts for name in ("near>", "far>", "near<", "far<")] == [
            20,
            10,
            10,
            20,
        ]


@pytest.mark.parametrize(
    ("family", "level", "option", "kind"),
    [
        ("ipv4", socket.IPPROTO_IP, 12, socket.IP_TTL),  # IP_RECVTTL: Python has no name for it
        ("ipv6", socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, socket.IPV6_HOPLIMIT),
    ],
)
def test_routers_count_the_hops(family: Family, level: int, option: int, kind: int) -> None:
    with (
        emulated(parking_lot(3, Direction())) as net,
        udp(net.hosts["sender"], family) as near,
        udp(net.hosts["receiver"], family) as far,
    ):
        far.setsockopt(level, option, 1)
        near.sendto(b"x", far.getsockname())
        _, ancillary, _, _ = far.recvmsg(100, 100)
        ((got_level, got_kind, value),) = ancillary
        assert (got_level, got_kind) == (level, kind)
        assert struct.unpack("=i", value)[0] == 64 - 4


# --- rate and buffer ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "mtu_bytes"), [("ipv4", 1500), ("ipv6", 1500), ("ipv4", 9000)])
def test_tcp_gets_the_rate_less_its_headers(family: Family, mtu_bytes: int) -> None:
    headers_bytes = 32 + (20 if family == "ipv4" else 40)  # TCP with timestamps, and IP
    link = Direction(rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=2000, buffer=Buffer(bdp=4))
    with emulated(point_to_point(link, mtu_bytes=mtu_bytes)) as net:
        result = iperf3(
            net.hosts["sender"], net.hosts["receiver"], congestion="cubic", duration_s=2, family=family
        )
        stats = net.stats()["link>"]
    share = (mtu_bytes - headers_bytes) / mtu_bytes
    # What a busy machine takes from the rate, it takes from headers and payload alike.
    assert 0.85 < result.goodput_bytes_per_s / (RATE_BYTES_PER_S * share) < 1.02
    assert result.received_bytes / stats.delivered_bytes == pytest.approx(share, rel=0.02)
    assert stats.arrived_pkts is not None
    assert stats.arrived_pkts >= stats.delivered_pkts


def test_a_full_buffer_delays_by_its_size_over_the_rate() -> None:
    each_ms = 1.0  # of 1000 bytes at 1 MB/s
    link = Direction(rate_bytes_per_s=1e6, delay_us=3000, buffer=Buffer(packets=50))
    with emulated(point_to_point(link)) as net:
        burst = Burst(net, "sender", "receiver", 200, 1000)
        dropped = net.stats()["link>"].dropped_queue_pkts
    assert dropped == 201 - len(burst.numbers) - burst.last_arrived
    # the first is sent at once, 50 wait, and while the burst comes others leave
    assert 51 <= len(burst.numbers) <= 52 + burst.sent_ms / each_ms
    assert burst.numbers[:51] == list(range(51))
    assert burst.arrived_ms[50] - burst.arrived_ms[0] == pytest.approx(50 * each_ms, rel=0.05)
    assert burst.arrived_ms[50] >= 3 + 51 * each_ms


def test_a_change_of_the_rate_holds_for_a_running_flow() -> None:
    link = Direction(rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=2000, buffer=Buffer(bytes=200_000))
    with emulated(point_to_point(link)) as net:
        sender, receiver = net.hosts["sender"], net.hosts["receiver"]

        def measured_rate() -> float:
            before, since_s = net.stats()["link>"].delivered_bytes, time.monotonic()
            time.sleep(0.7)
            return (net.stats()["link>"].delivered_bytes - before) / (time.monotonic() - since_s)

        with start_iperf3(sender, receiver, congestion="cubic", duration_s=5):
            time.sleep(0.3)
            assert measured_rate() == pytest.approx(RATE_BYTES_PER_S, rel=0.05)
            net.change("link>", rate_bytes_per_s=RATE_BYTES_PER_S / 5)
            assert measured_rate() == pytest.approx(RATE_BYTES_PER_S / 5, rel=0.05)
            net.change("link>", rate_bytes_per_s=RATE_BYTES_PER_S)
            assert measured_rate() > RATE_BYTES_PER_S / 4
        direction = net.direction("link>")
        assert (direction.rate_bytes_per_s, direction.buffer) == (RATE_BYTES_PER_S, Buffer(bytes=200_000))


# --- loss and marks ----------------------------------------------------------------------------------------


def ce_received(host: Host) -> int:
    """Return how many packets with a CE mark the host has received."""
    text = host.call(lambda: Path("/proc/thread-self/net/netstat").read_text())
    names, values = (line.split()[1:] for line in text.splitlines() if line.startswith("IpExt:"))
    return int(dict(zip(names, values, strict=True))["InCEPkts"])


MARKING = Direction(
    rate_bytes_per_s=RATE_BYTES_PER_S,
    delay_us=2000,
    buffer=Buffer(packets=1000),
    queue=DropTail(ce_threshold_us=1000),
)


def test_each_mark_reaches_the_receiver() -> None:
    packets = 200
    with emulated(point_to_point(MARKING)) as net:
        arrived = Burst(net, "sender", "receiver", packets, 1500, ecn=True).numbers
        stats = net.stats()["link>"]
        received = ce_received(net.hosts["receiver"])
    assert len(arrived) == packets
    assert received == stats.marked_pkts
    assert received > packets / 2, "a queue of 1 ms holds eight of them"


# --- what is recorded --------------------------------------------------------------------------------------


def test_samples_and_packets_are_in_files(tmp_path: Path) -> None:
    samples, packets = tmp_path / "links.csv", tmp_path / "link.pcapng"
    link = Direction(rate_bytes_per_s=1e6, delay_us=1000, buffer=Buffer(packets=1000))
    with emulated(
        point_to_point(link), samples_path=samples, sample_interval_us=10_000, pcap={"link>": packets}
    ) as net:
        Burst(net, "sender", "receiver", 100, 1000)
    with samples.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["link"] == "link>"]
    assert tuple(rows[0]) == SAMPLE_COLUMNS
    assert len(rows) >= 10
    assert max(int(row["queue_bytes"]) for row in rows) > 10_000
    assert max(int(row["sojourn_max_us"]) for row in rows) > 10_000
    assert packets.read_bytes().startswith(b"\x0a\x0d\x0d\x0a")  # section header block of pcapng
    assert packets.read_bytes().count(b"." * 900) >= int(rows[-1]["delivered_pkts"]) - 1


def test_hosts_are_silent_by_themselves_and_packets_to_none_are_counted() -> None:
    with emulated(dumbbell(1, Direction())) as net:
        with udp(net.hosts["s1"]) as sock:
            sock.sendto(b"x", ("192.0.2.1", 9))
        stats = net.emulator_stats()
        assert stats is not None
        assert stats.unroutable_pkts == 1
        assert {counted.arrived_pkts for counted in net.stats().values()} == {0}


def test_what_is_lost_before_the_first_link_is_counted() -> None:
    with emulated(point_to_point(Direction())) as net:
        receiver = net.hosts["receiver"]
        inside = namespace.processes_inside(set(net.lab.namespaces))
        (emulator,) = [pid for name, pids in inside.items() if name.endswith("emulator") for pid in pids]
        os.kill(emulator, signal.SIGSTOP)
        with udp(net.hosts["sender"]) as sock:
            sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 64 << 20)
            for _ in range(tun.QUEUE_PKTS + 500):
                sock.sendto(b"x", (receiver.ipv4, 9))
        os.kill(emulator, signal.SIGCONT)
        stats = net.emulator_stats()
        assert stats is not None
        assert stats.untaken_pkts == pytest.approx(500, abs=10)
        rest, deadline_s = tun.QUEUE_PKTS + 500 - stats.untaken_pkts, time.monotonic() + 10
        while net.stats()["link>"].arrived_pkts != rest and time.monotonic() < deadline_s:
            time.sleep(0.01)
        assert net.stats()["link>"].arrived_pkts == rest


def test_what_the_emulator_would_refuse_is_refused_before() -> None:
    with emulated(point_to_point(Direction(rate_bytes_per_s=1e6))) as net:
        with pytest.raises(LabError) as caught:
            net.change("link>", loss={"kind": "bernoulli", "ratio": 3})
        assert caught.value.where == "link>.loss.ratio"
        with pytest.raises(LabError) as caught:
            net.direction("link")
        assert caught.value.where == "link"
        assert net.direction("link>").loss is None
