"""`TcpTrace`: its rows agree with what the sockets say of themselves, and nothing of it stays."""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from ccplane.base._native import TcpTrace
from ccplane.base.errors import CcpError
from experiments.netlab import IperfRun, Path
from experiments.netlab.spec import Family
from tests.kernel.driving import inode, said_without_privilege, wait_until

pytestmark = pytest.mark.kernel(struct_ops=False)

NONE = 2**64 - 1
CLOSED = 7  # TCP_CLOSE
TCP_INFO: dict[str, tuple[str, int]] = {  # type and offset in struct tcp_info of <linux/tcp.h>
    "mss_bytes": ("=I", 16),
    "ssthresh_pkts": ("=I", 76),
    "cwnd_pkts": ("=I", 80),
    "retrans_pkts": ("=I", 100),
    "bytes_acked": ("=Q", 120),
    "bytes_received": ("=Q", 128),
    "min_rtt_us": ("=I", 148),
    "delivered_pkts": ("=I", 192),
    "bytes_sent": ("=Q", 200),
    "bytes_retrans": ("=Q", 208),
}


def tcp_info(sock: socket.socket) -> dict[str, int]:
    raw = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return {name: struct.unpack_from(kind, raw, at)[0] for name, (kind, at) in TCP_INFO.items()}


def ends(path: Path) -> list[int]:
    """Namespaces of both ends: other labs of this machine have sockets, too."""
    return [inode(path.sender), inode(path.receiver)]


@contextmanager
def transfer(path: Path, family: Family, size_bytes: int, congestion: str) -> Iterator[socket.socket]:
    """Send so much; yield the sender's socket when all is acknowledged, close both behind."""

    def receive(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            left = size_bytes
            while left:
                left -= len(connection.recv(1 << 16))
            connection.sendall(b".")
            connection.recv(1)

    with path.receiver.tcp_socket(family) as listener:
        listener.bind((path.receiver.address(family), 0))
        listener.listen()
        receiver = threading.Thread(target=receive, args=[listener])
        receiver.start()
        with path.sender.tcp_socket(family, congestion) as sender:
            sender.settimeout(30)
            sender.connect(listener.getsockname())
            sender.sendall(bytes(size_bytes))
            assert sender.recv(1) == b"."
            yield sender
        receiver.join()


class Rows:
    """Rows of a trace, as they are drained."""

    def __init__(self, trace: TcpTrace) -> None:
        self._trace = trace
        self._parts = [trace.drain()]

    def all(self) -> np.ndarray[Any, Any]:
        self._parts.append(self._trace.drain())
        return np.concatenate(self._parts)

    def until_closed(self, n_sockets: int) -> np.ndarray[Any, Any]:
        """Return all rows when so many sockets have told their end."""
        wait_until(lambda: (self.all()["state"] == CLOSED).sum() >= n_sockets)
        return self.all()


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_the_last_row_agrees_with_the_sockets_own_account(path_100mbit: Path, family: Family) -> None:
    # A row for every segment: where the machine stood still, all ACKs of a recovery may come within 1 ms.
    with TcpTrace(0, ends(path_100mbit), ring_bytes=1 << 23) as trace:
        rows = Rows(trace)
        with transfer(path_100mbit, family, 12_000_000, "cubic") as sender:
            info = tcp_info(sender)
            sport, dport = sender.getsockname()[1], sender.getpeername()[1]
            cookie = struct.unpack("=Q", sender.getsockopt(socket.SOL_SOCKET, 57, 8))[0]  # SO_COOKIE
        found = rows.until_closed(2)
        assert trace.dropped == 0
    mine = found[found["cookie"] == cookie]
    assert info["retrans_pkts"] > 0, "the buffer overflowed: there is something to compare"
    last = mine[-1]
    assert last["state"] == CLOSED
    assert last["cwnd_bytes"] == info["cwnd_pkts"] * info["mss_bytes"]
    assert last["ssthresh_bytes"] == info["ssthresh_pkts"] * info["mss_bytes"]
    for name in ("bytes_acked", "bytes_received", "delivered_pkts"):
        assert last[name] - info[name] in (0, 1), name  # the kernel counts a FIN
    for name in ("mss_bytes", "retrans_pkts", "bytes_sent", "bytes_retrans"):
        assert last[name] == info[name], name
    assert 0 < last["min_rtt_us"] <= info["min_rtt_us"]  # the FIN may have been the fastest
    assert last["lost_pkts"] > 0
    assert last["bytes_in_flight"] == 0
    assert 10_000 < mine["srtt_us"].max() < 500_000  # the buffer holds 20 ms
    assert 10_000 < mine["rtt_us"].max() < 500_000
    assert mine["bytes_in_flight"].max() > 100_000
    assert {3, 4} & set(mine["ca_state"])  # Recovery, or Loss after a timeout
    assert mine["ssthresh_bytes"][0] == NONE
    assert 1e6 < np.median(mine["pacing_rate_bytes_per_s"]) < 1e9

    hosts = path_100mbit.sender, path_100mbit.receiver
    for row in mine:
        assert (row["sport"], row["dport"]) == (sport, dport)
        assert row["netns"] == inode(hosts[0])
        assert row["family"] == (socket.AF_INET if family == "ipv4" else socket.AF_INET6)
        assert row["congestion"] == b"cubic"
        for host, column in zip(hosts, ("saddr", "daddr"), strict=True):
            address = ipaddress.IPv6Address(bytes(row[column]))
            assert str(address.ipv4_mapped or address) == host.address(family)


def test_an_interval_passes_between_two_rows_of_a_socket(path_100mbit: Path) -> None:
    with TcpTrace(50_000, ends(path_100mbit), ring_bytes=1 << 16) as trace:
        rows = Rows(trace)
        with transfer(path_100mbit, "ipv4", 8_000_000, "reno"):
            pass
        found = rows.until_closed(2)
    sender = found[found["bytes_sent"] > 1_000_000]
    gaps_us = np.diff(sender["t_us"][:-1])  # the last row comes with the end, not with the interval
    assert len(gaps_us) >= 5  # 8 MB take 640 ms
    assert gaps_us.min() >= 50_000
    assert np.median(gaps_us) < 100_000  # ACKs are frequent: no row is a whole interval late


def test_the_interval_decides_in_the_kernel_how_many_rows_there_are(wire: Path) -> None:
    with TcpTrace(0, ends(wire)) as every, TcpTrace(3_600_000_000, ends(wire)) as seldom:
        rows = Rows(every)
        with transfer(wire, "ipv4", 2_000_000, "reno"):
            pass
        n_sender = (rows.until_closed(2)["bytes_sent"] > 0).sum()
        few = seldom.drain()
    assert n_sender > 10
    for cookie in set(few["cookie"]):
        states = few["state"][few["cookie"] == cookie]
        assert list(states) == [1, CLOSED]  # its first segment, and its end


def test_two_flows_are_kept_apart(path_100mbit: Path, start_transfer: Callable[..., IperfRun]) -> None:
    hosts = path_100mbit.sender, path_100mbit.receiver
    with TcpTrace(50_000, [inode(hosts[0])]) as trace:
        rows = Rows(trace)
        runs = {
            name: start_transfer(*hosts, congestion=name, duration_s=1, client_port=port)
            for name, port in (("reno", 6001), ("cubic", 6002))
        }
        received = {name: run.wait().received_bytes for name, run in runs.items()}
        found = rows.until_closed(4)  # with the two control connections
    assert len(set(found["cookie"])) == 4
    for name, port in (("reno", 6001), ("cubic", 6002)):
        flow = found[found["sport"] == port]
        assert len(set(flow["cookie"])) == 1
        assert set(flow["congestion"][1:]) == {name.encode()}  # iperf3 chooses it when it has connected
        assert int(flow["bytes_acked"][-1]) == pytest.approx(received[name], rel=0.05)  # ends in a reset
        assert (np.diff(flow["t_us"].astype(np.int64)) > 0).all()
        assert (np.diff(flow["bytes_acked"].astype(np.int64)) >= 0).all()


def test_only_the_namespaces_asked_for_are_seen(wire: Path) -> None:
    with TcpTrace(0, ends(wire)) as both, TcpTrace(0, [inode(wire.receiver)]) as some:
        with TcpTrace(0, []) as nothing, TcpTrace(0) as everything:
            rows = Rows(both)
            with transfer(wire, "ipv4", 100_000, "reno"):
                pass
            found = rows.until_closed(2)
            assert len(nothing.drain()) == 0
            assert set(ends(wire)) <= set(everything.drain()["netns"])
        assert set(found["netns"]) == set(ends(wire))
        assert set(some.drain()["netns"]) == {inode(wire.receiver)}


def test_rows_that_do_not_fit_are_counted(wire: Path) -> None:
    with TcpTrace(0, ends(wire), ring_bytes=4096) as trace, TcpTrace(0, ends(wire)) as roomy:
        rows = Rows(roomy)
        with transfer(wire, "ipv4", 2_000_000, "reno"):
            pass
        n_rows = len(rows.until_closed(2))
        kept = len(trace.drain())
        assert 0 < kept <= 4096 // 184
        assert trace.dropped >= n_rows - kept > 0
        dropped = trace.dropped
    assert trace.dropped == dropped  # still known when it is closed


def bpf_programs() -> set[str]:
    """Names and ids of the tracing programs that some process holds."""
    found = set()
    for link in os.scandir("/proc/self/fdinfo"):
        with open(link.path) as file:
            text = file.read()
        found |= {line for line in text.splitlines() if line.startswith("prog_id:")}
    return found


def test_close_leaves_nothing_in_the_kernel(wire: Path) -> None:
    before = bpf_programs()
    descriptors = len(os.listdir("/proc/self/fd"))
    trace = TcpTrace(0)
    assert len(bpf_programs() - before) == 2
    trace.close()
    trace.close()
    assert bpf_programs() == before
    assert len(os.listdir("/proc/self/fd")) == descriptors
    with pytest.raises(CcpError) as caught:
        trace.drain()
    assert caught.value.slug == "trace.closed"


def test_a_trace_that_none_closed_goes_with_its_object(wire: Path) -> None:
    before = bpf_programs()
    TcpTrace(0)
    assert bpf_programs() == before


def test_without_privilege_it_says_so() -> None:
    said = said_without_privilege("TcpTrace", "100_000")
    assert said.startswith("trace.not_permitted run as root")
