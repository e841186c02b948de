"""Real packets with telemetry over emulated links: of the right size, whole, and with what nodes said."""

from __future__ import annotations

import socket
from collections import Counter
from dataclasses import dataclass

import msgspec
import pytest

from experiments.netlab import Host
from experiments.netlab.emulated import emulated
from experiments.netlab.inband import overhead_bytes
from experiments.netlab.linkstats import LinkStats
from experiments.netlab.spec import Buffer
from telemetry.ioam import CaptureReader, EdgeToEdge, Record, Trace
from telemetry.schema import IntSummary
from tests.kernel.driving import wait_until
from tests.kernel.inband import WIRED, chain, send

pytestmark = pytest.mark.kernel(struct_ops=False)

SENT_BYTES = 1_000_000
MTU_BYTES = 1500
IPV6_UDP_BYTES = 48
TCP = 6
TROUBLES = ("Ip6FragCreates", "Ip6FragFails", "Ip6ReasmReqds", "Ip6InTooBigErrors", "Icmp6InPktTooBigs")
"""What a kernel counts when packets are too large (/proc/net/snmp6)."""


@dataclass(frozen=True)
class Transfer:
    """What a transfer left, and the largest datagram that there is, sent and echoed.

    Attributes:
        mtu_bytes: Of the hosts' devices [bytes].
        datagram: As it came back.
        summaries: What the sinks said.
        stats: What became of packets on the links.
        packets: By direction of a link, those that carried telemetry.
        other_pkts: By direction of a link, how many did not.
        trouble: What the hosts counted of packets that were too large.
    """

    mtu_bytes: int
    datagram: bytes
    summaries: list[IntSummary]
    stats: dict[str, LinkStats]
    packets: dict[str, list[Record]]
    other_pkts: dict[str, int]
    trouble: Counter[str]


@pytest.fixture(scope="module")
def transfer(tmp_path_factory: pytest.TempPathFactory) -> Transfer:
    folder = tmp_path_factory.mktemp("inband")
    files = {name: folder / f"{name}.pcapng" for name in ("near>", "far>", "far<", "near<")}
    wired = msgspec.structs.replace(WIRED, buffer=Buffer(packets=2000))  # more than is sent
    with emulated(chain(wired=wired), pcap=files) as net:
        sta1, sta2 = net.hosts["sta1"], net.hosts["sta2"]
        mtu_bytes = sta1.interfaces[0].mtu_bytes
        datagram = echo(sta1, sta2, bytes(mtu_bytes - IPV6_UDP_BYTES))
        send(net, SENT_BYTES)
        trouble = counted(sta1) + counted(sta2)
        stats, summaries = net.stats(), list[IntSummary]()

        def all_reported() -> bool:
            summaries.extend(net.summaries())
            reported_pkts = sum(one.received_pkts or 0 for one in summaries)
            return reported_pkts == stats["far>"].delivered_pkts + stats["near<"].delivered_pkts

        wait_until(all_reported)
    readers = {name: CaptureReader(file) for name, file in files.items()}
    packets = {name: list(reader) for name, reader in readers.items()}
    others = {name: reader.summary().packets - len(packets[name]) for name, reader in readers.items()}
    return Transfer(mtu_bytes, datagram, summaries, stats, packets, others, trouble)


def echo(near: Host, far: Host, datagram: bytes) -> bytes:
    """Send a datagram there and back; return what came."""
    kind = socket.AF_INET6, socket.SOCK_DGRAM
    with near.call(lambda: socket.socket(*kind)) as own, far.call(lambda: socket.socket(*kind)) as other:
        for sock, host in ((own, near), (other, far)):
            sock.bind((host.ipv6, 0))
            sock.settimeout(10)
        own.sendto(datagram, other.getsockname())
        received, peer = other.recvfrom(65_536)
        other.sendto(received, peer)
        return own.recv(65_536)


def counted(host: Host) -> Counter[str]:
    """Return how often a host's kernel met a packet that was too large, by what it did."""
    lines = host.run(["cat", "/proc/self/net/snmp6"]).stdout.splitlines()
    found = {name: int(count) for name, count in (line.split() for line in lines)}
    return Counter({name: found[name] for name in TROUBLES})


def test_packets_fill_the_mtu_with_their_headers(transfer: Transfer) -> None:
    telemetry = chain().telemetry
    assert transfer.mtu_bytes == MTU_BYTES - overhead_bytes(telemetry, chain().hosts)
    for name in ("near>", "far>"):
        assert max(record.bytes for record in transfer.packets[name]) == MTU_BYTES


def test_nothing_is_cut_in_pieces_or_dropped_for_its_size(transfer: Transfer) -> None:
    assert transfer.trouble.total() == 0
    assert transfer.datagram == bytes(transfer.mtu_bytes - IPV6_UDP_BYTES)
    for first, last in (("near>", "far>"), ("far<", "near<")):
        assert len(transfer.packets[first]) == len(transfer.packets[last]) > 0
        assert transfer.other_pkts[first] == transfer.other_pkts[last] == 0
    for name, stats in transfer.stats.items():
        dropped = (stats.dropped_queue_pkts, stats.dropped_loss_pkts, stats.dropped_aqm_pkts)
        assert dropped == (0, 0, 0), name


def test_packets_are_numbered_and_say_which_nodes_they_met(transfer: Transfer) -> None:
    sequences: dict[tuple[int | None, ...], list[int | None]] = {}
    for record in transfer.packets["far>"]:
        options = [placed.option for placed in record.options]
        (trace,) = [one for one in options if isinstance(one, Trace)]
        assert [node.node_id for node in trace.nodes] == [2, 3]
        (edge,) = [one for one in options if isinstance(one, EdgeToEdge)]
        sequences.setdefault((record.flow.protocol, record.flow.src_port), []).append(edge.sequence)
    for numbers in sequences.values():
        assert numbers == list(range(len(numbers)))


def test_sinks_sum_up_what_came_and_what_it_met(transfer: Transfer) -> None:
    data = [one for one in transfer.summaries if one.flow.src == "fd78::1" and one.flow.protocol == "tcp"]
    received = sum(one.received_pkts or 0 for one in data)
    assert received == sum(record.flow.protocol == TCP for record in transfer.packets["far>"])
    assert {one.lost_pkts for one in data} == {0}
    for one in data:
        assert [hop.node_id for hop in one.hops] == [2, 3]
        assert (one.hops[1].rssi_dbm, one.hops[1].mcs) == (-60.5, 7)
        assert one.hops[0].rssi_dbm is None
        assert one.hops[0].flow_count
        assert one.latency_us is not None
        assert one.latency_us >= 5_000
    # The bottleneck's queue grows as far as its own counters say, the others' do not.
    assert max(one.hops[0].queue_depth_pkts or 0 for one in data) > 10
    assert max(one.hops[1].queue_depth_pkts or 0 for one in data) == 0
    assert any(one.cwnd_bytes for one in data)
