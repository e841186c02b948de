"""Slots: a refused socket's turn, quotas of users and cgroups, and slots that are taken away."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest

from ccplane.base import _native
from ccplane.base.errors import LoadError
from experiments.netlab import Path, congestion_of
from tests.kernel.bpf_maps import BpfMap, opened
from tests.kernel.cgroups import cgroup, inside
from tests.kernel.driving import EVERY_ACK, PIN_DIR, Driver, loaded

CCP = b"ccp"
REAP_AFTER_MS = 500


@dataclass
class Ends:
    """Connections between two hosts, of which the client's ends choose `ccp`."""

    path: Path
    around: ExitStack
    server: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        """Listen."""
        self.server = self.around.enter_context(
            self.path.receiver.call(lambda: socket.create_server(("", 0), backlog=64))
        )

    def connect(self, make: Callable[[], socket.socket] = socket.socket) -> Connection:
        """Make one; `make` makes the client's socket."""
        client = self.around.enter_context(self.path.sender.call(make))
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CCP)
        client.connect((self.path.receiver.ipv4, self.server.getsockname()[1]))
        return Connection(client, self.around.enter_context(self.server.accept()[0]))


@dataclass
class Connection:
    """One of them."""

    client: socket.socket
    peer: socket.socket

    def talk(self) -> None:
        """Send something, and see that it arrives."""
        self.client.sendall(bytes(1000))
        self.peer.settimeout(10)
        left = 1000
        while left:
            left -= len(self.peer.recv(left))

    def close(self) -> None:
        """Close both ends, without waiting states."""
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.client.close()
        self.peer.close()

    @property
    def port(self) -> int:
        """The client's port."""
        return int(self.client.getsockname()[1])


@pytest.fixture
def ends(wire: Path) -> Iterator[Ends]:
    """No connections yet."""
    with ExitStack() as around:
        yield Ends(wire, around)


def ports(datapath: _native.EbpfDatapath) -> list[int]:
    """Return the local ports of the flows that have slots."""
    return sorted(info.src_port for info in datapath.flows())


def counted(datapath: _native.EbpfDatapath, *names: str) -> tuple[int, ...]:
    """Return some counters."""
    counters = datapath.counters()
    return tuple(counters[name] for name in names)


def as_user(uid: int) -> Callable[[], socket.socket]:
    """Return what makes a socket, and gives it to a user."""

    def make() -> socket.socket:
        made = socket.socket()
        os.fchown(made.fileno(), uid, -1)
        return made

    return make


def test_a_refused_socket_gets_its_turn_when_a_slot_is_free(ends: Ends) -> None:
    with loaded(max_flows=1) as datapath:
        driver = Driver(datapath, datapath.install(_native.compile(EVERY_ACK)))
        first, second = ends.connect(), ends.connect()
        driver.until(lambda: ports(datapath) == [first.port])
        assert counted(datapath, "flows_over_limit", "without_slot_limit") == (1, 1)
        driver.run_for(1.2)
        second.talk()  # it asks, and there is none
        assert counted(datapath, "flows_over_limit", "without_slot_limit") == (1, 1)
        first.close()
        driver.until(lambda: counted(datapath, "flows_active") == (0,))
        driver.run_for(1.2)
        second.talk()
        driver.until(lambda: driver.seen.created[-1].src_port == second.port)
        flow = driver.seen.created[-1]
        assert ports(datapath) == [second.port]
        assert counted(datapath, "flows_over_limit", "without_slot_limit") == (1, 0)

        def reports() -> bool:
            second.talk()
            return bool(driver.seen.of(flow.flow_id))

        driver.until(reports)  # its algorithm steers it
        second.close()
        driver.until(lambda: flow.flow_id in driver.seen.closed)
        assert counted(datapath, "flows_active", "without_slot_limit", "without_slot_quota") == (0, 0, 0)


def test_a_refused_socket_that_closes_is_no_longer_counted_as_one_without_a_slot(ends: Ends) -> None:
    with loaded(max_flows=1) as datapath:
        ends.connect()
        refused = ends.connect()
        assert counted(datapath, "flows_over_limit", "without_slot_limit") == (1, 1)
        refused.close()
        Driver(datapath, None).until(lambda: counted(datapath, "without_slot_limit") == (0,))


def test_one_user_has_no_more_slots_than_its_quota(ends: Ends) -> None:
    with loaded(max_flows_per_user=2) as datapath:
        driver = Driver(datapath, None)
        foreign = [ends.connect(as_user(1234)) for _ in range(4)]
        own = ends.connect()
        assert ports(datapath) == sorted([foreign[0].port, foreign[1].port, own.port])
        assert counted(datapath, "flows_over_quota", "flows_over_limit", "without_slot_quota") == (2, 0, 2)
        for one in foreign:
            one.talk()
        foreign[0].close()
        driver.run_for(1.2)
        foreign[2].talk()
        foreign[3].talk()
        driver.until(lambda: ports(datapath) == sorted([foreign[1].port, foreign[2].port, own.port]))
        assert counted(datapath, "flows_over_quota", "without_slot_quota") == (2, 1)
        for one in [*foreign[1:], own]:
            one.close()
        driver.until(lambda: counted(datapath, "flows_active", "without_slot_quota") == (0, 0))
        assert holders() == {}


def test_one_cgroup_has_no_more_slots_than_its_quota(ends: Ends) -> None:
    with cgroup("a") as group, loaded(max_flows_per_user=5, max_flows_per_cgroup=2) as datapath:
        driver = Driver(datapath, None)
        with inside(group):
            foreign = [ends.connect() for _ in range(3)]
        own = ends.connect()
        cgroup_id = group.stat().st_ino
        assert [info.cgroup_id for info in datapath.flows()].count(cgroup_id) == 2
        assert counted(datapath, "flows_over_quota", "without_slot_quota") == (1, 1)
        counts = holders()
        assert counts["cgroup", cgroup_id] == 2
        assert counts["user", 0] == 3, "who was refused for its cgroup does not count as its user's"
        foreign[0].close()
        driver.run_for(1.2)
        foreign[2].talk()
        driver.until(lambda: foreign[2].port in ports(datapath))
        for one in [*foreign[1:], own]:
            one.close()
        driver.until(lambda: counted(datapath, "flows_active", "without_slot_quota") == (0, 0))
        assert holders() == {}


def test_an_agent_with_other_quotas_counts_the_flows_that_are_there(ends: Ends) -> None:
    with loaded() as first:
        foreign = [ends.connect(as_user(1234)) for _ in range(3)]
        assert holders() == {}, "without a quota nothing is counted"
        first.close()
        with _native.EbpfDatapath(pin_dir=PIN_DIR, max_flows=1024, max_flows_per_user=3) as second:
            assert second.adopted
            assert holders() == {("user", 1234): 3}
            more = ends.connect(as_user(1234))
            assert counted(second, "flows_active", "flows_over_quota") == (3, 1)
        with _native.EbpfDatapath(pin_dir=PIN_DIR, max_flows=1024) as third:
            free = ends.connect(as_user(1234))
            assert free.port in ports(third)
            foreign[0].close()
            Driver(third, None).until(lambda: counted(third, "flows_active") == (3,))
            assert holders() == {("user", 1234): 2}, "who was counted is taken out"
        with _native.EbpfDatapath(pin_dir=PIN_DIR, max_flows=1024, max_flows_per_user=1) as fourth:
            assert holders() == {("user", 1234): 3}, "nobody twice"
            for one in (*foreign[1:], more, free):
                one.close()
            Driver(fourth, None).until(
                lambda: counted(fourth, "flows_active", "without_slot_quota") == (0, 0)
            )
            assert holders() == {}


def test_a_quota_is_reported_to_be_wrong() -> None:
    for whose in ("user", "cgroup"):
        with pytest.raises(LoadError) as caught:
            _native.EbpfDatapath(pin_dir=PIN_DIR, **{f"max_flows_per_{whose}": 0})
        assert caught.value.slug == "load.option"
        assert f"max_flows_per_{whose} is out of range: 0" in str(caught.value)


# Slots that are taken away


def test_an_idle_flow_loses_its_slot_to_one_that_waits_and_gets_another(ends: Ends) -> None:
    with loaded(max_flows=1, reap_after_ms=REAP_AFTER_MS) as datapath:
        driver = Driver(datapath, datapath.install(_native.compile(EVERY_ACK)))
        idle = ends.connect()
        idle.talk()
        driver.until(lambda: driver.seen.created)
        first = driver.seen.created[0]
        driver.run_for(0.1)
        idle.talk()  # totals are taken every 10 ms
        driver.run_for(1.5)
        assert ports(datapath) == [idle.port], "slots are not scarce: nobody waits for one"
        busy = ends.connect()

        def reaped() -> bool:
            busy.talk()
            return ports(datapath) == [busy.port]

        driver.until(reaped)
        assert first.flow_id in driver.seen.closed
        assert driver.seen.closed[first.flow_id].bytes_acked >= 1000
        assert counted(datapath, "flows_reaped", "without_slot_limit") == (1, 0)
        idle.talk()  # it notices, and finds no slot
        assert congestion_of(idle.client) == "ccp"
        assert counted(datapath, "flows_active", "without_slot_limit") == (1, 1)
        busy.close()
        driver.until(lambda: counted(datapath, "flows_active") == (0,))
        driver.run_for(1.2)
        idle.talk()
        driver.until(lambda: ports(datapath) == [idle.port] and len(driver.seen.created) == 3)
        again = driver.seen.created[-1]
        assert again.flow_id != first.flow_id

        def reports() -> bool:
            idle.talk()
            return bool(driver.seen.of(again.flow_id))

        driver.until(reports)
        idle.close()
        driver.until(lambda: again.flow_id in driver.seen.closed)
        assert counted(datapath, "flows_active", "without_slot_limit") == (0, 0)


def test_the_end_of_a_socket_whose_slot_was_taken_away_is_not_that_of_the_next_owner(ends: Ends) -> None:
    with loaded(max_flows=1, max_flows_per_user=5, reap_after_ms=REAP_AFTER_MS) as datapath:
        driver = Driver(datapath, None)
        idle = ends.connect(as_user(1234))
        busy = ends.connect(as_user(4321))

        def reaped() -> bool:
            busy.talk()
            return ports(datapath) == [busy.port]

        driver.until(reaped)
        assert holders() == {("user", 4321): 1}
        idle.close()
        driver.run_for(0.2)
        busy.talk()
        assert ports(datapath) == [busy.port]
        assert counted(datapath, "flows_active", "flows_created") == (1, 2)
        busy.close()
        driver.until(lambda: counted(datapath, "flows_active") == (0,))
        third = ends.connect()
        assert ports(datapath) == [third.port], "the slot is there once"
        ends.connect()
        assert counted(datapath, "flows_active", "without_slot_limit") == (1, 1)


def test_a_slot_that_leaked_comes_back(ends: Ends) -> None:
    """No program that should run can be skipped on purpose: a slot is made one that no socket has."""
    with loaded(max_flows=1, reap_after_ms=REAP_AFTER_MS) as datapath:
        driver = Driver(datapath, None)
        one = ends.connect()
        lose_owner(0)
        one.close()
        driver.run_for(0.2)
        assert counted(datapath, "flows_active") == (1,), "nobody gave it back"
        waits = ends.connect()
        assert counted(datapath, "without_slot_limit") == (1,)

        def has_slot() -> bool:
            waits.talk()
            return ports(datapath) == [waits.port]

        driver.until(has_slot)
        waits.close()
        driver.until(lambda: counted(datapath, "flows_active", "without_slot_limit") == (0, 0))
        assert counted(datapath, "flows_reaped") == (1,)


def test_a_slot_that_could_not_be_returned_is_returned_later(ends: Ends) -> None:
    """The kernel can refuse to append to the queue of free slots; here the queue is full."""
    with loaded(max_flows=2) as datapath, opened(f"{PIN_DIR}/free_slots") as free:
        driver = Driver(datapath, None)
        one = ends.connect()
        free.push(struct.pack("=I", 1))
        one.close()
        driver.until(lambda: driver.seen.closed)
        assert counted(datapath, "slots_not_returned") == (1,)
        assert (free.pop(), free.pop()) == (struct.pack("=I", 1), struct.pack("=I", 1))
        free.push(struct.pack("=I", 1))
        driver.until(lambda: counted(datapath, "flows_active") == (0,))
        assert sorted(iter(free.pop, None)) == [struct.pack("=I", slot) for slot in range(2)]
        assert counted(datapath, "slots_not_returned") == (1,)


def test_a_user_at_its_quota_loses_its_own_silent_flows(ends: Ends) -> None:
    with loaded(max_flows_per_user=1, reap_after_ms=REAP_AFTER_MS) as datapath:
        driver = Driver(datapath, None)
        other = ends.connect(as_user(4321))
        idle = ends.connect(as_user(1234))
        busy = ends.connect(as_user(1234))
        assert counted(datapath, "without_slot_quota") == (1,)

        def reaped() -> bool:
            busy.talk()
            other.talk()
            return ports(datapath) == sorted([busy.port, other.port])

        driver.until(reaped)
        assert holders() == {("user", 1234): 1, ("user", 4321): 1}
        for one in (other, idle, busy):
            one.close()
        driver.until(lambda: counted(datapath, "flows_active") == (0,))
        assert holders() == {}


def test_slots_that_an_agent_took_away_are_given_back_by_the_next(ends: Ends) -> None:
    with loaded(max_flows=1, reap_after_ms=REAP_AFTER_MS) as first:
        ends.connect()
        waits = ends.connect()
        driver = Driver(first, None)
        driver.until(lambda: driver.seen.closed)  # at the next look it would become free
        first.close()
        assert counted(first, "flows_active") == (1,)
        with _native.EbpfDatapath(pin_dir=PIN_DIR, max_flows=1) as second:
            driver = Driver(second, None)

            def has_slot() -> bool:
                waits.talk()
                return ports(second) == [waits.port]

            driver.until(has_slot)
            assert counted(second, "flows_active", "flows_reaped") == (1, 1)


# Maps, read and written as any process with the right may


@contextmanager
def pinned(name: str) -> Iterator[BpfMap]:
    """Open a map of the tests' datapath."""
    with opened(f"{PIN_DIR}/{name}") as found:
        yield found


def holders() -> dict[tuple[str, int], int]:
    """Return who has how many slots, as the kernel side counts them."""
    found = {}
    with pinned("holders") as table:
        for key, value in table.items():
            kind = {1: "user", 2: "cgroup"}[int.from_bytes(key[8:12], "little")]
            found[kind, int.from_bytes(key[:8], "little")] = int.from_bytes(value[:4], "little")
    return found


def lose_owner(slot: int) -> None:
    """Give the flow in a slot an id that no socket knows."""
    key = slot.to_bytes(4, "little")
    with pinned("flows") as flows:
        value = flows[key]
        flow_id = int.from_bytes(value[:8], "little")
        flows[key] = (flow_id + (1 << 40)).to_bytes(8, "little") + value[8:]
