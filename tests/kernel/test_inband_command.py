"""`ccp telemetry node`: settings of interfaces, publishing, refusals, and queue lengths of kernels."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path as FilePath

import msgspec
import pytest
from pyroute2 import IPRoute

from broker.options import PORT as BROKER_PORT
from broker.options import BusOptions
from ccplane.base import _native
from ccplane.base.errors import CcpError
from experiments.netlab import Host, Path
from experiments.netlab.brokers import broker_on
from telemetry.bus import Bus
from telemetry.inband.device import Interface
from telemetry.inband.node import NodeSpec, SourceOptions
from telemetry.inband.node_errors import NodeError
from telemetry.inband.queues import Queue, read_queue
from telemetry.schema import IntSummary, Sample
from tests.kernel.driving import PIN_DIR, said_without_privilege, wait_until
from tests.kernel.inband_hosts import node_on

pytestmark = pytest.mark.kernel(struct_ops=False)

HANGS_ON_DEVICES = tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 6)
PORT = 5000
WAIT_S = 20.0
FRAME_BYTES = 1514
NOWHERE = 2
"""A descriptor for summaries that never come."""
LOOPBACK = b"""{"ifindex": 1, "roles": ["sink"], "node_id": 1, "link_bytes": 0, "is_veth": false,
    "is_wireless": false, "mtu_bytes": 1500, "to": ["::", 0], "trusted": ["::", 0], "source": {},
    "sink": {}, "pin_dir": ""}"""
NODE_COMMAND = [sys.executable, "-c", "from telemetry.inband.commands import app; app()", "node"]


def said_by(host: Host, *commands: Sequence[str]) -> list[str]:
    return [host.run(command).stdout for command in commands]


def settings(host: Host) -> list[str]:
    return said_by(
        host,
        ["tc", "qdisc", "show", "dev", "eth0"],
        ["sh", "-c", "ip -d link show eth0 | grep -o 'gso_max_segs [0-9]*'"],
        ["cat", "/proc/sys/net/ipv6/conf/eth0/mtu"],
    )


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_an_interface_is_afterwards_as_it_was(wire: Path, end: signal.Signals) -> None:
    before = settings(wire.sender)
    first = started(wire.sender, "--role", "source,transit", "--per-packet")
    changed = zip(before, settings(wire.sender), strict=True)
    assert all(was != now for was, now in changed)
    with (
        pytest.raises(NodeError) as second,
        node_on(wire.sender, "eth0", NodeSpec(roles=("sink",)), NOWHERE),
    ):
        pass
    assert second.value.slug == "int.in_use"
    first.send_signal(end)
    first.communicate(timeout=WAIT_S)
    if end == signal.SIGKILL:
        assert settings(wire.sender) != before
        next_one = started(wire.sender, "--role", "sink")
        assert "gso_max_segs 65535" in settings(wire.sender)[1]
        assert next_one.stderr is not None
        assert next_one.stderr.readline().startswith(
            "eth0: no sender is trusted: telemetry is removed unread"
        )
        next_one.send_signal(signal.SIGTERM)
        assert next_one.communicate(timeout=WAIT_S)[1] == "no packets\n"
        assert next_one.returncode == 0
    assert settings(wire.sender) == before


def test_the_command_publishes_what_its_sink_sees(wire: Path) -> None:
    received: list[Sample] = []
    url = f"mqtt://127.0.0.1:{BROKER_PORT}"
    hosts = (wire.sender, wire.receiver)
    near, far = (host.call(lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)) for host in hosts)
    with broker_on(wire.receiver), near, far:
        far.bind(("::", PORT))
        far.settimeout(WAIT_S)
        near.settimeout(WAIT_S)
        near.connect((wire.receiver.ipv6, PORT))
        bus = Bus(BusOptions.from_url(url), sender="test", on_sample=received.append, kinds=("int_summary",))
        wire.receiver.call(bus.start)
        wait_until(lambda: bus.ready)
        nodes = [
            started(
                wire.receiver,
                *("--role", "sink,source", "--from-prefix", f"{wire.sender.ipv6}/128"),
                *("--broker", url, "--sender", "here", "--json"),
            ),
            started(wire.sender, "--role", "source"),
        ]
        near.send(b"payload")
        _, back = far.recvfrom(100)
        far.sendto(b"answer", back)
        assert near.recv(100) == b"answer"  # the sender is no sink, and headers do no harm
        wait_until(lambda: received)
        bus.stop()
        for node in nodes:
            node.send_signal(signal.SIGINT)
        said = [node.communicate(timeout=WAIT_S) for node in nodes]
    assert [stderr for _, stderr in said] == ["inserted 1, removed 1\n", "inserted 1\n"]
    summary = received[0].body
    assert isinstance(summary, IntSummary)
    assert (received[0].sender, summary.received_pkts, summary.flow.dst_port) == ("here", 1, PORT)
    assert msgspec.json.decode(said[0][0], type=IntSummary) == summary


def started(host: Host, *arguments: str) -> subprocess.Popen[str]:
    """Start the command, and wait until it is a node."""
    pipe = subprocess.PIPE
    running = host.popen([*NODE_COMMAND, "eth0", "--node-id", "9", *arguments], stdout=pipe, stderr=pipe)
    assert running.stderr is not None
    assert running.stderr.readline().startswith("eth0: node 9")
    return running


def test_what_cannot_be_a_node_is_reported(wire: Path) -> None:
    def slug(interface: str, spec: NodeSpec, records: FilePath | None = None) -> str:
        node = node_on(wire.sender, interface, spec, NOWHERE, records)
        with pytest.raises(NodeError) as refused, node:
            pass
        return refused.value.slug

    before = settings(wire.sender)
    transit = NodeSpec(roles=("transit",))
    assert slug("eth9", transit) == "int.no_interface"
    assert slug("lo", NodeSpec(roles=("transit",), node_id=1 << 24)) == "int.bad_spec"
    assert slug("eth0", transit, FilePath("/nowhere/records.csv")) == "int.cannot_write"
    roomy = SourceOptions(max_nodes=3, wireless_nodes=True)
    assert slug("eth0", NodeSpec(roles=("source",), source=roomy)) == "int.mtu_too_small"
    wire.sender.run(["ip", "link", "add", "down0", "type", "veth", "peer", "down1"])
    assert slug("down0", transit) == "int.no_route"
    pins = FilePath(f"{PIN_DIR}-refused")
    assert slug("down0", NodeSpec(roles=("reader",), pin_dir=str(pins))) == "int.no_route"
    assert not pins.exists()
    assert settings(wire.sender) == before


def test_where_none_made_a_place_for_filters_programs_hang_on_the_device_itself(wire: Path) -> None:
    def attach_twice() -> None:
        for _ in range(2):
            _native.IntNode(LOOPBACK, NOWHERE, None).close()

    if HANGS_ON_DEVICES:
        wire.sender.call(attach_twice)
        return
    with pytest.raises(CcpError) as refused:
        wire.sender.call(attach_twice)
    assert refused.value.slug == "int.refused"


def test_without_privilege_it_says_so() -> None:
    slug, _, fix = said_without_privilege("IntNode", f"{LOOPBACK!r}, 2, None").partition(" ")
    assert slug == "int.not_permitted"
    assert fix.startswith("run as root, or give the process CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON")


@pytest.mark.parametrize(
    ("disciplines", "queue"),
    [
        ([], Queue(known=True, unlimited=True, drops="early")),
        (["root bfifo limit 50000"], Queue(known=True, limit_bytes=50_000, drops="early")),
        (
            ["root handle 1: tbf rate 1mbit burst 5000 limit 30000"],
            Queue(known=True, limit_bytes=30_000, link_rate_bytes_per_s=125_000, drops="early"),
        ),
        (
            ["root handle 1: tbf rate 1mbit burst 5000 limit 30000", "parent 1:1 pfifo limit 20"],
            Queue(known=True, limit_pkts=20, link_rate_bytes_per_s=125_000, drops="early"),
        ),
        (["root handle 1: htb", "root pfifo_fast"], Queue(known=True, drops="early")),
    ],
)
def test_the_room_of_queues_is_what_the_kernel_says(wire: Path, disciplines: list[str], queue: Queue) -> None:
    interface = Interface(
        name="eth0",
        index=wire.receiver.call(lambda: socket.if_nametoindex("eth0")),
        mtu_bytes=1500,
        link_bytes=14,
        wireless=False,
        is_veth=True,
    )

    def read() -> Queue:
        with IPRoute() as ipr:
            return read_queue(ipr, interface)

    for one in disciplines:
        wire.receiver.run(["tc", "qdisc", "replace", "dev", "eth0", *one.split()])
    try:
        assert wire.receiver.call(read) == msgspec.structs.replace(queue, packet_bytes=FRAME_BYTES)
    finally:
        wire.receiver.run(["tc", "qdisc", "del", "dev", "eth0", "root"], check=False)
