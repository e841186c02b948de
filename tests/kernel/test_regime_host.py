"""A host that follows as a whole: its default congestion control, ECN, and fq where the kernel has it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path as File

import pytest

from broker.embedded import EmbeddedBroker
from ccplane.agent.features.regime.actuator import FAIL_SAFE, PUT_BACK, REFUSED, SWITCHED
from ccplane.agent.features.regime.errors import SwitchError
from ccplane.agent.features.regime.host import HostActuator
from ccplane.agent.features.regime.settings import SYSCTLS, HostSettings
from experiments.netlab import Host, Lab, Path
from experiments.netlab.namespace import path_of
from experiments.netlab.sockets import (
    allowed_congestion_controls,
    available_congestion_controls,
    congestion_of,
)
from telemetry.regime import follow
from telemetry.regime.detector import SHARED, SINGLE_OWNER
from telemetry.regime.follow import Standing

pytestmark = pytest.mark.kernel(struct_ops=False)

SINGLE, BUSY = Standing(regime=SINGLE_OWNER), Standing(regime=SHARED)
RATE_BYTES_PER_S = 12_500_000
CCP = [sys.executable, "-c", "from ccplane.agent.entry import main; main()"]
WAIT_S = 30.0

Begin = Callable[..., HostActuator]


@pytest.fixture
def single() -> str:
    """A congestion control that a namespace may have, and that is not Reno."""
    return next(name for name in allowed_congestion_controls() if name != "reno")


@pytest.fixture
def run_dir(tmp_path: File) -> File:
    return tmp_path / "run"


@pytest.fixture
def begin(single: str, run_dir: File) -> Begin:
    """Begin to switch a host between that congestion control and Reno."""

    def begin(host: Host, single: str = single) -> HostActuator:
        settings = HostSettings(run_dir=run_dir)
        return HostActuator(
            single, "reno", None, RATE_BYTES_PER_S, netns=path_of(host.namespace), settings=settings
        )

    return begin


def settings_of(host: Host) -> tuple[str, ...]:
    """Return what of a host is switched."""
    names = ("tcp_congestion_control", "tcp_ecn")
    return host.call(lambda: tuple((SYSCTLS / name).read_text().strip() for name in names))


def queues_of(host: Host) -> str:
    return host.run(["tc", "qdisc", "show", "dev", "eth0"]).stdout


@pytest.fixture
def kernel_has_fq(lab: Lab) -> bool:
    command = ["tc", "qdisc", "add", "dev", "lo", "root", "fq"]
    return lab.add_host("fq").run(command, check=False).returncode == 0


def way(path: Path) -> follow.Path:
    return follow.Path(path.sender.ipv4, path.receiver.ipv4)


@pytest.fixture
def connected(wire: Path) -> Iterator[socket.socket]:
    """A connection that is there before anything is switched."""
    with wire.receiver.tcp_socket() as listener, wire.sender.tcp_socket() as sock:
        listener.bind((wire.receiver.ipv4, 0))
        listener.listen()
        sock.connect(listener.getsockname())
        yield sock


def test_new_sockets_of_a_host_follow_and_all_is_put_back(
    wire: Path, begin: Begin, single: str, kernel_has_fq: bool, connected: socket.socket
) -> None:
    before, queues = settings_of(wire.sender), queues_of(wire.sender)
    host = begin(wire.sender)
    assert settings_of(wire.sender) == before
    *refused, switched = host.apply({way(wire): SINGLE})
    assert (switched.kind, switched.before, switched.after) == (SWITCHED, before[0], single)
    assert settings_of(wire.sender) == (single, "1")
    with wire.sender.tcp_socket() as new:
        assert congestion_of(new) == single
    assert congestion_of(connected) == "reno"  # the paper says otherwise
    if kernel_has_fq:
        assert refused == []
        assert "qdisc fq cc7: root" in queues_of(wire.sender)
        assert "maxrate" not in queues_of(wire.sender)
    else:
        assert [(one.kind, one.wanted) for one in refused] == [(REFUSED, "fq")]
        assert refused[0].why == "cannot set fq on eth0: the kernel has no sch_fq"
    host.apply({way(wire): BUSY})
    assert settings_of(wire.sender) == ("reno", "1")
    assert ("maxrate 100Mbit" in queues_of(wire.sender)) == kernel_has_fq
    (back,) = host.close(leave=False)
    assert (back.before, back.after) == ("reno", before[0])
    assert settings_of(wire.sender) == before
    assert queues_of(wire.sender) == queues


def test_what_a_killed_one_left_is_put_back_by_the_next(
    wire: Path, begin: Begin, single: str, run_dir: File
) -> None:
    before, queues = settings_of(wire.sender), queues_of(wire.sender)
    program = f"""
import os, signal, pathlib
from ccplane.agent.features.regime.host import HostActuator
from ccplane.agent.features.regime.settings import HostSettings
from telemetry.regime.follow import Path, Standing
settings = HostSettings(run_dir=pathlib.Path({str(run_dir)!r}))
host = HostActuator({single!r}, "reno", settings=settings)
host.apply({{Path({wire.sender.ipv4!r}, {wire.receiver.ipv4!r}): Standing(regime="SINGLE_OWNER")}})
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = wire.sender.run([sys.executable, "-c", program], check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert settings_of(wire.sender)[0] == single
    host = begin(wire.sender)
    assert settings_of(wire.sender) == before
    assert queues_of(wire.sender) == queues
    host.close(leave=False)
    assert list(run_dir.iterdir()) == []


def test_it_leaves_the_host_as_it_is_when_asked_to(
    wire: Path, begin: Begin, single: str, run_dir: File
) -> None:
    host = begin(wire.sender)
    host.apply({way(wire): SINGLE})
    assert host.close(leave=True) == []
    assert settings_of(wire.sender) == (single, "1")
    assert list(run_dir.iterdir()) == []


def test_a_queue_that_something_chose_stays(wire: Path, begin: Begin) -> None:
    wire.sender.run(
        ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "1gbit", "burst", "1m", "latency", "9ms"]
    )
    host = begin(wire.sender)
    refused, _ = host.apply({way(wire): SINGLE})
    assert (refused.kind, refused.why) == (REFUSED, "eth0 already has a configured qdisc, tbf")
    host.close(leave=False)
    assert "qdisc tbf" in queues_of(wire.sender)


def test_an_interface_may_go_meanwhile(wire: Path, begin: Begin, run_dir: File) -> None:
    before = settings_of(wire.sender)
    host = begin(wire.sender)
    host.apply({way(wire): SINGLE})
    wire.sender.run(["ip", "link", "del", "eth0"])
    assert [one.kind for one in host.apply({way(wire): BUSY})] == [SWITCHED]
    host.close(leave=False)
    assert settings_of(wire.sender) == before
    assert list(run_dir.iterdir()) == []


def test_two_cannot_switch_one_host(wire: Path, begin: Begin) -> None:
    host = begin(wire.sender)
    with pytest.raises(SwitchError) as caught:
        begin(wire.sender)
    assert caught.value.slug == "switch.host_in_use"
    begin(wire.receiver).close(leave=False)
    host.close(leave=False)
    begin(wire.sender).close(leave=False)


def test_a_default_that_the_kernel_restricts_is_explained(wire: Path, begin: Begin) -> None:
    allowed = allowed_congestion_controls()
    # Debian's kernels have DCTCP in a module, which is loaded when a socket asks for it.
    restricted = next((name for name in available_congestion_controls() if name not in allowed), "dctcp")
    host = begin(wire.sender, restricted)
    with pytest.raises(SwitchError) as caught:
        host.apply({way(wire): SINGLE})
    assert caught.value.slug == "switch.not_permitted"
    assert "tcp_allowed_congestion_control in the initial network namespace" in caught.value.fix
    host.close(leave=False)


def test_the_first_namespace_gets_back_who_may_use_what(wire: Path, tmp_path: File, run_dir: File) -> None:
    # Files stand for the sysctls of the first namespace, which is not ours to change.
    sysctls = tmp_path / "sysctls"
    sysctls.mkdir()
    for name, value in (
        ("congestion_control", "cubic"),
        ("allowed_congestion_control", "reno cubic"),
        ("ecn", "2"),
    ):
        (sysctls / f"tcp_{name}").write_text(f"{value}\n")

    def switch() -> None:
        with HostSettings(sysctls, run_dir) as settings:
            assert settings.choose("dctcp") == "cubic"
            assert (sysctls / "tcp_ecn").read_text() == "1\n"
            # So the kernel does, and somebody else meanwhile.
            (sysctls / "tcp_allowed_congestion_control").write_text("reno cubic dctcp bbr\n")
            settings.choose("cubic")

    wire.sender.call(switch)
    values = {file.name: file.read_text() for file in sysctls.iterdir()}
    assert values == {
        "tcp_congestion_control": "cubic\n",
        "tcp_allowed_congestion_control": "reno cubic bbr\n",
        "tcp_ecn": "2\n",
    }


def test_the_command_follows_what_is_reported_until_it_expires(wire: Path, single: str) -> None:
    before = settings_of(wire.sender)
    way = ["--peer", wire.sender.ipv4, "--address", wire.receiver.ipv4]
    with EmbeddedBroker() as broker:
        url = ["--broker", str(broker.options)]
        options = ["--how", "host", "--netns", wire.sender.namespace, "--stale", "0", "--json"]
        names = ["--single", single, "--shared", "reno"]
        with subprocess.Popen(
            [*CCP, "regime", "apply", *url, *options, *names], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            lines = (json.loads(line) for line in process.stdout)
            first = next(lines)
            assert (first["kind"], first["after"]) == (SWITCHED, "reno")
            subprocess.run(
                [*CCP, "regime", "publish", "SINGLE_OWNER", *way, *url, "--ttl", "2000"], check=True
            )
            switched = next(line for line in lines if line["kind"] != REFUSED)  # fq, where there is none
            assert (switched["kind"], switched["after"]) == (SWITCHED, single)
            assert settings_of(wire.sender) == (single, "1")
            lost, back = next(lines), next(lines)
            assert (lost["kind"], back["kind"], back["after"]) == (FAIL_SAFE, SWITCHED, "reno")
            assert "the last decision has expired" in lost["why"]
            process.send_signal(signal.SIGINT)
            assert next(lines)["reason"] == PUT_BACK
            assert process.wait(WAIT_S) == 0
    assert settings_of(wire.sender) == before
