"""The lab builds what it promises, and nothing of it stays."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path as FilePath
from typing import Any

import pytest
from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError
from typer.testing import CliRunner

from experiments.netlab import (
    IperfServer,
    Lab,
    LabError,
    Path,
    bottleneck,
    clean_leftovers,
    congestion_of,
    iperf3,
    links,
    namespace,
    process,
    start_iperf3,
    two_hosts,
)
from experiments.netlab.cli import app
from experiments.netlab.emulated import emulated
from experiments.netlab.lab import DEFAULT_CONGESTION, list_namespaces
from experiments.netlab.spec import Direction, Family
from experiments.netlab.topologies import point_to_point

pytestmark = pytest.mark.kernel(struct_ops=False)

RATE_BYTES_PER_S = 12.5e6
GOODPUT_SHARE = 1448 / 1514  # of the shaper's rate: TCP payload in a full Ethernet frame, with timestamps


def own() -> list[str]:
    return [found.namespace for found in list_namespaces() if found.pid == os.getpid()]


def exchange(path: Path, family: Family, congestion: str | None = None) -> str:
    """Send a word from the sender to the receiver; return the congestion control that it went by."""
    address = (path.receiver.address(family), 7)
    with path.receiver.tcp_socket(family) as listener, path.sender.tcp_socket(family, congestion) as client:
        listener.settimeout(5)
        client.settimeout(0.5)  # a link that is up answers at once, over IPv6, too
        listener.bind(address)
        listener.listen()
        client.connect(address)
        server, peer = listener.accept()
        with server:
            assert peer[0] == path.sender.address(family)
            client.sendall(b"word")
            assert server.recv(4, socket.MSG_WAITALL) == b"word"
        return congestion_of(client)


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_hosts_reach_each_other_at_once(family: Family) -> None:
    with two_hosts() as path:
        assert exchange(path, family, "reno") == "reno"
        assert len(own()) == 2
    assert own() == []


def test_without_ipv6_hosts_have_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for a kernel with `ipv6.disable=1`, by the errors that such a kernel gives."""

    class Netlink:
        def __init__(self) -> None:
            self._ipr = IPRoute()

        def __enter__(self) -> Netlink:
            return self

        def __exit__(self, *_: object) -> None:
            self._ipr.close()

        def __getattr__(self, name: str) -> Any:
            def asked(*what: object, **fields: object) -> Any:
                if ":" in f"{fields.get('address')} {fields.get('dst')}":
                    raise NetlinkError(errno.EOPNOTSUPP, "Operation not supported")
                return getattr(self._ipr, name)(*what, **fields)

            return asked

    def write_text(file: FilePath, text: str) -> int:
        if file.is_relative_to("/proc/sys/net/ipv6"):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return written(file, text)

    def opened(family: int = socket.AF_INET, *kind: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
        return sockets(family, *kind)

    written, sockets = FilePath.write_text, socket.socket
    monkeypatch.setattr(FilePath, "write_text", write_text)
    monkeypatch.setattr(links, "IPRoute", Netlink)
    direction = Direction(rate_bytes_per_s=RATE_BYTES_PER_S, delay_us=1000)
    with emulated(point_to_point(direction)) as net, bottleneck(RATE_BYTES_PER_S, 100_000) as path:
        ends = net.hosts["sender"], net.hosts["receiver"]
        assert iperf3(*ends, congestion="reno", duration_s=1).goodput_bit_per_s > 0
        assert exchange(path, "ipv4", "reno") == "reno"
        monkeypatch.setattr(socket, "socket", opened)
        for use in (path.receiver.address, path.receiver.tcp_socket):
            with pytest.raises(LabError) as caught:
                use("ipv6")
            assert caught.value.slug == "lab.no_ipv6"


def test_devices_are_never_in_the_machines_own_namespace() -> None:
    before = set(os.listdir("/sys/class/net"))
    with bottleneck(RATE_BYTES_PER_S, 100_000):
        assert set(os.listdir("/sys/class/net")) == before


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_the_shaper_keeps_its_rate(path_100mbit: Path, family: Family) -> None:
    # Reno fills the buffer; CUBIC may leave slow start by the delay, and fills it seconds later.
    result = iperf3(
        path_100mbit.sender, path_100mbit.receiver, congestion="reno", duration_s=3, family=family
    )
    # Never more than the rate; less where the machine is busy and the timers of the shaper are late.
    assert 0.8 < result.goodput_bytes_per_s / (RATE_BYTES_PER_S * GOODPUT_SHARE) < 1.02
    assert result.rtt_mean_us is not None
    assert result.rtt_mean_us < 40_000  # the buffer holds 20 ms
    assert len({interval.cwnd_bytes for interval in result.intervals}) > 1
    assert path_100mbit.shaper is not None
    stats = path_100mbit.shaper.stats()
    assert stats.sent_bytes > result.received_bytes
    assert stats.overlimits > 0
    assert stats.dropped_pkts > 0


def test_a_full_buffer_refuses_packets_at_the_sender_itself() -> None:
    with bottleneck(RATE_BYTES_PER_S, 20_000, shaper_at="sender") as path:
        assert path.shaper is not None
        assert path.shaper.host is path.sender
        iperf3(path.sender, path.receiver, congestion="reno", duration_s=1)
        assert path.shaper.stats().dropped_pkts > 0


def test_the_rate_changes_while_packets_flow(path_100mbit: Path) -> None:
    assert path_100mbit.shaper is not None
    path_100mbit.shaper.set(rate_bytes_per_s=RATE_BYTES_PER_S / 5)
    assert path_100mbit.shaper.buffer_bytes == 250_000
    with start_iperf3(path_100mbit.sender, path_100mbit.receiver, congestion="cubic", duration_s=2) as run:
        assert run.running
        result = run.wait()
    assert result.goodput_bytes_per_s == pytest.approx(RATE_BYTES_PER_S / 5 * GOODPUT_SHARE, rel=0.1)


def test_jumbo_frames_fit_through() -> None:
    with two_hosts(mtu_bytes=9000) as path:
        result = iperf3(path.sender, path.receiver, congestion="cubic", total_bytes=5_000_000)
        assert result.sent_bytes >= 5_000_000
        assert result.cwnd_max_bytes is not None
        assert result.cwnd_max_bytes % (9000 - 20 - 32) == 0  # whole segments, with timestamps
        assert path.sender.interfaces[0].mtu_bytes == 9000


def test_a_receiving_client_and_several_streams(wire: Path) -> None:
    back = iperf3(
        wire.sender, wire.receiver, congestion="reno", total_bytes=3_000_000, reverse=True, family="ipv6"
    )
    assert back.congestion == "reno"
    many = iperf3(
        wire.sender, wire.receiver, congestion="reno", duration_s=1, parallel=3, rate_bytes_per_s=1e6
    )
    assert {interval.stream for interval in many.intervals} == {0, 1, 2}
    assert many.goodput_bytes_per_s == pytest.approx(3e6, rel=0.2)


def test_an_unknown_congestion_control_is_an_error(wire: Path) -> None:
    for attempt in (
        lambda: iperf3(wire.sender, wire.receiver, congestion="nope", duration_s=1),
        lambda: wire.sender.tcp_socket(congestion="nope"),
        lambda: wire.sender.set_default_congestion("nope"),
    ):
        with pytest.raises(LabError) as caught:
            attempt()
        assert caught.value.slug == "lab.no_congestion_control"
        assert "`nope`" in caught.value.message


def test_a_default_congestion_control_is_the_sockets(lab: Lab) -> None:
    host = lab.add_host("a", congestion="reno")
    with host.tcp_socket() as sock:
        assert congestion_of(sock) == "reno"


def test_sockets_do_not_begin_with_the_machines_default(lab: Lab) -> None:
    # BBR would pace them, and that stays with a socket that chooses another later.
    with lab.add_host("a").tcp_socket() as sock:
        assert congestion_of(sock) == DEFAULT_CONGESTION


def test_a_default_that_the_kernel_restricts_is_explained(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    host = lab.add_host("a")
    monkeypatch.setattr("experiments.netlab.host.allowed_congestion_controls", lambda: ["reno"])
    with pytest.raises(LabError) as caught:
        host.set_default_congestion("cubic")
    assert caught.value.slug == "lab.not_permitted"
    assert "tcp_allowed_congestion_control" in caught.value.fix


def test_a_taken_port_is_an_error(wire: Path) -> None:
    with IperfServer(wire.receiver, port=5999), pytest.raises(LabError) as caught:
        wire.receiver.run(["sh", "-c", "iperf3 -s -1 -p 5999"], timeout_s=10)
    assert caught.value.slug == "lab.command_failed"
    with pytest.raises(LabError) as caught:
        IperfServer(wire.receiver, port=0)
    assert caught.value.slug == "lab.not_listening"
    assert caught.value.why


def test_a_host_sees_the_machines_bpf_and_control_groups(wire: Path) -> None:
    here = FilePath("/sys/fs/cgroup").stat().st_ino
    assert wire.sender.run(["stat", "-c", "%i", "/sys/fs/cgroup"]).stdout.strip() == str(here)


def test_an_unknown_sysctl_is_an_error(wire: Path) -> None:
    with pytest.raises(LabError) as caught:
        wire.sender.set_sysctl("net.ipv4.no_such_thing", 1)
    assert caught.value.slug == "lab.bad_value"


def test_a_host_is_named_once(lab: Lab) -> None:
    lab.add_host("a")
    with pytest.raises(LabError) as caught:
        lab.add_host("a")
    assert caught.value.slug == "lab.bad_value"


def test_an_exception_leaves_nothing_after() -> None:
    def fail_inside() -> None:
        with two_hosts() as path:
            path.sender.popen(["sleep", "100"])
            path.receiver.run(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 &"])  # in no group of ours
            assert len(own()) == 2
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail_inside()
    assert own() == []
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "sleep 1000" not in running.splitlines()


VICTIM = """
import subprocess, time
from experiments.netlab import two_hosts
with two_hosts() as path:
    inside = path.sender.popen(["sh", "-c", "echo inside; exec sleep 1000"], stdout=subprocess.PIPE)
    inside.stdout.readline()
    print(path.sender.namespace, path.receiver.namespace, inside.pid, flush=True)
    while True:  # a signal that comes just before a sleep begins does not end it
        time.sleep(0.1)
"""


def start_victim() -> tuple[subprocess.Popen[str], list[str], int]:
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert victim.stdout is not None
    *names, inside = victim.stdout.readline().split()
    assert set(names) <= set(namespace.names())
    return victim, names, int(inside)


@pytest.mark.alone
def test_what_a_killed_run_left_is_found_and_cleaned() -> None:
    victim, names, inside = start_victim()
    with victim:
        assert not set(names) & set(clean_leftovers())  # it is alive: hands off
        victim.kill()
        victim.communicate(timeout=20)
    left = {found.namespace: found for found in list_namespaces()}
    assert [left[name].in_use for name in names] == [False, False]
    assert [left[name].n_processes for name in names] == [1, 0]
    reported = CliRunner().invoke(app, ["list"], env={"COLUMNS": "200"})
    assert names[0] in reported.output
    assert "stale" in reported.output
    cleaned = CliRunner().invoke(app, ["clean"])
    assert cleaned.exit_code == 0
    assert set(cleaned.output.split()) >= set(names)
    assert not set(names) & set(namespace.names())
    assert not process.runs(inside)
    assert not set(names) & set(clean_leftovers())
