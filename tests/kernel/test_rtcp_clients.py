"""Which remote ends R-TCP takes for one client, on real sockets: prefixes, blocks of ports, both families."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
from collections.abc import Iterator
from ipaddress import ip_network

import pytest

from ccp_algs.rtcp import Options
from ccplane.agent.features.rtcp.tables import known_clients
from experiments.agent_process import ccp
from experiments.netlab import Host, Path
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.sockets import set_congestion
from experiments.netlab.spec import Direction, Family
from experiments.netlab.topologies import point_to_point
from tests.kernel.peers import Peers
from tests.kernel.test_rtcp_native import POLICED, RATE_BYTES_PER_S, RTT_US, attached, sending, states, until

IPV6_HEADERS_RATIO = 1500 / 1428


@pytest.fixture
def policed() -> Iterator[EmulatedNetwork]:
    with emulated(point_to_point(POLICED, Direction(delay_us=RTT_US // 2))) as net:
        yield net


@contextlib.contextmanager
def peers_of(wire: Path) -> Iterator[Peers]:
    with contextlib.closing(Peers(wire.sender, wire.receiver, wire.receiver)) as peers:
        yield peers


def add_own(host: Host, *addresses: str) -> None:
    for address in addresses:
        host.run(["ip", "address", "add", address, "dev", "lo"])


def connect_to(peers: Peers, address: str, port: int = 0) -> socket.socket:
    """Return a connection of the sender's to an address of its own, which is as good a client as any."""
    family: Family = "ipv6" if ":" in address else "ipv4"
    with peers.sender.tcp_socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen()
        near = peers.sender.tcp_socket(family)
        near.connect(listener.getsockname())
        peers.open += [near, listener.accept()[0]]
    set_congestion(near, "rtcp_cubic")
    return near


def open_flows() -> dict[str, int]:
    return {one["client"]: one["open_flows"] for one in known_clients()}


@pytest.mark.parametrize("congestion", ["rtcp_cubic", "rtcp_bbr"])
def test_a_limit_is_found_over_ipv6_and_its_prefix_is_shown(
    congestion: str, policed: EmulatedNetwork
) -> None:
    prefix = str(ip_network(f"{policed.hosts['receiver'].ipv6}/64", strict=False))
    with attached() as attachment, sending(policed, congestion, family="ipv6"):
        verdicts = until(attachment, lambda reported: states(reported).count("capped") >= 2)
        shown = subprocess.run(ccp("rtcp", "show", "--json"), capture_output=True, check=True)
    assert {one.client for one in verdicts} == {prefix}
    assert verdicts[-1].rate_bytes_per_s * IPV6_HEADERS_RATIO == pytest.approx(RATE_BYTES_PER_S, rel=0.1)
    (table,) = json.loads(shown.stdout)
    assert [one["client"] for one in table["clients"]] == [prefix]


def test_addresses_of_a_prefix_are_one_client(wire: Path) -> None:
    v6, v4 = ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"), ("127.0.0.2", "127.0.0.3")
    nat64 = ("64:ff9b::192.0.2.1", "64:ff9b::198.51.100.7")
    add_own(wire.sender, *v6, *nat64)
    with attached(), peers_of(wire) as peers:
        for address in (*v6, *v4, *nat64):
            connect_to(peers, address)
        assert open_flows() == {
            "2001:db8::/64": 2,
            "2001:db8:0:1::/64": 1,
            "127.0.0.2": 1,
            "127.0.0.3": 1,
            "64:ff9b::c000:201": 1,
            "64:ff9b::c633:6407": 1,
        }
    with attached(Options(ipv4_prefix_bits=24, ipv6_prefix_bits=56)), peers_of(wire) as peers:
        for address in (*v6, *v4):
            connect_to(peers, address)
        assert open_flows() == {"2001:db8::/56": 3, "127.0.0.0/24": 2}


def test_blocks_of_ports_are_clients_of_their_own(wire: Path) -> None:
    with attached(Options(ports_per_client=1024)), peers_of(wire) as peers:
        for port in (4095, 4096, 5119, 5120):
            connect_to(peers, "127.0.0.2", port)
        assert open_flows() == {
            "127.0.0.2:3072-4095": 1,
            "127.0.0.2:4096-5119": 2,
            "127.0.0.2:5120-6143": 1,
        }


def test_a_client_of_ipv4_is_the_same_at_a_socket_of_ipv6(wire: Path) -> None:
    with attached(), peers_of(wire) as peers:
        set_congestion(peers.accept_on_both_families(wire.receiver), "rtcp_cubic")
        set_congestion(peers.connect(wire.receiver)[0], "rtcp_cubic")
        assert open_flows() == {wire.receiver.ipv4: 2}
