"""Packets of a connection stay in order with telemetry, so that none is retransmitted because of it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from experiments.netlab import Host, Lab
from experiments.netlab.iperf import wait_until_listening
from experiments.netlab.process import end
from telemetry.inband import steering
from telemetry.inband.node import InterfaceNode, NodeSpec
from tests.kernel.inband_hosts import WAIT_S, Summaries, in_a_row, node_on

pytestmark = [
    pytest.mark.kernel(struct_ops=False),
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="packets overtake each other between processors"),
]

PORT = 5201
MEGABYTES = 3000
ON_SENDER, ON_RECEIVER = (["nice", "-n", "-20", "taskset", "-c", cpu] for cpu in ("0", "1"))
RX = "eth0/queues/rx-0/rps_cpus"


@pytest.fixture
def row() -> Iterator[Callable[[int], list[Host]]]:
    """Build a source, routers and a sink in a row."""
    with Lab() as lab:

        def build(routers: int) -> list[Host]:
            between = [lab.add_host(f"router{n}", forwards=True) for n in range(routers)]
            hosts = [lab.add_host("source"), *between, lab.add_host("sink")]
            in_a_row(lab, *hosts)
            return hosts

        yield build


@contextlib.contextmanager
def telemetry(hosts: Sequence[Host]) -> Iterator[InterfaceNode]:
    """Give each super-packet a header, which all routers fill; yield the sink."""
    with contextlib.closing(Summaries()) as summaries, contextlib.ExitStack() as stack:
        sink = stack.enter_context(node_on(hosts[-1], "eth0", NodeSpec(roles=("sink",)), summaries.fd))
        for router in hosts[1:-1]:
            stack.enter_context(node_on(router, "eth1", NodeSpec(roles=("transit",)), summaries.fd))
        source = NodeSpec(roles=("source", "transit"))
        stack.enter_context(node_on(hosts[0], "eth0", source, summaries.fd))
        yield sink


def transfer(source: Host, sink: Host) -> None:
    """Send from one processor, and receive on another."""
    server = sink.popen([*ON_RECEIVER, "iperf3", "-s", "-1", "-p", str(PORT)], stdout=subprocess.DEVNULL)
    try:
        wait_until_listening(sink, PORT, server)
        target = ["-c", sink.ipv6, "-p", str(PORT)]
        amount = ["-C", "cubic", "-n", f"{MEGABYTES}M"]
        source.run([*ON_SENDER, "iperf3", *target, *amount], timeout_s=5 * WAIT_S)
    finally:
        end([server])


def tcp_counters(host: Host) -> dict[str, int]:
    """Return the counters of TCP's extensions."""
    lines = host.call(lambda: Path("/proc/thread-self/net/netstat").read_text().splitlines())
    names, values = (line.split()[1:] for line in lines[:2])
    return dict(zip(names, map(int, values), strict=True))


def unsteered(host: Host, *names: str) -> dict[str, str]:
    """Return the receive queues without RPS."""
    return host.call(lambda: steering.unsteered(names or ("eth0",)))


@pytest.mark.parametrize("routers", [0, 2])
def test_packets_from_two_processors_stay_in_order(row: Callable[[int], list[Host]], routers: int) -> None:
    hosts = row(routers)
    with telemetry(hosts) as sink:
        transfer(hosts[0], hosts[-1])
        removed_pkts = sink.counters().removed
    received, sent = tcp_counters(hosts[-1]), tcp_counters(hosts[0])
    assert removed_pkts * 1500 > MEGABYTES << 20
    # Tail loss probes are not counted: a busy machine causes them also without telemetry.
    assert (received["TCPOFOQueue"], sent["TCPFastRetrans"], sent["TCPSackRecovery"]) == (0, 0, 0)


def test_nodes_steer_packets_that_come_from_veth_pairs_and_restore_it(
    row: Callable[[int], list[Host]],
) -> None:
    source, router, sink = row(1)
    both = dict.fromkeys((RX, RX.replace("eth0", "eth1")), "0")
    assert unsteered(router, "eth0", "eth1") == both
    with telemetry((source, router, sink)):
        assert unsteered(sink) == {}
        assert unsteered(router, "eth0", "eth1") == {RX.replace("eth0", "eth1"): "0"}
        assert unsteered(source) == {RX: "0"}
    assert unsteered(sink) == unsteered(source) == {RX: "0"}
    assert unsteered(router, "eth0", "eth1") == both


def test_a_sink_keeps_the_steering_that_it_finds(row: Callable[[int], list[Host]]) -> None:
    source, sink = row(0)
    sink.call(lambda: steering.steer({RX: "1", "gone/queues/rx-0/rps_cpus": "1"}))
    with telemetry((source, sink)):
        assert unsteered(sink) == {}
    assert unsteered(sink) == {}
    sink.call(lambda: steering.steer({RX: "0"}))
    assert unsteered(sink) == {RX: "0"}
