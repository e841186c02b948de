"""Packets of a connection stay in order with telemetry, so that none is retransmitted because of it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.netlab import Host, two_hosts
from experiments.netlab.iperf import wait_until_listening
from experiments.netlab.process import end
from experiments.netlab.topology import Path as LabPath
from telemetry.inband import steering
from telemetry.inband.node import NodeSpec
from tests.kernel.inband_hosts import WAIT_S, Summaries, node_on

pytestmark = [
    pytest.mark.kernel(struct_ops=False),
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="packets overtake each other between processors"),
]

PORT = 5201
MEGABYTES = 3000
ON_SENDER, ON_RECEIVER = (["nice", "-n", "-20", "taskset", "-c", cpu] for cpu in ("0", "1"))


@contextlib.contextmanager
def telemetry(path: LabPath) -> Iterator[Any]:
    """Give each super-packet a header."""
    with (
        contextlib.closing(Summaries()) as summaries,
        node_on(path.receiver, "eth0", NodeSpec(roles=("sink",)), summaries.fd) as sink,
        node_on(path.sender, "eth0", NodeSpec(roles=("source", "transit")), summaries.fd),
    ):
        yield sink


def tcp_counters(host: Host) -> dict[str, int]:
    """Return the counters of TCP's extensions."""
    lines = host.call(lambda: Path("/proc/thread-self/net/netstat").read_text().splitlines())
    names, values = (line.split()[1:] for line in lines[:2])
    return dict(zip(names, map(int, values), strict=True))


def rps_masks(host: Host) -> dict[str, str]:
    """Return the receive queues without RPS."""
    return host.call(lambda: steering.unsteered("eth0"))


def test_packets_from_two_processors_stay_in_order() -> None:
    with two_hosts() as path:
        with telemetry(path) as sink:
            server = path.receiver.popen(
                [*ON_RECEIVER, "iperf3", "-s", "-1", "-p", str(PORT)], stdout=subprocess.DEVNULL
            )
            try:
                wait_until_listening(path.receiver, PORT, server)
                target = ["-c", path.receiver.ipv6, "-p", str(PORT)]
                amount = ["-C", "cubic", "-n", f"{MEGABYTES}M"]
                path.sender.run([*ON_SENDER, "iperf3", *target, *amount], timeout_s=5 * WAIT_S)
            finally:
                end([server])
            removed_pkts = sink.counters().removed
        received, sent = tcp_counters(path.receiver), tcp_counters(path.sender)
    assert removed_pkts * 1500 > MEGABYTES << 20
    # Tail loss probes are not counted: a busy machine causes them also without telemetry.
    assert (received["TCPOFOQueue"], sent["TCPFastRetrans"], sent["TCPSackRecovery"]) == (0, 0, 0)


def test_a_sink_steers_packets_on_a_veth_pair_and_restores_it(wire: LabPath) -> None:
    before = rps_masks(wire.receiver)
    assert before == {"rx-0": "0"}
    with telemetry(wire):
        assert rps_masks(wire.receiver) == {}
        assert rps_masks(wire.sender) == before
    assert rps_masks(wire.receiver) == before


def test_a_sink_keeps_the_steering_that_it_finds(wire: LabPath) -> None:
    wire.receiver.call(lambda: steering.steer("eth0", {"rx-0": "1"}))
    with telemetry(wire):
        assert rps_masks(wire.receiver) == {}
    assert rps_masks(wire.receiver) == {}
    wire.receiver.call(lambda: steering.steer("eth0", {"rx-0": "0"}))
    assert rps_masks(wire.receiver) == {"rx-0": "0"}
