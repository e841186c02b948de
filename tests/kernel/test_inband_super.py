"""Super-packets with telemetry: one header each, of which the kernel's segmentation makes copies."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from experiments.netlab import Host, Lab
from telemetry.inband.node import InterfaceNode, NodeSpec, SourceOptions
from telemetry.inband.records import read_csv
from telemetry.ioam import EdgeToEdge, TcpState, Trace, decode
from telemetry.schema import IntSummary
from tests.kernel.driving import wait_until
from tests.kernel.inband_hosts import (
    LAB,
    WAIT_S,
    Summaries,
    captured,
    in_a_row,
    node_on,
    packet_by_packet,
    shaped,
)

pytestmark = [pytest.mark.kernel(struct_ops=False), pytest.mark.usefixtures("one_processor")]

MTU_BYTES = 1500
PORT = 5000
SOURCE, MIDDLE = 1, 2
WHOLE = SourceOptions()
DATA = bytes(range(256)) * 8000
"""Two megabytes."""


@dataclass(frozen=True)
class Line:
    """source -- cutter -- dropper -- sink. What leaves the cutter is cut where a test says so."""

    source: Host
    cutter: Host
    dropper: Host
    sink: Host

    @contextlib.contextmanager
    def nodes(self, source: SourceOptions = WHOLE, records: Path | None = None) -> Iterator[Running]:
        """Be source and transit, transit at the cutter, and sink."""
        first = NodeSpec(roles=("source", "transit"), node_id=SOURCE, source=source)
        middle = NodeSpec(roles=("transit",), node_id=MIDDLE)
        with (
            contextlib.closing(Summaries()) as summaries,
            node_on(self.sink, "eth0", NodeSpec(roles=("sink",), trusted=LAB), summaries.fd, records) as last,
            node_on(self.cutter, "eth1", middle, summaries.fd) as transit,
            node_on(self.source, "eth0", first, summaries.fd) as begin,
        ):
            yield Running(summaries, begin, transit, last)

    def send(self, data: bytes = DATA) -> int:
        """Send it over a connection of its own, and check that it came; return the sender's port."""
        with self.sink.tcp_socket("ipv6") as listener, self.source.tcp_socket("ipv6", "cubic") as client:
            listener.bind(("::", PORT))
            listener.listen()
            client.settimeout(WAIT_S)
            client.connect((self.sink.ipv6, PORT))
            port = int(client.getsockname()[1])
            taken, _ = listener.accept()
            with taken:
                taken.settimeout(WAIT_S)
                sending = threading.Thread(target=_send, args=(client, data))
                sending.start()
                came = hashlib.sha256()
                while piece := taken.recv(1 << 16):
                    came.update(piece)
                sending.join()
                assert came.digest() == hashlib.sha256(data).digest()
            assert client.recv(1) == b""
        return port


def _send(client: socket.socket, data: bytes) -> None:
    client.sendall(data)
    client.shutdown(socket.SHUT_WR)


@dataclass(frozen=True)
class Running:
    summaries: Summaries
    source: InterfaceNode
    middle: InterfaceNode
    sink: InterfaceNode

    def decoded(self) -> list[IntSummary]:
        """All summaries, once the nodes are gone."""
        return [msgspec.json.decode(line, type=IntSummary) for line in self.summaries.lines]


@pytest.fixture(scope="module")
def line() -> Iterator[Line]:
    with Lab() as lab:
        source, sink = lab.add_host("source"), lab.add_host("sink")
        cutter, dropper = (lab.add_host(name, forwards=True) for name in ("cutter", "dropper"))
        in_a_row(lab, source, cutter, dropper, sink)
        yield Line(source, cutter, dropper, sink)


@dataclass(frozen=True)
class Segment:
    """A packet of TCP with telemetry, as it was captured."""

    packet_bytes: int
    number: int
    header: bytes
    first_sequence: int | None
    segment_bytes: int
    tcp_sequence: int
    payload_bytes: int
    nodes: tuple[int | None, ...]

    @property
    def own_number(self) -> int:
        if self.first_sequence is None:
            return self.number
        return self.number + (self.tcp_sequence - self.first_sequence) % (1 << 16) // self.segment_bytes


def segment_of(packet: bytes) -> Segment:
    decoded = decode(packet)
    assert decoded.errors == ()
    by_kind = {type(found.option): found.option for found in decoded.options}
    trace, edge, tcp = by_kind[Trace], by_kind[EdgeToEdge], by_kind[TcpState]
    assert isinstance(trace, Trace)
    assert isinstance(edge, EdgeToEdge)
    assert isinstance(tcp, TcpState)
    at = 40
    for _ in range(2):  # Hop-by-Hop Options, Destination Options
        at += (packet[at + 1] + 1) * 8
    payload_bytes = int.from_bytes(packet[4:6]) + 40 - at - (packet[at + 12] >> 4) * 4
    return Segment(
        packet_bytes=int.from_bytes(packet[4:6]) + 40,
        number=edge.sequence or 0,
        header=packet[40:at],
        first_sequence=tcp.first_sequence,
        segment_bytes=tcp.mss_bytes or 0,
        tcp_sequence=int.from_bytes(packet[at + 4 : at + 8]),
        payload_bytes=payload_bytes,
        nodes=tuple(node.node_id for node in trace.nodes),
    )


def of_flow(capture: socket.socket, port: int) -> list[Segment]:
    """Return all packets of the connection that a capture holds."""
    found = []
    capture.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            packet = capture.recv(1 << 17)
            if packet[0] >> 4 == 6 and decode(packet).flow.src_port == port:
                found.append(segment_of(packet))
    return found


def test_super_packets_have_one_header_which_the_sink_takes_out(line: Line, tmp_path: Path) -> None:
    records = tmp_path / "records.csv"
    with captured(line.sink) as capture, line.nodes(records=records) as running:
        port = line.send()
        wait_until(lambda: running.sink.counters().removed == running.source.counters().inserted)
        packets = of_flow(capture, port)
        counters = running.source.counters(), running.middle.counters(), running.sink.counters()
    assert max(packet.packet_bytes for packet in packets) > 20_000
    assert all(packet.nodes == (SOURCE, MIDDLE) for packet in packets)
    pkts = sum(
        max(1, -(-packet.payload_bytes // packet.segment_bytes)) for packet in packets if packet.segment_bytes
    )
    source, middle, sink = counters
    assert (source.merged, source.too_long, sink.not_removed, sink.ring_full) == (0, 0, 0, 0)
    assert source.inserted == middle.filled == sink.removed == pkts
    summaries = running.decoded()
    assert sum(one.received_pkts or 0 for one in summaries) == pkts
    assert sum(one.lost_pkts or 0 for one in summaries) == 0
    rows = read_csv(records)
    assert rows["len_bytes"].max() > 20_000
    assert sorted(set(rows["sequence"])) == sorted(packet.number for packet in packets)


def test_segments_have_copies_of_the_header_and_numbers_of_their_own(line: Line) -> None:
    with packet_by_packet(line.cutter, "eth1"), captured(line.sink) as capture, line.nodes() as running:
        port = line.send()
        wait_until(lambda: running.sink.counters().removed == running.source.counters().inserted)
        packets = of_flow(capture, port)
    assert max(packet.packet_bytes for packet in packets) == MTU_BYTES  # with headers
    assert [packet.own_number for packet in packets] == list(range(len(packets)))
    headers = Counter(packet.header for packet in packets)
    assert max(headers.values()) > 10
    for header, copies in headers.items():
        cut = [packet for packet in packets if packet.header == header]
        assert (cut[0].first_sequence is not None) == (copies > 1)
    summaries = running.decoded()
    assert sum(one.received_pkts or 0 for one in summaries) == len(packets)
    assert sum(one.lost_pkts or 0 for one in summaries) == 0


def test_lost_segments_of_super_packets_are_all_found(line: Line) -> None:
    with (
        packet_by_packet(line.cutter, "eth1"),
        shaped(line.dropper, 2.5e6, 20_000) as shaper,
        captured(line.sink) as capture,
        line.nodes() as running,
    ):
        port = line.send(DATA[:1_000_000])
        wait_until(lambda: not shaper.stats().backlog_pkts)
        dropped_pkts = shaper.stats().dropped_pkts
        inserted, removed = running.source.counters().inserted, running.sink.counters().removed
        packets = of_flow(capture, port)
    assert inserted - removed == dropped_pkts > 10
    assert len(packets) == inserted - dropped_pkts
    summaries = running.decoded()
    assert sum(one.received_pkts or 0 for one in summaries) == removed
    # The FIN is the last packet, and comes.
    assert sum(one.lost_pkts or 0 for one in summaries) == dropped_pkts


def test_each_packet_has_headers_of_its_own_on_request(line: Line) -> None:
    with captured(line.sink) as capture, line.nodes(SourceOptions(per_packet=True)) as running:
        port = line.send(DATA[:200_000])
        wait_until(lambda: running.sink.counters().removed == running.source.counters().inserted)
        packets = of_flow(capture, port)
    assert max(packet.packet_bytes for packet in packets) == MTU_BYTES
    assert [packet.number for packet in packets] == list(range(len(packets)))
    assert {packet.first_sequence for packet in packets} == {None}


def test_one_super_packet_in_n_carries_telemetry_and_all_packets_are_counted(line: Line) -> None:
    with captured(line.sink) as capture, line.nodes(SourceOptions(every_pkts=4)) as running:
        line.send()
        inserted = running.source.counters().inserted
        wait_until(lambda: running.sink.counters().removed == inserted)
        del capture
    summaries = running.decoded()
    received_pkts = sum(one.received_pkts or 0 for one in summaries)
    assert sum(one.lost_pkts or 0 for one in summaries) == 0
    assert inserted < received_pkts / 2
