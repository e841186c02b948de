"""Echoes of the path through the emulator, whose sinks put them into real ACKs."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec
import pytest

from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.spec import IntNode
from experiments.runs.inband import readers_on
from telemetry.ioam import CaptureReader, PathEcho
from tests.kernel.driving import PIN_DIR, wait_until
from tests.kernel.echoes import reported, transfer
from tests.kernel.inband import chain

pytestmark = pytest.mark.kernel(struct_ops=False)

WAIT_S = 30.0


def reflected_pkts(net: EmulatedNetwork) -> int:
    stats = net.emulator_stats()
    assert stats is not None
    assert stats.telemetry is not None
    return stats.telemetry.reflected_pkts


def echoes_of(client: socket.socket) -> int:
    received = reported(client)
    return 0 if received is None else received.echoes


@pytest.mark.parametrize("echo", [True, False])
def test_sockets_are_reported_what_packets_found_if_the_topology_says_so(tmp_path: Path, echo: bool) -> None:
    capture = tmp_path / "acks.pcapng"
    topology = chain(echo=echo)
    assert topology.telemetry is not None
    # One sender, so that all echoes are for its socket.
    nodes = (*topology.telemetry.nodes[:3], IntNode("sta2", ("sink",)))
    telemetry = msgspec.structs.replace(topology.telemetry, nodes=nodes)
    topology = msgspec.structs.replace(topology, telemetry=telemetry)
    with emulated(topology, pcap={"near<": capture}) as net, readers_on(net.hosts.values(), PIN_DIR):
        sta1, sta2 = net.hosts["sta1"], net.hosts["sta2"]
        with sta2.tcp_socket("ipv6") as server, sta1.tcp_socket("ipv6", "cubic") as client:
            server.bind((sta2.ipv6, 0))
            server.listen()
            client.settimeout(WAIT_S)
            client.connect(server.getsockname())
            taken, _ = server.accept()
            with taken:
                taken.settimeout(WAIT_S)
                transfer(client, taken, 400_000)
                wait_until(lambda: echoes_of(client) == reflected_pkts(net))
                received = reported(client)
                reflected = reflected_pkts(net)
    options = [placed.option for record in CaptureReader(capture) for placed in record.options]
    echoes = [option for option in options if isinstance(option, PathEcho)]
    if not echo:
        assert (received, echoes, reflected) == (None, [], 0)
        return
    assert received is not None
    assert reflected == received.echoes > 20
    assert 0 <= len(echoes) - reflected <= 2  # the connection's end is acknowledged, too
    last = echoes[reflected - 1]
    assert (received.hops, received.hop, received.node_id) == (last.hops, last.hop, last.node_id)
    assert (received.queue_pkts, received.free_pkts, received.flow_count) == (
        last.queue_pkts,
        last.free_pkts,
        last.flow_count,
    )
    assert {one.hops for one in echoes} == {2}  # both access points
    assert all(one.all_known for one in echoes)
    # The first access point's link is the slow one.
    assert max(one.queue_pkts or 0 for one in echoes if one.hop == 1) > 5
    assert sum(received.losses) >= (last.losses_congestion + last.losses_link + last.losses_unknown)
