"""Packets that hosts gave extension headers: the emulator keeps them, and a router writes into them."""

from __future__ import annotations

import random
import socket
import threading
from pathlib import Path

import pytest

from experiments.netlab.emulated import emulated
from experiments.netlab.spec import Bernoulli, Direction, Int, IntNode, Link, Topology
from telemetry.ioam import CaptureReader, TcpState, Trace, TraceField, build, decode_header

pytestmark = pytest.mark.kernel(struct_ops=False)

WAIT_S = 20
NODE_ID = 7
FIELDS = TraceField.NODE | TraceField.INTERFACES | TraceField.QUEUE_DEPTH
OPTIONS = (Trace(trace_type=FIELDS, remaining_words=3), TcpState(cwnd_bytes=14_480))
MTU_BYTES = 1500


def path(first: Direction) -> Topology:
    """Return a -- r -- b, where r writes into what passes."""
    return Topology(
        hosts=("a", "b"),
        routers=("r",),
        links=(Link("l", "a", "r", first, Direction()), Link("m", "r", "b", Direction(), Direction())),
        mtu_bytes=MTU_BYTES,
        telemetry=Int(nodes=(IntNode("r", ("transit",), node_id=NODE_ID),)),
    )


def give_headers(sock: socket.socket) -> None:
    """Let every packet of a socket carry the options."""
    for option, header in zip((socket.IPV6_HOPOPTS, socket.IPV6_DSTOPTS), build(OPTIONS), strict=True):
        sock.setsockopt(socket.IPPROTO_IPV6, option, header)


def test_a_datagram_reaches_its_host_with_its_headers_and_what_the_router_wrote() -> None:
    kind = socket.AF_INET6, socket.SOCK_DGRAM
    data = random.Random(1).randbytes(1001)
    with emulated(path(Direction())) as net:
        a, b = net.hosts["a"], net.hosts["b"]
        with a.call(lambda: socket.socket(*kind)) as own, b.call(lambda: socket.socket(*kind)) as other:
            give_headers(own)
            other.bind((b.ipv6, 0))
            other.settimeout(WAIT_S)
            for option in (socket.IPV6_RECVHOPOPTS, socket.IPV6_RECVDSTOPTS):
                other.setsockopt(socket.IPPROTO_IPV6, option, 1)
            own.sendto(data, other.getsockname())
            received, control, _, _ = other.recvmsg(2000, 2000)
    headers = {option: header for _, option, header in control}
    assert received == data
    (placed,) = decode_header(headers[socket.IPV6_HOPOPTS], "hop_by_hop").options
    trace = placed.option
    assert isinstance(trace, Trace)
    (node,) = trace.nodes
    assert (node.node_id, node.hop_limit, node.ingress_if, node.egress_if) == (NODE_ID, 63, 1, 3)
    assert node.queue_depth == 0
    (placed,) = decode_header(headers[socket.IPV6_DSTOPTS], "destination").options
    assert placed.option == OPTIONS[1]


def test_a_connection_with_headers_brings_every_byte_in_packets_of_the_right_size(tmp_path: Path) -> None:
    data = random.Random(2).randbytes(2 << 20)
    bad = Direction(rate_bytes_per_s=25e6, delay_us=500, loss=Bernoulli(0.002), corrupt_ratio=0.002)
    capture = tmp_path / "m.pcapng"
    arrived = bytearray()
    with emulated(path(bad), pcap={"m>": capture}) as net:
        a, b = net.hosts["a"], net.hosts["b"]
        with b.tcp_socket("ipv6") as listener, a.tcp_socket("ipv6") as sender:
            give_headers(sender)
            listener.bind((b.ipv6, 0))
            listener.listen()
            sender.settimeout(WAIT_S)
            sender.connect(listener.getsockname())
            taken, _ = listener.accept()
            with taken:
                taken.settimeout(WAIT_S)
                sending = threading.Thread(target=sender.sendall, args=(data,))
                sending.start()
                while len(arrived) < len(data):
                    arrived.extend(taken.recv(1 << 16))
                sending.join()
        corrupted_pkts = net.stats()["l>"].corrupted_pkts
    assert bytes(arrived) == data
    assert corrupted_pkts
    packets = list(CaptureReader(capture))
    assert len(packets) > len(data) / MTU_BYTES
    assert max(packet.bytes for packet in packets) == MTU_BYTES
    for packet in packets:
        assert packet.errors == ()
        trace, state = (placed.option for placed in packet.options)
        assert isinstance(trace, Trace)
        assert [node.node_id for node in trace.nodes] == [NODE_ID]
        assert state == OPTIONS[1]
