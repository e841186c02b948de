"""Nothing of an emulated network stays, however it ends, and no network disturbs another."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.netlab import Host, Lab, LabError, clean_leftovers, namespace, process
from experiments.netlab.emulated import EmulatedNetwork, emulated
from experiments.netlab.spec import Direction
from experiments.netlab.topologies import point_to_point
from tests.tasks import read_of_tasks

pytestmark = pytest.mark.kernel(struct_ops=False)

LINK = point_to_point(Direction(delay_us=1000))


def is_reached(a: Host, b: Host) -> bool:
    """Return whether a packet comes from one host to another."""
    sockets = [host.call(lambda: socket.socket(type=socket.SOCK_DGRAM)) for host in (a, b)]
    with sockets[0] as near, sockets[1] as far:
        far.bind((b.ipv4, 0))
        far.settimeout(5)
        near.sendto(b"x", far.getsockname())
        return far.recv(10) == b"x"


def emulators(names: set[str]) -> list[int]:
    """Return the emulators' process numbers of some namespaces."""
    inside = namespace.processes_inside({name for name in names if name.endswith("-network-emulator")})
    return [pid for pids in inside.values() for pid in pids]


def own_namespaces() -> set[str]:
    return {name for name in namespace.names() if name.startswith(f"ccp-{os.getpid()}-")}


def holds_soon(condition: Callable[[], bool]) -> bool:
    """Return whether something comes true; the kernel takes a moment to end processes and devices."""
    deadline_s = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return condition()


# --- normal end --------------------------------------------------------------------------------------------


def test_networks_in_a_row_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    devices = set(os.listdir("/sys/class/net"))
    files, children = len(os.listdir("/proc/self/fd")), own_children()
    for _ in range(5):
        with emulated(LINK) as net:
            net.hosts["sender"].popen(["sleep", "100"])
            assert is_reached(net.hosts["sender"], net.hosts["receiver"])
            assert len(emulators(own_namespaces())) == 1
            assert set(os.listdir("/sys/class/net")) == devices
    gc.collect()
    assert own_namespaces() == set()
    assert set(os.listdir("/sys/class/net")) == devices
    assert own_children() == children
    assert len(os.listdir("/proc/self/fd")) <= files
    assert list(tmp_path.iterdir()) == []


def own_children() -> set[int]:
    """Return this process' children, those that ended and were not reaped included."""
    return {int(pid) for reported in read_of_tasks("self", "children").values() for pid in reported.split()}


def test_networks_side_by_side_do_not_meet() -> None:
    with emulated(LINK) as one, emulated(LINK) as other:
        assert one.hosts["sender"].ipv4 == other.hosts["sender"].ipv4
        assert is_reached(one.hosts["sender"], one.hosts["receiver"])
        assert one.stats()["link>"].delivered_pkts == 1
        assert other.stats()["link>"].delivered_pkts == 0
        assert len(emulators(own_namespaces())) == 2
    assert own_namespaces() == set()


def test_an_exception_leaves_nothing() -> None:
    with pytest.raises(RuntimeError, match="stop"), emulated(LINK):
        raise RuntimeError("stop")
    assert own_namespaces() == set()


def test_what_cannot_be_started_leaves_nothing(tmp_path: Path) -> None:
    unwritable = tmp_path / "links.csv"
    unwritable.mkdir()
    files = len(os.listdir("/proc/self/fd"))
    with pytest.raises(LabError) as caught, emulated(LINK, samples_path=unwritable):
        pytest.fail("it was built")
    assert caught.value.slug == "lab.emulator_died"
    assert str(unwritable) in caught.value.why
    assert own_namespaces() == set()
    assert len(os.listdir("/proc/self/fd")) <= files


# --- sudden ends -------------------------------------------------------------------------------------------


def kill_emulator(net: EmulatedNetwork) -> None:
    (pid,) = emulators(set(net.lab.namespaces))
    os.kill(pid, signal.SIGKILL)
    assert holds_soon(lambda: not process.runs(pid))


def killed_and_then(what: Callable[[EmulatedNetwork], None]) -> None:
    """Do something in a network whose emulator was killed."""
    with emulated(LINK) as net:
        kill_emulator(net)
        what(net)


def test_the_emulators_death_is_reported_when_it_is_asked_and_at_the_end() -> None:
    asked: list[str] = []

    def ask(net: EmulatedNetwork) -> None:
        with pytest.raises(LabError) as caught:
            net.stats()
        asked.append(caught.value.slug)

    with pytest.raises(LabError) as reported:
        killed_and_then(ask)
    assert [*asked, reported.value.slug] == ["lab.emulator_died"] * 2
    assert "SIGKILL" in reported.value.message
    assert own_namespaces() == set()


def test_the_emulators_death_explains_what_fails_with_it() -> None:
    def fail(_: EmulatedNetwork) -> None:
        raise ConnectionError("no route to host")

    with pytest.raises(LabError) as caught:
        killed_and_then(fail)
    assert caught.value.slug == "lab.emulator_died"
    assert isinstance(caught.value.__cause__, ConnectionError)
    with pytest.raises(LabError) as caught:
        killed_and_then(lambda net: print(net.stats()))
    assert caught.value.slug == "lab.emulator_died"
    assert caught.value.__cause__ is None or not isinstance(caught.value.__cause__, LabError)  # told once


VICTIM = """
import time
from experiments.netlab.emulated import emulated
from experiments.netlab.spec import Direction
from experiments.netlab.topologies import point_to_point
with emulated(point_to_point(Direction(delay_us=1000))) as net:
    print(*net.lab.namespaces, flush=True)
    time.sleep(100)
"""


def start_victim() -> tuple[subprocess.Popen[str], set[str], int]:
    """Start a run; return its namespaces and the emulator's process number, too."""
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert victim.stdout is not None
    names = set(victim.stdout.readline().split())
    (emulator,) = emulators(names)
    return victim, names, emulator


def devices(name: str) -> list[str]:
    return namespace.call_inside(
        name,
        lambda: sorted(
            line.split(":")[0].strip()
            for line in Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]
        ),
    )


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGINT, -signal.SIGINT),
        (signal.SIGTERM, 128 + signal.SIGTERM),
        (signal.SIGHUP, 128 + signal.SIGHUP),
    ],
)
def test_a_signal_leaves_nothing(number: signal.Signals, status: int) -> None:
    victim, names, emulator = start_victim()
    with victim:
        victim.send_signal(number)
        victim.communicate(timeout=20)
    assert victim.returncode == status
    assert not names & set(namespace.names())
    assert not process.runs(emulator)


@pytest.mark.alone
def test_the_emulator_and_its_devices_go_when_the_run_is_killed() -> None:
    victim, names, emulator = start_victim()
    sender = next(name for name in names if name.endswith("-sender"))
    assert devices(sender) == ["eth0", "lo"]
    with victim:
        victim.kill()
        victim.communicate(timeout=20)
    assert holds_soon(lambda: not process.runs(emulator))
    assert holds_soon(lambda: devices(sender) == ["lo"])
    assert names <= set(clean_leftovers())
    assert not names & set(namespace.names())


@pytest.mark.alone
def test_an_emulator_that_hangs_is_killed_with_what_a_killed_run_left() -> None:
    victim, names, emulator = start_victim()
    os.kill(emulator, signal.SIGSTOP)
    with victim:
        victim.kill()
        victim.communicate(timeout=20)
    assert process.runs(emulator)
    with Lab():
        assert not names & set(namespace.names())
        assert holds_soon(lambda: not process.runs(emulator))
