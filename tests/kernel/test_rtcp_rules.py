"""Which sockets `rtcp_cubic` and `rtcp_bbr` bound: real connections, chosen by rules."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator

import pytest

from ccp_algs.rtcp import Options
from ccplane.agent.features.regime.rules import Treatment
from ccplane.agent.features.rtcp.attached import MAX_CLIENTS, Attachment
from ccplane.agent.features.rtcp.rules import parse_bound_rule
from ccplane.agent.features.rtcp.tables import known_clients
from ccplane.base.errors import CcpError
from experiments.agent_process import ccp
from experiments.netlab import Host
from experiments.netlab.sockets import congestion_of, set_congestion
from telemetry.regime.detector import SHARED, SINGLE_OWNER
from tests.kernel.cgroups import cgroup, inside
from tests.kernel.driving import wait_until
from tests.kernel.peers import Peers, port_of, two_peers


@pytest.fixture
def peers() -> Iterator[Peers]:
    with two_peers() as peers:
        yield peers


@contextlib.contextmanager
def attached(*rules: str) -> Iterator[None]:
    attachment = Attachment(
        Options(), max_clients=MAX_CLIENTS, rules=[parse_bound_rule(one) for one in rules]
    )
    try:
        yield
    finally:
        attachment.close()


def bounded() -> set[str]:
    """The other ends of connections that are looked at."""
    return {one["client"] for one in known_clients() if one["open_flows"]}


def served(peers: Peers, client: Host, congestion: str, *, family: int = socket.AF_INET) -> socket.socket:
    """Return the end of a server's at the sender, whose listener has this congestion control."""
    with socket_of(peers.sender, family) as listener:
        set_congestion(listener, congestion)
        listener.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", 0))
        listener.listen()
        near = client.tcp_socket()
        near.connect((peers.path_to(client).peer, port_of(listener)))
        mine, _ = listener.accept()
    peers.open += [near, mine]
    return mine


def socket_of(host: Host, family: int) -> socket.socket:
    return host.tcp_socket("ipv6" if family == socket.AF_INET6 else "ipv4")


@pytest.mark.parametrize("own", ["cubic", "bbr"])
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_who_is_excepted_is_the_kernels_own_and_the_first_rule_decides(
    own: str, family: int, peers: Peers
) -> None:
    near, far = peers.near, peers.far
    with attached(f"dst={near.ipv4} -> except", "dst=0.0.0.0/0 -> limit"):
        there = served(peers, near, f"rtcp_{own}", family=family)
        here = served(peers, far, f"rtcp_{own}", family=family)
        assert [congestion_of(one) for one in (there, here)] == [own, f"rtcp_{own}"]
        assert bounded() == {far.ipv4}
        set_congestion(there, f"rtcp_{own}")
        assert congestion_of(there) == own, "also who chooses it later"


def test_who_no_rule_is_for_is_bounded_only_where_all_rules_are_exceptions(peers: Peers) -> None:
    with attached(f"dst={peers.near.ipv4} -> limit"):
        assert congestion_of(served(peers, peers.near, "rtcp_cubic")) == "rtcp_cubic"
        assert congestion_of(served(peers, peers.far, "rtcp_cubic")) == "cubic"
    with attached(f"dst={peers.near.ipv4} -> except"):
        assert congestion_of(served(peers, peers.near, "rtcp_cubic")) == "cubic"
        assert congestion_of(served(peers, peers.far, "rtcp_cubic")) == "rtcp_cubic"


def test_a_server_is_known_by_its_port_and_by_the_cgroup_that_listens(peers: Peers) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = port_of(free)
    with (
        cgroup(f"rtcp-{os.getpid()}") as group,
        attached(f"sport={port} -> limit", f"cgroup={group} -> limit"),
    ):
        one, other = (peers.connect(peers.near, port=at)[1] for at in (port, 0))
        for sock in (one, other):
            set_congestion(sock, "rtcp_cubic")
        assert [congestion_of(sock) for sock in (one, other)] == ["rtcp_cubic", "cubic"]
        with inside(group):
            assert congestion_of(served(peers, peers.far, "rtcp_cubic")) == "rtcp_cubic"
        assert congestion_of(served(peers, peers.far, "rtcp_cubic")) == "cubic"
        peers.close()


def test_who_was_given_to_us_by_a_program_goes_at_its_next_ack(peers: Peers) -> None:
    """A program's setsockopt may not be answered with another: the kernel says EBUSY."""
    sock, other_end = peers.connect(peers.near)
    set_congestion(sock, "reno")
    mine = Treatment(congestion="rtcp_cubic")
    with (
        attached(f"dst={peers.far.ipv4} -> limit"),
        peers.switched(
            "dport=1-65535 -> destination", treatments={SINGLE_OWNER: mine, SHARED: mine}
        ) as actuator,
    ):
        actuator.apply({})
        assert congestion_of(sock) == "rtcp_cubic"
        assert bounded() == set()
        sock.sendall(b"x")
        assert other_end.recv(1) == b"x"
        wait_until(lambda: congestion_of(sock) == "cubic")


def test_more_rules_than_there_is_room_for_are_refused() -> None:
    with pytest.raises(CcpError) as caught, attached(*["sport=80 -> limit"] * 257):
        pytest.fail("attached")
    assert caught.value.slug == "rtcp.too_many_rules"
    rules = (word for _ in range(257) for word in ("--rule", "sport=80 -> limit"))
    said = subprocess.run(ccp("rtcp", "attach", *rules), capture_output=True, text=True, check=False)
    assert (said.returncode, "use shorter prefixes" in said.stderr) == (1, True)
