"""Ordinary sockets that follow the regimes of their paths: real connections of one process to two peers."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path as File

import msgspec
import pytest

from broker.embedded import EmbeddedBroker
from ccplane.agent.features.regime.actuator import FAIL_SAFE, PUT_BACK, REFUSED, SWITCHED, RegimeEvent
from ccplane.agent.features.regime.namespace import cookie, inside
from ccplane.agent.features.regime.rules import Entry, Treatment
from ccplane.agent.features.regime.sockets import cgroup_root
from ccplane.base.errors import CcpError
from ccplane.datapath import ebpf
from experiments.agent_process import ccp, running_agent
from experiments.netlab import Path
from experiments.netlab.namespace import path_of
from experiments.netlab.sockets import congestion_of, set_congestion
from experiments.netlab.spec import Family
from telemetry.bus import Bus
from telemetry.regime import follow
from telemetry.regime.detector import SHARED, SINGLE_OWNER, Regime
from telemetry.regime.follow import Standing
from telemetry.schema import RegimeDecision
from telemetry.status import online
from tests.kernel.peers import NO_LIMIT, Peers, has_ecn, pacing_limit_of, port_of, two_peers, window_of

without_ccp = pytest.mark.kernel(struct_ops=False)

ALONE = Standing(regime=SINGLE_OWNER, reason="quiet")
BUSY = Standing(regime=SHARED, reason="marks")
LOST = Standing(regime=SHARED, lost=follow.STALE, reason="the last decision has expired")
DCTCP_ALONE: dict[Regime, Treatment] = {
    SINGLE_OWNER: Treatment(congestion="dctcp"),
    SHARED: Treatment(congestion="cubic"),
}
TIMEOUT_S = 30.0


@pytest.fixture
def peers() -> Iterator[Peers]:
    with two_peers() as peers:
        yield peers


def ends_of(events: list[RegimeEvent]) -> list[tuple[str, str, int]]:
    """What happened, to whom, and at which port of ours."""
    return [(one.kind, one.flow.dst, one.flow.src_port) for one in events if one.flow is not None]


def network(address: str, bits: int) -> str:
    return str(ipaddress.ip_interface(f"{address}/{bits}").network)


@without_ccp
def test_a_process_with_two_peers_has_each_flow_as_its_own_path_wants_it(peers: Peers) -> None:
    near, far = peers.path_to(peers.near), peers.path_to(peers.far)
    old_near, near_end = peers.connect(peers.near)
    old_far, _ = peers.connect(peers.far)
    for sock in (old_near, old_far):
        set_congestion(sock, "reno")
    with peers.switched() as actuator:
        assert actuator.apply({}) == []
        untouched = window_of(old_far)
        (event,) = actuator.apply({near: ALONE})
        assert (event.kind, event.before, event.after) == (SWITCHED, "reno", "cubic")
        assert (event.regime, event.reason) == (SINGLE_OWNER, "quiet")
        assert (event.flow.src, event.flow.dst) == (near.peer, near.address)
        assert (event.flow.src_port, event.flow.dst_port) == (port_of(old_near), port_of(near_end))
        assert [congestion_of(one) for one in (old_near, near_end, old_far)] == ["cubic", "reno", "reno"]

        new_near, _ = peers.connect(peers.near)
        come_near = peers.accept_on_both_families(peers.near)
        new_far, _ = peers.connect(peers.far)
        assert [congestion_of(one) for one in (new_near, come_near, new_far)] == ["cubic", "cubic", "reno"]
        reported = [(SWITCHED, near.address, port_of(one)) for one in (new_near, come_near)]
        assert ends_of(actuator.apply({near: ALONE})) == reported

        (event,) = actuator.apply({near: BUSY, far: ALONE})[-1:]
        assert [congestion_of(one) for one in (old_near, new_near, come_near)] == ["reno"] * 3
        assert [congestion_of(one) for one in (old_far, new_far)] == ["cubic"] * 2
        assert window_of(old_far) == untouched

        put_back = actuator.close(leave=False)
        assert {(one.before, one.after, one.reason) for one in put_back} == {("cubic", "reno", PUT_BACK)}
        assert len(put_back) == 2
        every = (old_near, new_near, come_near, old_far, new_far)
        assert [congestion_of(one) for one in every] == ["reno"] * 5
        later, _ = peers.connect(peers.far)
        assert congestion_of(later) == "reno"


@without_ccp
def test_what_an_application_chooses_meanwhile_is_switched_again_and_given_back(peers: Peers) -> None:
    sock, _ = peers.connect(peers.near)
    set_congestion(sock, "reno")
    with peers.switched() as actuator:
        regimes = {peers.path_to(peers.near): ALONE}
        actuator.apply(regimes)
        set_congestion(sock, "bbr")
        deadline_s = time.monotonic() + TIMEOUT_S
        while not (events := actuator.apply(regimes)):
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        assert [(one.kind, one.before, one.after) for one in events] == [(SWITCHED, "bbr", "cubic")]
        put_back = actuator.close(leave=False)
        assert [(one.before, one.after) for one in put_back] == [("cubic", "bbr")]
        assert congestion_of(sock) == "bbr"


@without_ccp
def test_sockets_of_a_path_that_is_forgotten_get_back_what_they_had(peers: Peers) -> None:
    """There is room for so many paths; the one that was heard of longest ago goes."""
    sock, _ = peers.connect(peers.near)
    set_congestion(sock, "reno")
    with peers.switched() as actuator:
        limited = Treatment(congestion="cubic", rate_bytes_per_s=1_000_000)
        actuator._treatments[SINGLE_OWNER] = limited
        actuator.apply({peers.path_to(peers.near): ALONE})
        assert (congestion_of(sock), pacing_limit_of(sock)) == ("cubic", 1_000_000)
        (event,) = actuator.apply({peers.path_to(peers.far): ALONE})
        assert (event.kind, event.before, event.after, event.reason) == (SWITCHED, "cubic", "reno", PUT_BACK)
        assert (congestion_of(sock), pacing_limit_of(sock)) == ("reno", NO_LIMIT)


@without_ccp
def test_rules_choose_by_prefix_port_and_receiver_the_first_one_first(peers: Peers) -> None:
    near = peers.path_to(peers.near)
    by_port = f"dport=6001-6002 src={near.peer} -> {peers.near.ipv4}"
    prefix = f"dst={network(peers.far.ipv4, 24)} -> destination"
    (first, _), (last, _), (beyond, _) = (peers.connect(peers.far, port=port) for port in (6001, 6002, 6003))
    (ruled, _), (six, _) = peers.connect(peers.near, port=6002), peers.connect(peers.near, family="ipv6")
    for sock in (beyond, ruled, six):
        set_congestion(sock, "cubic")
    with peers.switched(by_port, prefix) as actuator:
        events = actuator.apply({near: ALONE})
        assert [congestion_of(one) for one in (first, last)] == ["reno", "reno"], "of another address of ours"
        assert congestion_of(beyond) == "reno", "undecided, and therefore shared"
        assert [congestion_of(one) for one in (ruled, six)] == ["cubic"] * 2
        assert ends_of(events) == [(SWITCHED, peers.far.ipv4, port_of(beyond))]
    with peers.switched(f"dport=6001-6002 -> {peers.near.ipv4}") as actuator:
        actuator.apply({near: ALONE})
        assert [congestion_of(one) for one in (first, last, beyond, ruled)] == [
            "cubic",
            "cubic",
            "reno",
            "cubic",
        ]
    with peers.switched(f"dst={network(peers.near.ipv6, 64)} -> destination") as actuator:
        actuator.apply({})
        new, _ = peers.connect(peers.near, family="ipv6")
        assert [congestion_of(one) for one in (six, new)] == ["reno", "reno"]
        assert ends_of(actuator.apply({})) == [], "new ones are Reno's anyway"
        actuator.apply({follow.Path(peers.sender.ipv6, peers.near.ipv6): ALONE})
        assert [congestion_of(one) for one in (six, new)] == ["cubic", "cubic"]


CONNECT = """
import socket, sys
open(sys.argv[1] + "/cgroup.procs", "w").write("0")
socks = [socket.create_connection((sys.argv[2], int(sys.argv[3])))]
print("connected", flush=True)
for line in sys.stdin:
    if line == "again\\n":
        socks.append(socket.create_connection((sys.argv[2], int(sys.argv[3]))))
    names = [s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16) for s in socks]
    print(*(name.rstrip(b"\\0").decode() for name in names), flush=True)
"""


@without_ccp
def test_a_cgroup_has_its_sockets_switched_and_those_of_the_ones_below_and_no_others(peers: Peers) -> None:
    outer = cgroup_root() / f"ccplane-test-{port_of(peers.connect(peers.near)[0])}"
    inner, other = outer / "inner", outer.with_name(f"{outer.name}-other")
    with contextlib.ExitStack() as stack:
        for directory in (outer, inner, other):
            directory.mkdir()
            stack.callback(directory.rmdir)
        listener = stack.enter_context(peers.near.tcp_socket())
        listener.bind((peers.near.ipv4, 0))
        listener.listen()
        where = [peers.near.ipv4, str(port_of(listener))]
        inside_it, outside = (
            stack.enter_context(
                peers.sender.popen(
                    [sys.executable, "-c", CONNECT, str(directory), *where],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
            )
            for directory in (inner, other)
        )

        def ask(process: subprocess.Popen[str], what: str) -> list[str]:
            process.stdin.write(f"{what}\n")
            process.stdin.flush()
            return process.stdout.readline().split()

        for process in (inside_it, outside):
            stack.callback(process.wait, TIMEOUT_S)
            stack.callback(process.kill)
            assert process.stdout.readline() == "connected\n"
        near = peers.path_to(peers.near)
        for rules, cgroup in (([f"cgroup={outer} -> destination"], None), ([], outer)):
            with peers.switched(*rules, cgroup=cgroup) as actuator:
                actuator.apply({near: ALONE})
                assert set(ask(inside_it, "again")) == {"cubic"}
                assert set(ask(outside, "again")) == {"reno"}
                actuator.close(leave=False)
            assert set(ask(inside_it, "say")) == {"reno"}
    with pytest.raises(CcpError) as caught, peers.switched(cgroup=File("/proc")):
        pytest.fail("no cgroup")
    assert caught.value.slug == "switch.no_cgroup"


@without_ccp
@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_connections_that_shall_get_what_needs_ecn_ask_for_it(peers: Peers, family: Family) -> None:
    """Whatever `tcp_ecn` of the sender says; what receivers do by default is enough."""
    before, _ = peers.connect(peers.near, family=family)
    entry = Entry(congestion="cubic", needs_ecn=True, asks_ecn=True)
    with inside(path_of(peers.sender.namespace)):
        switch = ebpf.socket_switch(cgroup_root(), cookie())
    with contextlib.closing(switch):
        switch.set_rules(msgspec.json.encode([entry]))
        with inside(path_of(peers.sender.namespace)):
            switch.switch_all()
            switch.switch_all()
        assert not has_ecn(before)
        assert congestion_of(before) == "reno"
        no_ecn = 2  # SWITCH_NO_ECN
        assert switch.drain()["what"].tolist() == [no_ecn], "refused, and said once"
        for own in (0, 1, 2):
            peers.sender.set_sysctl("net.ipv4.tcp_ecn", own)
            mine, foreign = peers.connect(peers.near, family=family)
            assert has_ecn(mine)
            assert has_ecn(foreign)
            assert [congestion_of(mine), congestion_of(foreign)] == ["cubic", "reno"]
        peers.near.set_sysctl("net.ipv4.tcp_ecn", 0)
        refused, _ = peers.connect(peers.near, family=family)
        assert not has_ecn(refused)
        assert congestion_of(refused) == "reno"
        peers.near.set_sysctl("net.ipv4.tcp_ecn", 1)
        _, come = peers.connect(peers.sender, peers.near, family=family)
        assert has_ecn(come)
        assert congestion_of(come) == "cubic"
        assert sorted(switch.drain()["what"].tolist()) == [1, 1, 1, 1, no_ecn]
    unasked, _ = peers.connect(peers.near, family=family)
    assert not has_ecn(unasked) or congestion_of(unasked) == "reno"


@without_ccp
def test_window_and_threshold_stay_and_pacing_is_limited_while_the_regime_lasts(
    path_100mbit: Path,
) -> None:
    """What Linux does with a socket that gets another congestion control."""
    treatments = {
        SINGLE_OWNER: Treatment(congestion="reno", rate_bytes_per_s=3_000_000),
        SHARED: Treatment(congestion="cubic"),
    }
    sender, receiver = path_100mbit.sender, path_100mbit.receiver
    path = follow.Path(sender.ipv4, receiver.ipv4)
    with contextlib.closing(Peers(sender, receiver, receiver)) as peers:
        keep_window(peers, path, treatments)


def keep_window(peers: Peers, path: follow.Path, treatments: dict[Regime, Treatment]) -> None:
    mine, foreign = peers.connect(peers.near)
    set_congestion(mine, "cubic")
    n_bytes = 12_000_000

    def read_all() -> None:
        left = n_bytes
        while left:
            left -= len(foreign.recv(min(left, 1 << 20)))

    reader = threading.Thread(target=read_all)
    reader.start()
    mine.sendall(bytes(n_bytes))
    reader.join(TIMEOUT_S)
    before = window_of(mine)
    assert before[1] < 1 << 31, "something was lost: there is a threshold"
    with peers.switched(treatments=treatments) as actuator:
        assert len(actuator.apply({path: ALONE})) == 1
        assert (congestion_of(mine), window_of(mine), pacing_limit_of(mine)) == ("reno", before, 3_000_000)
        assert len(actuator.apply({path: BUSY})) == 1
        assert (congestion_of(mine), window_of(mine), pacing_limit_of(mine)) == ("cubic", before, NO_LIMIT)
        actuator.apply({path: ALONE})
        set_congestion(mine, "cubic")
        assert actuator.close(leave=False) == [], "its own choice since is not taken back"
        assert (congestion_of(mine), pacing_limit_of(mine)) == ("cubic", NO_LIMIT)


@without_ccp
def test_each_flow_of_a_path_that_is_lost_is_reported_of_once(peers: Peers) -> None:
    near, far = peers.path_to(peers.near), peers.path_to(peers.far)
    (one, _), (other, _), (elsewhere, _) = (
        peers.connect(host) for host in (peers.near, peers.near, peers.far)
    )
    with peers.switched() as actuator:
        actuator.apply({near: ALONE, far: ALONE})
        set_congestion(other, "reno")
        events = actuator.apply({near: LOST, far: ALONE})
        fail_safe = [event for event in events if event.kind == FAIL_SAFE]
        assert {event.flow.src_port for event in fail_safe} == {port_of(one), port_of(other)}
        assert {event.why for event in fail_safe} == {LOST.reason}
        assert [(event.flow.src_port, event.after) for event in events if event.kind == SWITCHED] == [
            (port_of(one), "reno")
        ]
        assert congestion_of(elsewhere) == "cubic"
        assert actuator.apply({near: LOST, far: ALONE}) == []
        events = actuator.apply({near: LOST, far: BUSY})
        assert ends_of(events) == [(SWITCHED, far.address, port_of(elsewhere))]
        assert actuator.close(leave=True) == []
    assert congestion_of(elsewhere) == "reno"


@without_ccp
def test_the_first_entry_that_matches_decides_among_thousands(peers: Peers) -> None:
    near, far = peers.path_to(peers.near), peers.path_to(peers.far)
    strangers = {follow.Path(near.peer, f"192.0.{n // 250}.{n % 250}"): BUSY for n in range(1900)}
    (one, _), (other, _), (elsewhere, _) = (
        peers.connect(host) for host in (peers.near, peers.near, peers.far)
    )
    for sock in (one, other, elsewhere):
        set_congestion(sock, "cubic")
    # The rule that names a port stands before the entries of paths, which are found by their addresses.
    with peers.switched(f"sport={port_of(one)} -> {far.address}", "dport=1-65535 -> destination") as actuator:
        actuator.apply({**strangers, near: ALONE, far: BUSY})
        assert [congestion_of(sock) for sock in (one, other, elsewhere)] == ["reno", "cubic", "reno"]
        late, _ = peers.connect(peers.near)
        assert congestion_of(late) == "cubic"


@without_ccp
def test_what_cannot_be_a_rule_never_reaches_the_kernel(peers: Peers) -> None:
    with peers.switched(*["dport=1 -> destination"] * 5000) as actuator, pytest.raises(CcpError) as caught:
        actuator.apply({})
    assert caught.value.slug == "switch.too_many"
    with inside(path_of(peers.sender.namespace)):
        switch = ebpf.socket_switch(cgroup_root(), cookie())
    for rules in (b"nonsense", msgspec.json.encode([Entry(congestion="x" * 16)])):
        with pytest.raises(CcpError) as caught:
            switch.set_rules(rules)
        assert caught.value.slug == "switch.bad_rule"
    switch.close()
    with pytest.raises(CcpError) as caught:
        switch.drain()
    assert caught.value.slug == "switch.closed"


def test_where_the_kernel_has_no_dctcp_own_takes_its_place(peers: Peers) -> None:
    peers.sender.set_sysctl("net.ipv4.tcp_ecn", 2)
    path = peers.path_to(peers.near)
    before, _ = peers.connect(peers.near)
    with (
        running_agent("dctcp"),
        peers.switched(f"dst={path.address} -> destination", treatments=DCTCP_ALONE) as actuator,
    ):
        actuator.apply({})
        during, there = peers.connect(peers.near)
        assert [congestion_of(one) for one in (before, during)] == ["cubic", "cubic"]
        assert has_ecn(during)
        events = [event for event in actuator.apply({path: ALONE}) if event.regime == SINGLE_OWNER]
        assert {event.kind: (event.flow.src_port, event.after or event.wanted) for event in events} == {
            REFUSED: (port_of(before), congestion_of(during)),
            SWITCHED: (port_of(during), congestion_of(during)),
        }
        assert congestion_of(during) in ("dctcp", "ccp.dctcp")
        assert congestion_of(before) == "cubic"
        during.sendall(b"x" * 100_000)
        got = 0
        while got < 100_000:
            got += len(there.recv(1 << 20))
        actuator.apply({path: BUSY})
        assert congestion_of(during) == "cubic"


@without_ccp
def test_the_command_follows_the_bus_falls_back_and_puts_everything_back(peers: Peers) -> None:
    path = peers.path_to(peers.near)
    mine, _ = peers.connect(peers.near)
    with EmbeddedBroker() as broker, contextlib.ExitStack() as stack:
        url = f"mqtt://{broker.options.host}:{broker.options.port}"
        options = [
            "--netns",
            peers.sender.namespace,
            "--single",
            "cubic",
            "--shared",
            "reno",
            "--stale",
            "100",
        ]
        command = subprocess.Popen(
            ccp("regime", "apply", "--json", "--broker", url, *options),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        stack.callback(command.communicate)
        stack.callback(command.kill)
        assert "following the decisions" in command.stderr.readline()

        def happens(count: int) -> list[dict[str, object]]:
            return [json.loads(command.stdout.readline()) for _ in range(count)]

        receiver = Bus(broker.options, sender="near-receiver", status=online("receiver"))
        receiver.start()
        stack.callback(receiver.stop)
        body = RegimeDecision(peer=path.peer, address=path.address, regime=SINGLE_OWNER, reason="quiet")
        receiver.publish(body, ttl_ms=60_000)
        (line,) = happens(1)
        assert (line["kind"], line["before"], line["after"]) == (SWITCHED, "reno", "cubic")
        assert (line["regime"], line["reason"]) == (SINGLE_OWNER, "quiet")
        assert line["flow"]["src_port"] == port_of(mine)
        receiver.stop()
        lines = happens(2)
        assert [one["kind"] for one in lines] == [FAIL_SAFE, SWITCHED]
        assert lines[0]["why"] == "near-receiver is offline"
        assert congestion_of(mine) == "reno"

        again = Bus(broker.options, sender="another-receiver")
        again.start()
        stack.callback(again.stop)
        again.publish(body, ttl_ms=200)
        assert [one["kind"] for one in happens(3)] == [SWITCHED, FAIL_SAFE, SWITCHED]
        again.publish(body, ttl_ms=60_000)
        happens(1)
        assert congestion_of(mine) == "cubic"
        command.send_signal(signal.SIGINT)
        out, errors = command.communicate(timeout=TIMEOUT_S)
        assert (command.returncode, errors) == (0, "")
        assert [json.loads(one)["reason"] for one in out.splitlines()] == [PUT_BACK]
        assert congestion_of(mine) == "reno"
