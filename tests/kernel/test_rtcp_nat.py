"""Subscribers behind one address of a real NAT, with ports at random: nftables masquerades and polices."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ccp_algs.rtcp import Options
from ccplane.agent.features.rtcp.tables import known_clients
from experiments.netlab import Host
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.sockets import set_congestion
from experiments.netlab.spec import Direction
from experiments.netlab.topologies import point_to_point
from tests.kernel.peers import Peers, pacing_limit_of
from tests.kernel.test_rtcp_native import _read, _send, attached, states, until

SUBSCRIBERS = "10.99.0.0/16"
LIMITED = {1: (150_000, 50_000), 2: (250_000, 90_000), 3: (400_000, 20_000)}
"""Number of a subscriber -> its rate [bytes/s], and how much larger its bucket is than a second of that."""
FREE = (4, 5, 6)
OWN_BYTES_PER_S = 800_000
"""What the server paces those at that nothing limits."""
RTT_US = 20_000
HEADERS_RATIO = 1500 / 1448
PORT = 5201


def address_of(number: int) -> str:
    return f"10.99.0.{number}"


def translate_and_police(host: Host) -> None:
    commands = [
        "add table ip nat",
        "add chain ip nat leaving { type nat hook postrouting priority srcnat; }",
        f"add rule ip nat leaving ip saddr {SUBSCRIBERS} masquerade fully-random",
        "add table ip police",
        "add chain ip police arriving { type filter hook input priority 0; }",
    ]
    for number, (rate, burst) in LIMITED.items():
        limit = f"limit rate over {rate} bytes/second burst {burst} bytes"
        commands.append(f"add rule ip police arriving ip daddr {address_of(number)} {limit} drop")
    for command in commands:
        host.run(["nft", command])
    host.run(["ip", "route", "add", "local", SUBSCRIBERS, "dev", "lo"])


@pytest.fixture
def network() -> Iterator[EmulatedNetwork]:
    way = Direction(delay_us=RTT_US // 2)
    with emulated(point_to_point(way, way)) as net:
        translate_and_police(net.hosts["receiver"])
        yield net


@contextlib.contextmanager
def downloads(net: EmulatedNetwork) -> Iterator[dict[int, socket.socket]]:
    """Give the server's end of a connection of each subscriber, which has always something to send."""
    server, nat = net.hosts["sender"], net.hosts["receiver"]
    with contextlib.closing(Peers(server, nat, nat)) as peers, server.tcp_socket() as listener:
        listener.bind((server.ipv4, PORT))
        listener.listen()
        ends: dict[int, socket.socket] = {}
        threads = []
        for number in (*LIMITED, *FREE):
            far = nat.tcp_socket()
            far.bind((address_of(number), 0))
            far.connect((server.ipv4, PORT))
            near, _ = listener.accept()
            peers.open += [near, far]
            if number in FREE:
                near.setsockopt(socket.SOL_SOCKET, 47, OWN_BYTES_PER_S.to_bytes(8, "little"))
            set_congestion(near, "rtcp_cubic")
            ends[number] = near
            threads += [
                threading.Thread(target=_send, args=(near,)),
                threading.Thread(target=_read, args=(far,)),
            ]
        for thread in threads:
            thread.start()
        try:
            yield ends
        finally:
            for sock in peers.open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


def known() -> dict[str, dict[str, Any]]:
    return {one["client"]: one for one in known_clients()}


def test_subscribers_after_nat_are_reported_apart_by_what_they_lose(network: EmulatedNetwork) -> None:
    address = network.hosts["receiver"].ipv4
    with attached() as attachment, downloads(network) as ends:
        names = {number: f"{address}:{sock.getpeername()[1]}" for number, sock in ends.items()}
        limited = {names[number] for number in LIMITED}
        verdicts = until(
            attachment, lambda reported: limited <= {one.client for one in reported if one.state == "capped"}
        )
        verdicts += until(
            attachment,
            lambda _: all(
                abs(known()[names[number]]["rate_bytes_per_s"] * HEADERS_RATIO - rate) < 0.1 * rate
                for number, (rate, _) in LIMITED.items()
            ),
        )
        found = known()
        own = {pacing_limit_of(ends[number]) for number in FREE}
    apart = states(verdicts).index("apart")
    assert verdicts[apart].client == address
    assert {one.client for one in verdicts[apart + 1 :]} <= limited
    assert own == {OWN_BYTES_PER_S}
    flows = {name: one["open_flows"] for name, one in found.items()}
    assert flows == dict.fromkeys(names.values(), 1) | {address: 0}
    assert found[address]["state"] == "apart"


def test_subscribers_stay_together_where_that_is_wished(network: EmulatedNetwork) -> None:
    with attached(Options(falls_apart=False)) as attachment, downloads(network) as ends:
        until(attachment, lambda _: known_clients()[0]["lost_bytes"] > 500_000)
        (together,) = known_clients()
    assert together["open_flows"] == len(ends)
