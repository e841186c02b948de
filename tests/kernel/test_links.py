"""Links that reorder, thin ACKs or encapsulate, as the kernel's own counters see them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from experiments.netlab import Host, iperf3
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.spec import Buffer, Direction, Family, Reorder, Tunnel
from experiments.netlab.topologies import point_to_point
from tests.kernel import probes

pytestmark = pytest.mark.kernel(struct_ops=False)

BACK = Direction(delay_us=10_000)
PATH = Direction(rate_bytes_per_s=2.5e6, delay_us=10_000, buffer=Buffer(packets=200))
VPN = Tunnel(overhead_bytes=80, mtu_bytes=1420)
PAYLOAD_BYTES = {"ipv4": 1368, "ipv6": 1348}
"""Of a packet of 1,420 bytes: without IP and TCP headers, and timestamps."""


def netstat(host: Host) -> dict[str, int]:
    """Return the `TcpExt` and `IpExt` counters of a host's kernel."""
    rows = [line.split() for line in host.run(["cat", "/proc/net/netstat"]).stdout.splitlines()]
    return {
        name: int(value)
        for names, values in zip(rows[::2], rows[1::2], strict=True)
        for name, value in zip(names[1:], values[1:], strict=True)
    }


def too_big_reports(host: Host, family: Family) -> int:
    """Return the number of ICMP reports about packets that were too large."""
    if family == "ipv6":
        lines = host.run(["cat", "/proc/net/snmp6"]).stdout.splitlines()
        return int(dict(line.split() for line in lines)["Icmp6InPktTooBigs"])
    rows = [line.split() for line in host.run(["cat", "/proc/net/snmp"]).stdout.splitlines()]
    names, values = (row for row in rows if row[0] == "Icmp:")
    return int(values[names.index("InDestUnreachs")])


def sent(net: EmulatedNetwork, seconds: float = 3, family: Family = "ipv4") -> float:
    """Send by CUBIC; return the goodput [Mbit/s]."""
    ends = net.hosts["sender"], net.hosts["receiver"]
    return iperf3(*ends, congestion="cubic", duration_s=seconds, family=family).goodput_bit_per_s / 1e6


def test_packets_are_overtaken_and_tcp_notices() -> None:
    late = Direction(
        rate_bytes_per_s=2.5e6,
        delay_us=10_000,
        buffer=Buffer(packets=1000),
        reorder=Reorder(ratio=0.05, late_us=15_000),
    )
    with emulated(point_to_point(late, BACK)) as net:
        sent(net)
        link = net.stats()["link>"]
        sender, receiver = netstat(net.hosts["sender"]), netstat(net.hosts["receiver"])
    assert link.late_pkts == pytest.approx(0.05 * link.delivered_pkts, rel=0.35)
    assert link.dropped_queue_pkts == 0
    # Of every late packet, some ten later ones arrive earlier, and wait.
    assert receiver["TCPOFOQueue"] > 3 * link.late_pkts
    assert sender["TCPSACKReorder"] + sender["TCPTSReorder"] > 0
    # Linux first takes late packets for lost, sends them again, and takes the reduction back.
    assert receiver["TCPDSACKOldSent"] + receiver["TCPDSACKOfoSent"] > 0
    assert sender["TCPDSACKRecv"] + sender["TCPDSACKOfoRecv"] > 0
    assert sender["TCPFullUndo"] + sender["TCPPartialUndo"] + sender["TCPDSACKUndo"] > 0


def test_the_share_of_overtaken_datagrams_is_that_of_the_link() -> None:
    late = Direction(
        rate_bytes_per_s=2.5e6,
        delay_us=1_000,
        buffer=Buffer(packets=1000),
        reorder=Reorder(ratio=0.1, late_us=5_000),
    )
    with (
        emulated(point_to_point(late)) as net,
        probes.socket_pair(net.hosts["sender"], net.hosts["receiver"]) as (near, far),
    ):
        probes.send_train(near, 800, 500, at_once=20)
        numbers = [one.number for one in probes.arrivals(far)]
        link = net.stats()["link>"]
    assert sorted(numbers) == list(range(800))
    highest, overtaken = -1, 0
    for number in numbers:  # RFC 4737, section 3.3
        overtaken += number < highest
        highest = max(highest, number)
    # n p = 80, four standard deviations are 34. Late packets at the end of the train are not overtaken.
    assert 46 <= link.late_pkts <= 114
    assert link.late_pkts - 8 <= overtaken <= link.late_pkts


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_thinned_acks_carry_a_fast_flow_over_a_slow_way_back(family: Family) -> None:
    whole = replace(PATH, buffer=Buffer(packets=10_000))  # no loss, so no ACK has SACK ranges
    goodput_mbit = {}
    for thins in (False, True):
        back = Direction(
            rate_bytes_per_s=15_000, delay_us=10_000, buffer=Buffer(packets=50), ack_filter=thins
        )
        with emulated(point_to_point(whole, back)) as net:
            goodput_mbit[thins] = sent(net, 5, family)
            link = net.stats()["link<"]
        assert (link.dropped_ack_pkts > 100) == thins
    assert goodput_mbit[True] > 0.9 * goodput_mbit[False]


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_hosts_discover_the_mtu_of_a_tunnel(family: Family) -> None:
    with emulated(point_to_point(replace(PATH, tunnel=VPN), BACK)) as net:
        goodput_mbit = sent(net, family=family)
        link = net.stats()["link>"]
        reports = too_big_reports(net.hosts["sender"], family)
    assert 0 < link.dropped_mtu_pkts <= 20  # an initial window of each of iperf3's connections
    assert reports == link.dropped_mtu_pkts
    # 20 Mbit/s, of which each 1,500 bytes carry a packet of 1,420.
    assert 0.9 < goodput_mbit / (20 * PAYLOAD_BYTES[family] / 1500) <= 1.01


def test_a_silent_tunnel_is_a_black_hole() -> None:
    silent = Tunnel(overhead_bytes=80, mtu_bytes=1420, reports=False)
    with emulated(point_to_point(replace(PATH, tunnel=silent), BACK)) as net:
        with probes.socket_pair(net.hosts["sender"], net.hosts["receiver"]) as (near, far):
            probes.send_train(near, 5, 1420, at_once=1)
            probes.send_train(near, 5, 1421, at_once=1)
            arrived = len(probes.arrivals(far))
        link = net.stats()["link>"]
    assert (arrived, link.dropped_mtu_pkts, link.delivered_bytes) == (5, 5, 5 * 1500)
