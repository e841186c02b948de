"""mac80211's own queues, over simulated radios: packets tell what waits there, and what is dropped there.

The simulated air takes each frame at once, so that nothing would ever wait. A station that leaves the channel
for a while cannot send: what it has to say then waits in mac80211.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyroute2.iwutil import IW

from experiments.mininet_wifi import radios
from experiments.mininet_wifi.chain import join_air
from experiments.netlab import Host, Lab
from telemetry.inband.node import InterfaceNode, NodeSpec, SourceOptions
from telemetry.inband.records import read_csv
from tests.kernel.driving import wait_until
from tests.kernel.inband_hosts import LAB, Summaries, datagrams, node_on


def why_not() -> str | None:
    """Return why there are no simulated radios here, or None."""
    lost = [name for name in ("modprobe", "hostapd", "iw") if shutil.which(name) is None]
    if lost:
        return f"missing: {', '.join(lost)}"
    found = subprocess.run(["modprobe", "-n", radios.MODULE], capture_output=True, check=False)
    return radios.NO_MODULE if found.returncode else None


pytestmark = [
    pytest.mark.kernel(struct_ops=False),
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

PORT = 5000
PAYLOAD_BYTES = 1200
PACKETS = 5
MANY = 200
LIMIT_PKTS = 20
COLUMNS = ("flow_dropped_pkts", "lost_congestion_pkts", "lost_link_pkts", "queue_free_pkts")
PACKET_BYTES = 1534
"""Of a full-size packet in mac80211's queues, by an MTU of 1500."""
STATION = 1
ELSEWHERE_MHZ = radios.CHANNELS[11]
AWAY_MS = 5000
"""The longest that mac80211 leaves a channel."""
WAIT_S = 60.0
"""On an emulated processor, which may be shared."""


@dataclass(frozen=True)
class Air:
    """An access point and a station, and what iw calls the radio of that."""

    access_point: Host
    station: Host
    phy: str


@pytest.fixture(scope="module")
def air() -> Iterator[Air]:
    with Lab() as lab, radios.simulated_radios(2) as phys:
        access_point, station = hosts = [lab.add_host(name) for name in ("ap", "sta")]
        for phy, host in zip(phys, hosts, strict=True):
            radios.give_radio(phy, host)
        join_air(1, access_point, [station], "int-ap", channel=1)
        yield Air(access_point, station, phys[1].replace("phy", "phy#"))


@dataclass(frozen=True)
class Reported:
    """What nl80211 tells of the queues for another end, as pyroute2 decodes all of it."""

    waiting_bytes: int
    waiting_pkts: int
    dropped_pkts: int


def reported_by(host: Host) -> dict[str, Reported]:
    """Return it by the other end's address."""

    def ask() -> list[Any]:
        with contextlib.closing(IW()) as iw:
            return list(iw.get_stations(socket.if_nametoindex(radios.DEVICE)))

    found = {}
    for one in host.call(ask):
        tids = one.get_attr("NL80211_ATTR_STA_INFO").get_attr("NL80211_STA_INFO_TID_STATS")
        queues = [tid.get_attr("NL80211_TID_STATS_TXQ_STATS") for tid in tids]

        def total(*names: str, queues: Sequence[Any] = queues) -> int:
            return sum(
                queue.get_attr(f"NL80211_TXQ_STATS_{name}") for queue in queues if queue for name in names
            )

        found[one.get_attr("NL80211_ATTR_MAC")] = Reported(
            total("BACKLOG_BYTES"), total("BACKLOG_PACKETS"), total("DROPS", "OVERLIMIT")
        )
    return found


def leave(station: Host) -> None:
    """Let a station leave the channel for a while; one that is leaving refuses to do so again."""
    station.run(["iw", "dev", radios.DEVICE, "offchannel", str(ELSEWHERE_MHZ), str(AWAY_MS)], check=False)


@contextlib.contextmanager
def observed(
    sender: Host, receiver: Host, records: Path
) -> Iterator[tuple[InterfaceNode, socket.socket, socket.socket]]:
    """Let a host be source and transit node, another one sink; give the first node, and sockets of both."""
    source = NodeSpec(
        roles=("source", "transit"), node_id=STATION, source=SourceOptions(max_nodes=1, wireless_nodes=True)
    )
    with (
        contextlib.closing(Summaries()) as summaries,
        node_on(receiver, radios.DEVICE, NodeSpec(roles=("sink",), trusted=LAB), summaries.fd, records),
        node_on(sender, radios.DEVICE, source, summaries.fd) as node,
        datagrams(sender, receiver, PORT) as (near, far),
    ):
        far.settimeout(WAIT_S)
        yield node, near, far


def column(folder: Path, name: str) -> list[int | None]:
    """Return what each packet brought of the station, None where that is missing."""
    return [None if one is pd.NA else int(one) for one in read_csv(folder / "records.csv")[name]]


def reported_and_read(host: Host, node: InterfaceNode) -> Reported:
    """Return what nl80211 tells, once the node has told its programs the same."""
    reported: list[Reported] = []

    def agree() -> bool:
        reported[:] = reported_by(host).values()
        return bool(node.waiting) and node.waiting[0].all_pkts == reported[0].waiting_pkts

    wait_until(agree)
    return reported[0]


def fill(host: Host, node: InterfaceNode, near: socket.socket, pkts: int) -> list[Reported]:
    """Leave the channel, and send until so many packets wait; return what was told before each of them."""
    reported = [reported_and_read(host, node)]
    while reported[-1].waiting_pkts < pkts:
        assert len(reported) < MANY
        if not reported[-1].waiting_pkts:
            leave(host)
        near.send(bytes(PAYLOAD_BYTES))
        reported.append(reported_and_read(host, node))
    return reported[:-1]


def test_a_packet_reports_what_waits_in_mac80211(air: Air, tmp_path: Path) -> None:
    with observed(air.station, air.access_point, tmp_path / "records.csv") as (node, near, far):
        near.send(bytes(PAYLOAD_BYTES))  # the neighbour is known now
        far.recv(2 * PAYLOAD_BYTES)
        expected = fill(air.station, node, near, PACKETS)
        for _ in expected:
            far.recv(2 * PAYLOAD_BYTES)
    depths = column(tmp_path, "queue_depth")[1:]
    known = [(depth, reported) for depth, reported in zip(depths, expected, strict=True) if depth is not None]
    assert [depth for depth, _ in known] == [
        -(-reported.waiting_bytes // PACKET_BYTES) for _, reported in known
    ]
    assert any(depth for depth, _ in known)  # of others the reading was too old, on a busy processor


def test_what_mac80211_drops_is_congestion_at_the_node(air: Air, tmp_path: Path) -> None:
    air.station.run(["iw", air.phy, "set", "txq", "limit", str(LIMIT_PKTS)])
    (before,) = reported_by(air.station).values()
    with observed(air.station, air.access_point, tmp_path / "records.csv") as (node, near, far):
        near.send(b"first")
        assert far.recv(100) == b"first"
        sent = len(fill(air.station, node, near, 1)) + 2 * LIMIT_PKTS
        for _ in range(2 * LIMIT_PKTS):
            near.send(bytes(PAYLOAD_BYTES))
        wait_until(lambda: not reported_and_read(air.station, node).waiting_pkts)
        read_ns = node.waiting[0].read_ns
        wait_until(lambda: node.waiting[0].read_ns > read_ns)
        near.send(b"last")
        received = 0
        while far.recv(2 * PAYLOAD_BYTES) != b"last":
            received += 1
    (after,) = reported_by(air.station).values()
    # The air loses nothing. nl80211 counts how often the limit was met, not the packets dropped then.
    dropped = sent - received
    assert dropped > 0
    assert after.dropped_pkts > before.dropped_pkts
    rows = {name: column(tmp_path, name) for name in COLUMNS}
    assert rows["queue_free_pkts"][0] == LIMIT_PKTS
    assert rows["flow_dropped_pkts"][-1] == dropped
    assert rows["lost_congestion_pkts"][-1] == dropped
    assert rows["lost_link_pkts"][-1] == 0
