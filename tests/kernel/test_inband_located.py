"""Where packets were lost, on real interfaces: in a node's queue, behind it, or where nobody tells."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pytest

from experiments.netlab import Host, Lab
from telemetry.inband.node import NodeSpec
from telemetry.schema import IntSummary
from tests.kernel.driving import wait_until
from tests.kernel.inband_hosts import LAB, Summaries, datagrams, in_a_row, node_on, shaped

pytestmark = [pytest.mark.kernel(struct_ops=False), pytest.mark.usefixtures("one_processor")]

PORT = 5000
SOURCE, QUEUE, LOSSY = 1, 2, 3
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


@pytest.fixture(scope="module")
def line() -> Iterator[Line]:
    with Lab() as lab:
        source, sink = lab.add_host("source"), lab.add_host("sink")
        queue, lossy = lab.add_host("queue", forwards=True), lab.add_host("lossy", forwards=True)
        in_a_row(lab, source, queue, lossy, sink)
        yield Line(source, queue, lossy, sink)


@pytest.mark.parametrize("lossy_is_silent", [False, True])
def test_a_loss_is_where_it_happened_or_unknown(line: Line, lossy_is_silent: bool) -> None:
    """More than the slow link takes, so that its queue drops, and a twentieth lost behind it."""
    with contextlib.ExitStack() as stack:
        shaper = stack.enter_context(shaped(line.queue, 1e6, 20_000))
        stack.enter_context(line.losing())
        near, far = stack.enter_context(datagrams(line.source, line.sink, PORT))
        summaries = stack.enter_context(contextlib.closing(Summaries()))
        nodes = [
            (line.sink, "eth0", NodeSpec(roles=("sink",), trusted=LAB)),
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
    reported = [msgspec.json.decode(one, type=IntSummary) for one in summaries.lines]
    assert dropped > 10
    assert lost >= 2

    def sum_of(name: str) -> int:
        return sum(getattr(one, name) or 0 for one in reported)

    def at(node_id: int, name: str) -> int:
        return sum(getattr(hop, name) for one in reported for hop in one.hops if hop.node_id == node_id)

    assert sum_of("lost_congestion_pkts") == at(QUEUE, "lost_congestion_pkts") == dropped
    # The last one may be lost behind what the sink saw last.
    known, unknown = sum_of("lost_link_pkts"), sum_of("lost_unknown_pkts")
    assert known + unknown in (lost - 1, lost)
    if lossy_is_silent:
        assert known == 0
        assert all(one.has_silent_hop for one in reported)
    else:
        assert unknown == 0
        assert at(QUEUE, "lost_link_pkts") == known
