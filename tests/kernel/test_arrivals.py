"""`TcpArrivals`: what it counts agrees with what sockets and links say, and it sees one namespace only."""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from ccplane.base._native import TcpArrivals
from ccplane.base.errors import CcpError
from experiments.netlab import Host, Path
from experiments.netlab.spec import Family
from telemetry.receiver import echo
from tests.kernel.driving import inode, said_without_privilege

pytestmark = pytest.mark.kernel(struct_ops=False)

SEGS_IN = 140  # offset of tcpi_segs_in in struct tcp_info of <linux/tcp.h>
RTAX_FEATURE_TCP_USEC_TS = 1 << 4  # <linux/rtnetlink.h>


def tcp_info(sock: socket.socket, offset: int) -> int:
    raw = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)
    return int(struct.unpack_from("=I", raw, offset)[0])


@contextlib.contextmanager
def connection(
    sender: Host, receiver: Host, family: Family = "ipv4"
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Connect; yield the sender's and the receiver's socket."""
    with receiver.tcp_socket(family) as listener, sender.tcp_socket(family, "reno") as near:
        listener.bind((receiver.address(family), 0))
        listener.listen()
        near.connect(listener.getsockname())
        far, _ = listener.accept()
        with far:
            yield near, far


def send(near: socket.socket, far: socket.socket, size_bytes: int) -> None:
    """Send so much, and wait until it has been read."""
    sending = threading.Thread(target=near.sendall, args=[bytes(size_bytes)])
    sending.start()
    while size_bytes:
        size_bytes -= len(far.recv(1 << 16))
    sending.join()


def trickle(near: socket.socket, far: socket.socket, duration_s: float) -> None:
    """Send a little every 2 ms; a reader that sleeps takes it."""
    end_s = time.monotonic() + duration_s
    while time.monotonic() < end_s:
        near.sendall(b"x" * 100)
        far.recv(100, socket.MSG_WAITALL)
        time.sleep(0.002)


def row_of(rows: Any, near: socket.socket) -> Any:
    """Return the only row of a connection, at its receiving end."""
    (row,) = rows[rows["dport"] == near.getsockname()[1]]
    return row


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_every_segment_is_counted_at_its_socket_and_in_its_namespace(wire: Path, family: Family) -> None:
    with TcpArrivals(inode(wire.receiver)) as arrivals, TcpArrivals(inode(wire.sender)) as others:
        with connection(wire.sender, wire.receiver, family) as (near, far):
            send(near, far, 3_000_000)
            counted = tcp_info(far, SEGS_IN)
            first = row_of(arrivals.drain(), near)
            assert int(first["segs"]) == pytest.approx(counted, abs=2)  # the kernel has the handshake, too
            assert counted > 1000, "merged segments count each"
            assert (first["ce_segs"], first["closed"]) == (0, 0)
            assert first["bins"].sum() <= first["segs"]
            address = wire.sender.address(family)
            packed = socket.inet_pton(socket.AF_INET6, address if ":" in address else f"::ffff:{address}")
            assert first["daddr"].tobytes() == packed
            assert (first["sport"], len(arrivals.drain())) == (far.getsockname()[1], 0)
            send(near, far, 1000)
            again = row_of(arrivals.drain(), near)
            assert (again["cookie"], again["segs"]) == (first["cookie"], 1), "what is new, and no more"
            (acks,) = others.drain()
            assert acks["sport"] == near.getsockname()[1]
            near.close()
            assert far.recv(1) == b""
        (last,) = arrivals.drain()
        assert (last["cookie"], last["closed"]) == (first["cookie"], 1)
        assert (len(arrivals.drain()), arrivals.dropped) == (0, 0)


@pytest.mark.parametrize("tick_us", [1000, 1])
def test_timestamps_in_microseconds_are_reported_from_those_in_milliseconds(wire: Path, tick_us: int) -> None:
    sender, receiver = wire.sender, wire.receiver
    if tick_us == 1 and not stamp_in_microseconds(sender, receiver):
        pytest.skip("Linux has timestamps in microseconds since 6.7 (the route feature tcp_usec_ts)")
    with TcpArrivals(inode(receiver)) as arrivals, connection(sender, receiver) as (near, far):
        trickle(near, far, 0.3)
        row = row_of(arrivals.drain(), near)
    assert row["tick_us"] == tick_us
    assert int(row["ticks"]) * tick_us == pytest.approx(int(row["elapsed_us"]), rel=0.1)
    assert 0 < row["bins"].sum() < row["segs"], "the first say what a tick is"


def stamp_in_microseconds(sender: Host, receiver: Host) -> bool:
    """Let a host's connections to another one have such timestamps; return whether the kernel can."""

    def change() -> bool:
        with IPRoute() as ipr:
            (route,) = ipr.route("get", dst=receiver.ipv4)
            where = {"oif": route.get_attr("RTA_OIF"), "gateway": route.get_attr("RTA_GATEWAY")}
            where = {name: value for name, value in where.items() if value is not None}
            metrics = {"features": RTAX_FEATURE_TCP_USEC_TS}
            try:
                ipr.route("replace", dst=f"{receiver.ipv4}/32", metrics=metrics, **where)
            except NetlinkError as error:
                if error.code == errno.EINVAL:
                    return False
                raise
        return True

    return sender.call(change)


def test_timestamps_are_found_wherever_they_stand_among_the_options(wire: Path) -> None:
    sender, receiver = wire.sender, wire.receiver
    orders = {  # options that another system could send: of 4 bytes each, with NOPs (1) between
        "alone, first": lambda stamp: stamp + b"\1\1",
        "behind others": lambda stamp: b"\xfd\4ab" + b"\1" + stamp + b"\1",
        "last": lambda stamp: b"\1" * 6 + stamp,
        "behind the end": lambda stamp: b"\0" * 6 + stamp,
        "none": lambda stamp: b"",
    }
    malformed = (lambda stamp: b"\xfd\0" + stamp, lambda stamp: b"\1\1" + stamp[:6])
    found = {}
    with TcpArrivals(inode(receiver)) as arrivals, forging(sender, receiver, arrivals) as forge:
        for name, order in orders.items():
            forge.send(order(forge.stamp()))
            row = next_row(arrivals, forge.near)
            found[name] = (int(row["segs"]), int(row["bins"].sum()))
        for order in malformed:  # newer kernels throw them away before
            forge.send(order(forge.stamp()))
        forge.send(b"")
        assert next_row(arrivals, forge.near)["bins"].sum() == 0
    assert found == {name: (1, int(place < 3)) for place, name in enumerate(orders)}


def test_what_was_sent_again_is_reported_from_what_is_late(wire: Path) -> None:
    segments = (  # of 100 bytes: where it begins, milliseconds when it was sent, and whether that was again
        (0, 0, 0),
        (200, 5, 0),  # behind a gap
        (300, 9, 0),
        (100, 5, 0),  # late: sent no later than the one behind it
        (100, 6, 1),  # later than that one, if not than the newest
        (500, 10, 0),
        (400, 10, 0),
        (0, 11, 1),  # for nothing
        (600, 20, 0),
        (650, 20, 0),  # as bytes are counted, the end of it is new
        (550, 21, 1),
    )
    sender, receiver = wire.sender, wire.receiver
    with TcpArrivals(inode(receiver)) as arrivals, forging(sender, receiver, arrivals) as forge:
        for begin, sent_ms, again in segments:
            forge.send(b"\1\1" + forge.stamp(sent_ms), begin, bytes(100))
            row = next_row(arrivals, forge.near)
            assert (row["resent_segs"], row["segs"], row["stamped"]) == (again, 1, 1), (begin, sent_ms)
        forge.send(b"", 0, bytes(100))  # without a timestamp nobody knows
        assert next_row(arrivals, forge.near)["resent_segs"] == 0


class Forge:
    """Sends segments as if they were of a connection that sleeps.

    Attributes:
        near: The socket of the sender.
    """

    def __init__(self, near: socket.socket, raw: socket.socket, ack: bytes, ends: tuple[str, str]) -> None:
        self.near = near
        self._raw = raw
        self._ports = ack[2:4] + ack[:2]
        (self._expected,), (self._echoed,) = (struct.unpack_from("!I", ack, at) for at in (8, 28))
        self._ends = ends

    def stamp(self, later_ms: int = 0) -> bytes:
        """Return a timestamp so much later than the last real one."""
        return struct.pack("!BBII", 8, 10, (self._echoed + later_ms) % (1 << 32), 0)

    def send(self, options: bytes, begin: int = 0, payload: bytes = b"") -> None:
        """Send a segment that begins so far behind what was received."""
        sequence = (self._expected + begin) % (1 << 32)
        header = tcp_header(self._ports, sequence, options, self._ends, payload)
        self._raw.sendto(header + payload, (self._ends[1], 0))


@contextlib.contextmanager
def forging(sender: Host, receiver: Host, arrivals: TcpArrivals) -> Iterator[Forge]:
    """Connect, let the timestamps be understood, and forget what was counted."""
    with (
        sender.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)) as raw,
        connection(sender, receiver) as (near, far),
    ):
        trickle(near, far, 0.1)
        time.sleep(0.1)  # so long, and the last ACK has come
        arrivals.drain()
        raw.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                ack = raw.recv(100)[20:]  # behind the IP header
        yield Forge(near, raw, ack, (sender.ipv4, receiver.ipv4))


def next_row(arrivals: TcpArrivals, near: socket.socket) -> Any:
    """Wait until something has come on a connection; return its row."""
    while not len(rows := arrivals.drain()):
        time.sleep(0.001)
    return row_of(rows, near)


def tcp_header(ports: bytes, sequence: int, options: bytes, ends: tuple[str, str], payload: bytes) -> bytes:
    """Return the header of a segment that acknowledges nothing new."""
    flags = (20 + len(options)) // 4 << 12 | 0x10  # ACK
    header = ports + struct.pack("!IIHHHH", sequence, 0, flags, 1000, 0, 0) + options
    source, destination = map(socket.inet_aton, ends)
    pseudo = source + destination + struct.pack("!HH", 6, len(header + payload))
    sum_ = echo.checksum(pseudo + header + payload)
    return header[:16] + struct.pack("!H", sum_) + header[18:]


def test_flows_for_which_there_is_no_room_are_reported_of(wire: Path) -> None:
    with TcpArrivals(inode(wire.receiver), max_flows=1) as arrivals:
        with (
            connection(wire.sender, wire.receiver) as first,
            connection(wire.sender, wire.receiver) as second,
        ):
            send(*first, 1000)
            send(*second, 1000)
            assert len(arrivals.drain()) == 1
            assert arrivals.dropped >= 1
        arrivals.drain()  # the first is closed: its place is free
        with connection(wire.sender, wire.receiver) as (near, far):
            send(near, far, 1000)
            assert row_of(arrivals.drain(), near)["segs"] >= 1


def test_without_timestamps_there_are_counts_and_no_delays(wire: Path) -> None:
    wire.sender.set_sysctl("net.ipv4.tcp_timestamps", 0)
    with (
        TcpArrivals(inode(wire.receiver)) as arrivals,
        connection(wire.sender, wire.receiver) as (near, far),
    ):
        trickle(near, far, 0.1)
        row = row_of(arrivals.drain(), near)
    assert row["segs"] > 10
    assert (row["bins"].sum(), row["tick_us"], row["stamped"]) == (0, 0, 0)


def test_it_says_what_is_not_possible() -> None:
    arrivals = TcpArrivals(1)
    arrivals.close()
    arrivals.close()
    for use in (arrivals.drain, lambda: arrivals.dropped):
        with pytest.raises(CcpError) as caught:
            use()
        assert caught.value.slug == "trace.closed"
    said = said_without_privilege("TcpArrivals", "1")
    assert said.startswith("trace.not_permitted run as root")
