"""What becomes of switched sockets when nobody looks after them any more: a command that is killed."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from broker.embedded import EmbeddedBroker
from ccplane.agent.features.regime.actuator import SWITCHED
from ccplane.agent.features.regime.rules import Treatment
from ccplane.agent.features.regime.sockets import LEASE_S
from experiments.agent_process import ccp
from experiments.netlab.sockets import congestion_of, set_congestion
from telemetry.bus import Bus
from telemetry.regime.detector import SHARED, SINGLE_OWNER, Regime
from telemetry.regime.follow import Standing
from telemetry.schema import RegimeDecision
from tests.kernel.peers import NO_LIMIT, Peers, pacing_limit_of, two_peers

pytestmark = pytest.mark.kernel(struct_ops=False)

ALONE = Standing(regime=SINGLE_OWNER, reason="quiet")
PACED: dict[Regime, Treatment] = {
    SINGLE_OWNER: Treatment(congestion="cubic", rate_bytes_per_s=1_000_000),
    SHARED: Treatment(congestion="reno"),
}
TIMEOUT_S = 20.0


@pytest.fixture
def peers() -> Iterator[Peers]:
    with two_peers() as peers:
        yield peers


def talk(own: socket.socket, foreign: socket.socket) -> None:
    """Send a little, so that an ACK comes."""
    own.sendall(b"x" * 1000)
    got = 0
    while got < 1000:
        got += len(foreign.recv(1000))


def killed_after_switching(peers: Peers, own: socket.socket) -> None:
    """Have the command switch a socket, and kill it as no handler can see."""
    path = peers.path_to(peers.near)
    with EmbeddedBroker() as broker, contextlib.ExitStack() as stack:
        url = f"mqtt://{broker.options.host}:{broker.options.port}"
        options = ["--netns", peers.sender.namespace, "--single", "cubic", "--shared", "reno"]
        command = subprocess.Popen(
            ccp("regime", "apply", "--broker", url, "--single-rate", "1000000", *options),
            stderr=subprocess.PIPE,
            text=True,
        )
        stack.callback(command.communicate)
        stack.callback(command.kill)
        assert command.stderr is not None
        assert "following the decisions" in command.stderr.readline()
        receiver = Bus(broker.options, sender="near-receiver")
        receiver.start()
        stack.callback(receiver.stop)
        receiver.publish(
            RegimeDecision(peer=path.peer, address=path.address, regime=SINGLE_OWNER, reason="quiet"),
            ttl_ms=60_000,
        )
        until(lambda: pacing_limit_of(own) == 1_000_000)
        assert congestion_of(own) == "cubic"


def until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def test_after_a_kill_sockets_go_back_by_themselves_open_ones_and_new_ones(peers: Peers) -> None:
    old, old_end = peers.connect(peers.near)
    set_congestion(old, "bbr")
    killed_after_switching(peers, old)
    killed_s = time.monotonic()
    talk(old, old_end)
    assert congestion_of(old) == "cubic", "there may be a successor yet"
    time.sleep(LEASE_S)

    def is_back() -> bool:
        talk(old, old_end)
        return congestion_of(old) == "bbr"

    until(is_back)
    assert time.monotonic() - killed_s < LEASE_S + 2
    assert pacing_limit_of(old) == NO_LIMIT
    talk(old, old_end)
    assert congestion_of(old) == "bbr"


def test_new_connections_are_under_the_same_deadline_and_none_switches_later_ones(peers: Peers) -> None:
    with peers.switched(treatments=PACED) as actuator:
        actuator.apply({peers.path_to(peers.near): ALONE})
        new, new_end = peers.connect(peers.near)
        assert (congestion_of(new), pacing_limit_of(new)) == ("cubic", 1_000_000)
        actuator._switch.close()  # no more than the kernel does when it is killed
        later, _ = peers.connect(peers.near)
        assert congestion_of(later) == "reno"

        def is_back() -> bool:
            talk(new, new_end)
            return (congestion_of(new), pacing_limit_of(new)) == ("reno", NO_LIMIT)

        until(is_back)


def test_a_successor_knows_what_the_application_chose(peers: Peers) -> None:
    """Before the deadline, on a path in the same regime, and although both idle connections look the same."""
    regimes = {peers.path_to(peers.near): ALONE}
    chose, chose_end = peers.connect(peers.near)
    had, _ = peers.connect(peers.near)
    set_congestion(chose, "bbr")
    killed_after_switching(peers, chose)
    assert congestion_of(had) == "cubic"
    with peers.switched(treatments=PACED) as actuator:
        assert [one for one in actuator.apply(regimes) if one.kind == SWITCHED] == [], "they have it already"
        time.sleep(LEASE_S + 1)
        actuator.apply(regimes)
        talk(chose, chose_end)
        assert congestion_of(chose) == "cubic", "it is looked after again"
        put_back = actuator.close(leave=False)
        assert sorted((one.before, one.after) for one in put_back) == [("cubic", "bbr"), ("cubic", "reno")]
    assert [(congestion_of(one), pacing_limit_of(one)) for one in (chose, had)] == [
        ("bbr", NO_LIMIT),
        ("reno", NO_LIMIT),
    ]


def test_what_a_dead_one_switched_and_its_successor_does_not_is_given_back(peers: Peers) -> None:
    own, _ = peers.connect(peers.near)
    set_congestion(own, "bbr")
    killed_after_switching(peers, own)
    with peers.switched("dport=1 -> destination", treatments=PACED) as actuator:

        def is_back() -> bool:
            actuator.apply({})
            return congestion_of(own) == "bbr"

        until(is_back)


def test_what_is_left_on_purpose_stays_and_its_application_s_choice_is_known(peers: Peers) -> None:
    own, end = peers.connect(peers.near)
    set_congestion(own, "bbr")
    regimes = {peers.path_to(peers.near): ALONE}
    with peers.switched(treatments=PACED) as actuator:
        actuator.apply(regimes)
    time.sleep(LEASE_S + 0.5)
    talk(own, end)
    assert congestion_of(own) == "cubic"
    with peers.switched(treatments=PACED) as actuator:
        actuator.apply(regimes)
        actuator.close(leave=False)
    assert (congestion_of(own), pacing_limit_of(own)) == ("bbr", NO_LIMIT)


def test_two_at_once_leave_each_other_s_sockets_alone(peers: Peers) -> None:
    near, _ = peers.connect(peers.near)
    far, _ = peers.connect(peers.far)
    with peers.switched(treatments=PACED) as one, peers.switched() as other:
        one.apply({peers.path_to(peers.near): ALONE})
        other.apply({peers.path_to(peers.far): ALONE})
        assert [congestion_of(sock) for sock in (near, far)] == ["cubic", "cubic"]
        one.close(leave=False)
        assert [congestion_of(sock) for sock in (near, far)] == ["reno", "cubic"]
        other.close(leave=False)
        assert [congestion_of(sock) for sock in (near, far)] == ["reno", "reno"]


def test_pacing_that_the_application_chose_meanwhile_is_not_taken_back(peers: Peers) -> None:
    so_max_pacing_rate = 47
    own, _ = peers.connect(peers.near)
    near = peers.path_to(peers.near)
    with peers.switched(treatments=PACED) as actuator:
        actuator.apply({near: ALONE})
        actuator.apply({near: Standing(regime=SHARED)})
        assert pacing_limit_of(own) == NO_LIMIT
        own.setsockopt(socket.SOL_SOCKET, so_max_pacing_rate, 5_000_000)
        actuator.apply({near: ALONE})
        assert pacing_limit_of(own) == 1_000_000
        actuator.close(leave=False)
    assert pacing_limit_of(own) == 5_000_000
