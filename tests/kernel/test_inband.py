"""Nodes of in-band telemetry on real interfaces: source, Linux' own IOAM node, transit with a queue, sink."""

from __future__ import annotations

import contextlib
import ipaddress
import math
import re
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from experiments.netlab import Host, Lab, iperf3
from experiments.netlab.topology import Shaper
from telemetry.inband.node import InterfaceNode, NodeSpec, SinkOptions, SourceOptions
from telemetry.inband.nodes import NodeInfo, NodeTable
from telemetry.ioam import EdgeToEdge, Node, State, TcpState, Trace, arrival_ns, decode
from telemetry.schema import IntSummary
from tests.kernel.driving import wait_until
from tests.kernel.inband_hosts import (
    FRAME_BYTES,
    LAB,
    Summaries,
    captured,
    datagrams,
    drained,
    in_a_row,
    node_on,
    shaped,
)

pytestmark = [pytest.mark.kernel(struct_ops=False), pytest.mark.usefixtures("one_processor")]

PORT = 5000
SOURCE, LINUX, TRANSIT, SINK = 1, 2, 3, 4
OVERHEAD_BYTES = 216
NO_LIMIT_PKTS = (1 << 32) - 2
TCP_INFO_CWND_AT, TCP_INFO_MSS_AT = 80, 16
RATE_TIME_NS = re.search(r"RATE_TIME_NS: u64 = ([0-9_]+)", Path("native/ccp-int/src/meter.rs").read_text())
RATE_TIME_S = int(RATE_TIME_NS[1]) / 1e9 if RATE_TIME_NS else math.nan
"""Of the native part, which does not tell it."""


@dataclass(frozen=True)
class Chain:
    """source -- linux -- transit -- sink; the transit's queue towards the sink is a token bucket."""

    source: Host
    linux: Host
    transit: Host
    sink: Host

    @contextlib.contextmanager
    def nodes(
        self,
        every_pkts: int = 1,
        records: Path | None = None,
        table: NodeTable | None = None,
        trusted: ipaddress.IPv6Network | None = LAB,
    ) -> Iterator[Running]:
        """Be source (and transit), transit and sink."""
        source = NodeSpec(
            roles=("source", "transit"), node_id=SOURCE, source=SourceOptions(every_pkts=every_pkts)
        )
        sink = NodeSpec(roles=("sink",), node_id=SINK, trusted=trusted, sink=SinkOptions(nodes=table or {}))
        with (
            contextlib.closing(Summaries()) as summaries,
            node_on(self.sink, "eth0", sink, summaries.fd, records) as last,
            node_on(
                self.transit, "eth1", NodeSpec(roles=("transit",), node_id=TRANSIT), summaries.fd
            ) as middle,
            node_on(self.source, "eth0", source, summaries.fd) as first,
        ):
            running = Running(summaries, first, middle, last)
            yield running


@dataclass(frozen=True)
class Running:
    summaries: Summaries
    source: InterfaceNode
    transit: InterfaceNode
    sink: InterfaceNode

    def decoded(self) -> list[IntSummary]:
        """All summaries, once the nodes are gone."""
        return [msgspec.json.decode(line, type=IntSummary) for line in self.summaries.lines]


@pytest.fixture(scope="module")
def chain() -> Iterator[Chain]:
    with Lab() as lab:
        source, sink = lab.add_host("source"), lab.add_host("sink")
        linux, transit = lab.add_host("linux", forwards=True), lab.add_host("transit", forwards=True)
        in_a_row(lab, source, linux, transit, sink)
        linux.set_sysctl("net.ipv6.ioam6_id", LINUX)
        linux.set_sysctl("net.ipv6.conf.eth0.ioam6_enabled", 1)
        linux.run(["ip", "ioam", "namespace", "add", "0"])
        yield Chain(source, linux, transit, sink)


def telemetry_in(packet: bytes) -> tuple[Trace, EdgeToEdge, TcpState]:
    decoded = decode(packet)
    assert decoded.errors == ()
    trace, state, edge = (found.option for found in decoded.options)
    assert isinstance(trace, Trace)
    assert isinstance(edge, EdgeToEdge)
    assert isinstance(state, TcpState)
    return trace, edge, state


def of_flow(capture: socket.socket, packets: int, port: int = PORT) -> list[bytes]:
    """Receive so many packets to the port that have telemetry, as they are in front of the sink."""
    found: list[bytes] = []
    while len(found) < packets:
        packet = capture.recv(2000)
        if packet[0] >> 4 == 6 and packet[6] == 0 and decode(packet).flow.dst_port == port:
            found.append(packet)
    return found


def index_of(host: Host, interface: str) -> int:
    return host.call(lambda: socket.if_nametoindex(interface))


def free_pkts(shaper: Shaper, waiting_bytes: int) -> int:
    return (shaper.buffer_bytes - waiting_bytes) // FRAME_BYTES


def test_each_node_says_what_it_found_and_the_sink_gives_the_packet_on_as_it_was(chain: Chain) -> None:
    with (
        shaped(chain.transit, 1e6, 30_000) as shaper,
        captured(chain.sink) as capture,
        datagrams(chain.source, chain.sink, PORT) as (near, far),
        chain.nodes() as running,
    ):
        before_us = time.time_ns() // 1000
        near.send(b"payload")
        assert far.recv(100) == b"payload"
        after_us = time.time_ns() // 1000
        (packet,) = of_flow(capture, 1)
    trace, edge, state = telemetry_in(packet)
    times_us = [edge.timestamp_s * 1_000_000 + edge.timestamp_fraction]
    times_us += [(arrival_ns(node, "posix") or 0) // 1000 for node in trace.nodes]
    # The programs' clock is compared with the wall clock from time to time, Linux' is a coarse one at times.
    assert times_us[0] <= times_us[1] <= times_us[3]
    assert before_us - 1000 <= times_us[0] <= times_us[3] <= after_us + 1000
    assert (edge.sequence, state) == (0, TcpState())

    def own(
        at: int,
        node_id: int,
        host: Host,
        interfaces: tuple[str | None, str],
        free: int,
        rate_bytes_per_s: int | None,
    ) -> Node:
        ingress, egress = interfaces
        said = trace.nodes[at].snapshot
        assert isinstance(said, State)
        rate = said.arrival_pkts_per_s or 0  # nobody else sends much here
        assert round(1 / RATE_TIME_S) <= rate < 5 / RATE_TIME_S
        return Node(
            hop_limit=64 - at,
            node_id=node_id,
            ingress_if=None if ingress is None else index_of(host, ingress),
            egress_if=index_of(host, egress),
            timestamp_s=times_us[at + 1] // 1_000_000,
            timestamp_fraction=times_us[at + 1] % 1_000_000,
            queue_depth=0,
            snapshot=State(
                queue_free_pkts=free,
                arrival_pkts_per_s=rate,
                flow_count=1,
                link_rate_bytes_per_s=rate_bytes_per_s,
                flow_missing_pkts=0,
                flow_dropped_pkts=0,
            ),
        )

    assert trace.nodes == (
        own(0, SOURCE, chain.source, (None, "eth0"), NO_LIMIT_PKTS, None),
        Node(
            hop_limit=63,
            node_id=LINUX,
            timestamp_s=times_us[2] // 1_000_000,
            timestamp_fraction=times_us[2] % 1_000_000,
            queue_depth=0,
        ),
        own(2, TRANSIT, chain.transit, ("eth0", "eth1"), free_pkts(shaper, 0), 1_000_000),
    )
    (summary,) = running.decoded()
    assert (summary.received_pkts, summary.lost_pkts, summary.flow.dst_port) == (1, 0, PORT)
    assert [hop.node_id for hop in summary.hops] == [SOURCE, LINUX, TRANSIT]
    # Of Linux' depth nobody said in what it is.
    assert summary.hops[1].queue_depth_pkts is None
    assert summary.hops[1].queue_depth_bytes is None


@pytest.mark.parametrize("trusted", [None, ipaddress.IPv6Network("2001:db8::/32")])
def test_what_a_stranger_wrote_is_taken_off_unread(
    chain: Chain, trusted: ipaddress.IPv6Network | None
) -> None:
    with datagrams(chain.source, chain.sink, PORT) as (near, far), chain.nodes(trusted=trusted) as running:
        near.send(b"payload")
        assert far.recv(100) == b"payload"
    counters = running.sink.counters()
    assert (counters.foreign, counters.removed) == (1, 1)
    assert running.decoded() == []


@pytest.mark.emulated("the bucket fills again while a slow processor sends the burst")
def test_depth_room_rate_and_losses_of_a_queue_are_exact(chain: Chain) -> None:
    """Twenty datagrams at once into a bucket that passes a few, and a queue with room for seven."""
    payload = bytes(800)
    length = len(payload) + 8 + 40 + OVERHEAD_BYTES + 14
    with (
        shaped(chain.transit, 12_000, 8000) as shaper,
        captured(chain.sink) as capture,
        datagrams(chain.source, chain.sink, PORT) as (near, far),
        chain.nodes() as running,
    ):
        for _ in range(20):
            near.send(payload)
        wait_until(lambda: running.transit.counters().filled == 20 and not shaper.stats().backlog_pkts)
        dropped = shaper.stats().dropped_pkts
        near.send(b"last")
        for _ in range(21 - dropped):
            far.recv(1000)
        packets = [telemetry_in(packet) for packet in of_flow(capture, 21 - dropped)]
        assert running.transit.counters().filled == running.source.counters().inserted == 21
    assert dropped > 0
    *burst, (last_trace, last, _) = packets
    reported = last_trace.nodes[2].snapshot
    assert isinstance(reported, State)
    assert (reported.flow_missing_pkts, reported.flow_dropped_pkts) == (0, dropped)
    sequences = [edge.sequence for _, edge, _ in burst]
    found = [trace.nodes[2] for trace, _, _ in burst]
    states = [node.snapshot for node in found if isinstance(node.snapshot, State)]
    depths = [node.queue_depth or 0 for node in found]
    buffered = 8000 // length
    assert (sequences, last.sequence) == (list(range(20 - dropped)), 20)
    waiting_bytes = [0] * (20 - dropped - buffered) + [n * length for n in range(buffered)]
    assert depths == [-(-waiting // FRAME_BYTES) for waiting in waiting_bytes]
    assert [one.queue_free_pkts for one in states] == [free_pkts(shaper, one) for one in waiting_bytes]
    # Each arrival adds 1 / T to a mean that falls as exp(-t/T); others may have come before.
    times_s = [(arrival_ns(node, "posix") or 0) / 1e9 for node in found]
    rates = [one.arrival_pkts_per_s or 0 for one in states]
    for before, after in pairwise(zip(times_s, rates, strict=True)):
        faded = before[1] * math.exp((before[0] - after[0]) / RATE_TIME_S)
        assert after[1] == pytest.approx(faded + 1 / RATE_TIME_S, rel=0.01, abs=1)  # rounded
    summaries = running.decoded()
    assert sum(one.received_pkts or 0 for one in summaries) == 21 - dropped
    assert sum(one.lost_pkts or 0 for one in summaries) == dropped
    # Linux' node counts nothing; what the transit node counted of its own queue is known all the same.
    assert sum(one.lost_congestion_pkts or 0 for one in summaries) == dropped
    at_transit = [hop.lost_congestion_pkts for one in summaries for hop in one.hops if hop.node_id == TRANSIT]
    assert sum(at_transit) == dropped
    assert all(one.lost_link_pkts in (0, None) and one.lost_unknown_pkts in (0, None) for one in summaries)


def test_one_in_n_carries_telemetry_and_all_are_counted(chain: Chain, tmp_path: Path) -> None:
    records = tmp_path / "records.csv"
    with (
        captured(chain.sink) as capture,
        datagrams(chain.source, chain.sink, PORT) as (near, far),
        chain.nodes(4, records, {LINUX: NodeInfo(queue_depth_unit="bytes")}) as running,
    ):
        for _ in range(10):
            near.send(b"payload")
            far.recv(100)
        packets = [telemetry_in(packet) for packet in of_flow(capture, 3)]
        near.send(b"eleventh")
        far.recv(100)
    assert [edge.sequence for _, edge, _ in packets] == [0, 4, 8]
    assert running.source.counters().inserted == running.sink.counters().removed == 3
    summaries = running.decoded()
    assert sum(one.received_pkts or 0 for one in summaries) == 11
    assert sum(one.lost_pkts or 0 for one in summaries) == 0
    of_linux = [hop for summary in summaries for hop in summary.hops if hop.node_id == LINUX]
    assert of_linux
    assert all(hop.queue_depth_bytes is not None and hop.queue_depth_pkts is None for hop in of_linux)
    header, *rows = records.read_text().splitlines()
    columns = dict(zip(header.split(","), zip(*(row.split(",") for row in rows), strict=True), strict=True))
    assert columns["sequence"] == tuple(str(number) for number in (0, 0, 0, 4, 4, 4, 8, 8, 8))
    assert columns["node_id"] == tuple(str(node) for node in (SOURCE, LINUX, TRANSIT)) * 3
    assert set(columns["len_bytes"]) == {str(len(b"payload") + 8 + 40)}


def test_packets_carry_the_window_of_the_socket_that_sent_them(chain: Chain) -> None:
    with captured(chain.sink) as capture, chain.sink.tcp_socket("ipv6") as listener, chain.nodes():
        listener.bind(("::", PORT + 1))
        listener.listen()
        with chain.source.tcp_socket("ipv6") as client:
            client.connect((chain.sink.ipv6, PORT + 1))
            info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
            client.send(b"segment")
            server, _ = listener.accept()
            with server:
                assert server.recv(100) == b"segment"
            # The SYN has a window, too, of a segment size that nobody agreed to yet.
            _, _, segment = of_flow(capture, 3, PORT + 1)
    mss_bytes, cwnd_pkts = (
        struct.unpack_from("I", info, at)[0] for at in (TCP_INFO_MSS_AT, TCP_INFO_CWND_AT)
    )
    _, _, state = telemetry_in(segment)
    assert state == TcpState(cwnd_bytes=cwnd_pkts * mss_bytes, mss_bytes=mss_bytes)


def test_tcp_fills_the_mtu_and_no_packet_is_lost_but_by_the_queue(chain: Chain) -> None:
    with (
        shaped(chain.transit, 2.5e6, 40_000) as shaper,
        captured(chain.sink) as capture,
        chain.nodes() as running,
    ):
        result = iperf3(chain.source, chain.sink, congestion="cubic", total_bytes=2_000_000, family="ipv6")
        wait_until(lambda: not shaper.stats().backlog_pkts)
        dropped = shaper.stats().dropped_pkts
        packets = drained(capture, chain.source)
        inserted, removed = running.source.counters().inserted, running.sink.counters().removed
    assert max(len(packet) for packet in packets) == 1500  # with headers, and the MTU of all links
    assert {packet[6] for packet in packets} == {0}  # none without
    assert result.retransmits_pkts  # as iperf3 read it: what is dropped of its last window comes later
    assert inserted - removed == dropped > 0
    summaries = running.decoded()
    assert sum(one.received_pkts or 0 for one in summaries) == removed
    assert sum(one.lost_pkts or 0 for one in summaries) == dropped
