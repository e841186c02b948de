"""Linux' own IOAM node fills its slot in our packets, and we read what it wrote."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pytest

from experiments.netlab import Host, Lab
from telemetry.ioam import (
    EdgeToEdge,
    Node,
    OtherState,
    TcpState,
    Trace,
    TraceField,
    arrival_ns,
    build,
    decode,
    decode_header,
    fill,
    insert,
)
from telemetry.ioam.model import E2eField
from tests.unit.telemetry.ioam.packets import packet

pytestmark = pytest.mark.kernel(struct_ops=False)

ETH_P_IPV6 = 0x86DD
NO_NEXT_HEADER = 59
HOP_LIMIT_AT = 7
WAIT_S = 20

KNOWN, UNKNOWN = 123, 124
"""Namespaces: with data and a schema, and without."""

SCHEMA, SCHEMA_DATA = 777, b"ccplane!"
EVERY_FIELD = TraceField((1 << 24) - (1 << 12)) | TraceField.SNAPSHOT


@dataclass(frozen=True)
class Chain:
    """sender -- router -- receiver, where the router is an IOAM node."""

    hosts: tuple[Host, Host]
    sender: socket.socket
    receiver: socket.socket
    addresses: tuple[bytes, bytes]
    dst: str

    def send(self, *options: Trace | EdgeToEdge | TcpState) -> tuple[bytes, bytes]:
        """Send a packet with options through the router; return it as it left, and as it arrived."""
        bare = bytearray(packet(b"", NO_NEXT_HEADER))
        bare[8:24], bare[24:40] = self.addresses
        sent = insert(bytes(bare), options)
        self.sender.sendto(sent, (self.dst, 0))
        while True:
            arrived = self.receiver.recv(2000)
            if arrived[8:40] == sent[8:40]:
                return sent, arrived


@pytest.fixture(scope="module")
def chain() -> Iterator[Chain]:
    with Lab() as lab:
        sender, router, receiver = lab.add_host("a"), lab.add_host("r", forwards=True), lab.add_host("b")
        _, near = lab.connect(sender, router)
        lab.connect(router, receiver)
        sender.run(["ip", "-6", "route", "add", "default", "via", near.ipv6])
        configure(router)
        ends = [socket.inet_pton(socket.AF_INET6, host.ipv6) for host in (sender, receiver)]
        with (
            sender.call(lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)) as out,
            receiver.call(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)) as into,
        ):
            into.bind(("eth0", ETH_P_IPV6))
            into.settimeout(WAIT_S)
            yield Chain((sender, receiver), out, into, (ends[0], ends[1]), receiver.ipv6)


def configure(router: Host) -> None:
    for name, value in {
        "ioam6_id": 0x010203,
        "ioam6_id_wide": 0x01020304050607,
        "conf.eth0.ioam6_enabled": 1,
        "conf.eth0.ioam6_id": 11,
        "conf.eth0.ioam6_id_wide": 11_000_000,
        "conf.eth1.ioam6_id": 12,
    }.items():
        router.set_sysctl(f"net.ipv6.{name}", value)
    for command in (
        f"namespace add {KNOWN} data 0xdeadbeef wide 0xcafef00dcafef00d",
        f"namespace add {UNKNOWN}",
        f"schema add {SCHEMA} {SCHEMA_DATA.decode()}",
        f"namespace set {KNOWN} schema {SCHEMA}",
    ):
        router.run(["ip", "ioam", *command.split()])


def trace_in(arrived: bytes) -> Trace:
    decoded = decode(arrived)
    assert decoded.errors == ()
    option = decoded.options[0].option
    assert isinstance(option, Trace)
    return option


def test_linux_fills_its_slot_and_we_read_it(chain: Chain) -> None:
    room = Trace(trace_type=EVERY_FIELD, remaining_words=30, namespace_id=KNOWN)
    edge = EdgeToEdge(e2e_type=E2eField.SEQUENCE_64, sequence=1)
    before_us = time.time_ns() // 1000
    sent, arrived = chain.send(room, edge, TcpState(cwnd_bytes=14_480))
    after_us = time.time_ns() // 1000
    trace = trace_in(arrived)
    (node,) = trace.nodes
    arrived_ns = arrival_ns(node, "posix")
    assert arrived_ns is not None
    assert before_us <= arrived_ns // 1000 <= after_us
    snapshot = OtherState(schema_id=SCHEMA, data=SCHEMA_DATA.hex())
    assert node == Node(
        hop_limit=63,
        node_id=0x010203,
        ingress_if=11,
        egress_if=12,
        timestamp_s=node.timestamp_s,
        timestamp_fraction=node.timestamp_fraction,
        namespace_data=0xDEADBEEF,
        queue_depth=0,  # bytes that wait in the qdisc, and none do
        hop_limit_wide=63,
        node_id_wide=0x01020304050607,
        ingress_if_wide=11_000_000,
        namespace_data_wide=0xCAFEF00DCAFEF00D,
        snapshot=snapshot,
    )
    # 15 words of fields, 3 of the snapshot.
    assert trace == msgspec.structs.replace(room, remaining_words=12, nodes=(node,))
    # With the same data our own node makes the same packet, to the last octet.
    forwarded = bytearray(sent)
    forwarded[HOP_LIMIT_AT] -= 1
    assert fill(bytes(forwarded), node, KNOWN).packet == arrived


def test_what_linux_was_not_reported_is_missing(chain: Chain) -> None:
    fields = TraceField.INTERFACES_WIDE | TraceField.NAMESPACE_DATA | TraceField.NAMESPACE_DATA_WIDE
    room = Trace(trace_type=fields | TraceField.SNAPSHOT, remaining_words=10, namespace_id=UNKNOWN)
    assert trace_in(chain.send(room)[1]).nodes == (Node(ingress_if_wide=11_000_000),)


def test_linux_keeps_out_where_it_must(chain: Chain) -> None:
    node = Node(node_id=9, hop_limit=64)
    full = Trace(trace_type=TraceField.NODE, namespace_id=KNOWN, nodes=(node,))
    assert trace_in(chain.send(full)[1]) == msgspec.structs.replace(full, overflow=True)
    foreign = Trace(trace_type=TraceField.NODE, namespace_id=5, remaining_words=4)
    assert trace_in(chain.send(foreign)[1]) == foreign


def test_linux_writes_in_front_of_our_nodes(chain: Chain) -> None:
    own = Node(node_id=9, hop_limit=64)
    room = Trace(trace_type=TraceField.NODE, namespace_id=KNOWN, remaining_words=4, nodes=(own,))
    trace = trace_in(chain.send(room)[1])
    assert trace.nodes == (own, Node(node_id=0x010203, hop_limit=63))
    assert trace.remaining_words == 3


def test_sockets_take_our_headers_and_hand_them_over(chain: Chain) -> None:
    room = Trace(trace_type=TraceField.NODE, namespace_id=KNOWN, remaining_words=2)
    state = TcpState(cwnd_bytes=14_480, mss_bytes=1448)
    headers = dict(zip((socket.IPV6_HOPOPTS, socket.IPV6_DSTOPTS), build([room, state]), strict=True))
    near, far = (host.call(lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)) for host in chain.hosts)
    with near, far:
        far.bind(("::", 0))
        far.settimeout(WAIT_S)
        for option in (socket.IPV6_RECVHOPOPTS, socket.IPV6_RECVDSTOPTS):
            far.setsockopt(socket.IPPROTO_IPV6, option, 1)
        for option, header in headers.items():
            near.setsockopt(socket.IPPROTO_IPV6, option, header)
        near.sendto(b"payload", (chain.dst, far.getsockname()[1]))
        payload, ancillary, *_ = far.recvmsg(100, 1000)
    assert payload == b"payload"
    received = {kind: data for _, kind, data in ancillary}
    (trace,) = decode_header(received[socket.IPV6_HOPOPTS], "hop_by_hop").options
    assert trace.option == msgspec.structs.replace(
        room, remaining_words=1, nodes=(Node(node_id=0x010203, hop_limit=63),)
    )
    (found,) = decode_header(received[socket.IPV6_DSTOPTS], "destination").options
    assert found.option == state
