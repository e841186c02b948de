"""Where packets were lost, on real interfaces: in a node's queue, behind it, or where nobody tells."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pytest

from experiments.bench.inband import Summaries, node_on
from experiments.netlab import Host, Lab
from experiments.netlab.topology import Shaper
from telemetry.inband.node import NodeSpec
from telemetry.schema import IntSummary
from tests.kernel.driving import wait_until

pytestmark = pytest.mark.kernel(struct_ops=False)

PORT = 5000
FRAME_BYTES = 1514
SOURCE, QUEUE, LOSSY = 1, 2, 3
WAIT_S = 20.0
DATAGRAMS = 400
EVERY = 20
"""Of so many packets that come to it, the lossy router loses one before it does anything with them."""


@dataclass(frozen=True)
class Line:
    """source -- queue -- lossy -- sink: a router with a slow link, and one that loses what comes."""

    source: Host
    queue: Host
    lossy: Host
    sink: Host

    @contextlib.contextmanager
    def shaped(self) -> Iterator[Shaper]:
        shaper = Shaper(
            self.queue, "eth1", rate_bytes_per_s=1e6, buffer_bytes=20_000, burst_bytes=2 * FRAME_BYTES
        )
        try:
            yield shaper
        finally:
            self.queue.run(["tc", "qdisc", "del", "dev", "eth1", "root"])

    @contextlib.contextmanager
    def losing(self) -> Iterator[None]:
        hook = "type filter hook prerouting priority mangle;"
        rule = f"udp dport {PORT} numgen inc mod {EVERY} == 0 counter drop"
        self.lossy.run(["nft", f"table ip6 lossy {{ chain prerouting {{ {hook} {rule}; }}; }}"])
        try:
            yield
        finally:
            self.lossy.run(["nft", "delete", "table", "ip6", "lossy"])

    def lost(self) -> int:
        """Return how many packets the lossy router has lost."""
        listed = self.lossy.run(["nft", "list", "table", "ip6", "lossy"]).stdout
        (pkts,) = re.findall(r"counter packets (\d+)", listed)
        return int(pkts)

    @contextlib.contextmanager
    def datagrams(self) -> Iterator[tuple[socket.socket, socket.socket]]:
        near, far = (
            host.call(lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
            for host in (self.source, self.sink)
        )
        with near, far:
            far.bind(("::", PORT))
            far.settimeout(WAIT_S)
            near.connect((self.sink.ipv6, PORT))
            yield near, far


@pytest.fixture(scope="module")
def line() -> Iterator[Line]:
    with Lab() as lab:
        source, sink = lab.add_host("source"), lab.add_host("sink")
        queue, lossy = lab.add_host("queue", forwards=True), lab.add_host("lossy", forwards=True)
        _, first = lab.connect(source, queue)
        left, right = lab.connect(queue, lossy)
        last, _ = lab.connect(lossy, sink)
        for host, via in ((source, first), (queue, right), (lossy, left), (sink, last)):
            host.run(["ip", "-6", "route", "add", "default", "via", via.ipv6])
        yield Line(source, queue, lossy, sink)


@pytest.mark.parametrize("lossy_is_silent", [False, True])
def test_a_loss_is_where_it_happened_or_unknown(line: Line, lossy_is_silent: bool) -> None:
    """More than the slow link takes, so that its queue drops, and a twentieth lost behind it."""
    with contextlib.ExitStack() as stack:
        shaper = stack.enter_context(line.shaped())
        stack.enter_context(line.losing())
        near, far = stack.enter_context(line.datagrams())
        summaries = stack.enter_context(contextlib.closing(Summaries()))
        nodes = [
            (line.sink, "eth0", NodeSpec(roles=("sink",))),
            (line.queue, "eth1", NodeSpec(roles=("transit",), node_id=QUEUE)),
            (line.source, "eth0", NodeSpec(roles=("source", "transit"), node_id=SOURCE)),
        ]
        if not lossy_is_silent:
            nodes.append((line.lossy, "eth1", NodeSpec(roles=("transit",), node_id=LOSSY)))
        with contextlib.ExitStack() as attached:
            for host, interface, spec in nodes:
                attached.enter_context(node_on(host, interface, spec, summaries.fd))
            for number in range(DATAGRAMS):
                near.send(bytes([number % 256]) * 800)
            wait_until(lambda: not shaper.stats().backlog_pkts)
            # What ends it comes through, of two in a row at least one.
            near.send(b"last")
            near.send(b"last")
            while far.recv(1000) != b"last":
                pass
        dropped, lost = shaper.stats().dropped_pkts, line.lost()
    told = [msgspec.json.decode(one, type=IntSummary) for one in summaries.lines]
    assert dropped > 10
    assert lost >= 2

    def sum_of(name: str) -> int:
        return sum(getattr(one, name) or 0 for one in told)

    def at(node_id: int, name: str) -> int:
        return sum(getattr(hop, name) for one in told for hop in one.hops if hop.node_id == node_id)

    assert sum_of("lost_congestion_pkts") == at(QUEUE, "lost_congestion_pkts") == dropped
    # The last one may be lost behind what the sink saw last.
    known, unknown = sum_of("lost_link_pkts"), sum_of("lost_unknown_pkts")
    assert known + unknown in (lost - 1, lost)
    if lossy_is_silent:
        assert known == 0
        assert all(one.has_silent_hop for one in told)
    else:
        assert unknown == 0
        assert at(QUEUE, "lost_link_pkts") == known
