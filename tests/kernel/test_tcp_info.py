"""`TcpWatch` reads what the socket itself says."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from experiments.netlab import Path, TcpWatch
from experiments.netlab.spec import Family

pytestmark = pytest.mark.kernel(struct_ops=False)

PAYLOAD = bytes(1 << 20)


def own_info(sock: socket.socket) -> dict[str, int]:
    """What getsockopt(TCP_INFO) says; offsets of struct tcp_info in <linux/tcp.h>."""
    raw = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    mss, srtt_us, cwnd_pkts, retransmits = (struct.unpack_from("=I", raw, at)[0] for at in (16, 68, 80, 100))
    acked = struct.unpack_from("=Q", raw, 120)[0]
    minimum = struct.unpack_from("=I", raw, 148)[0]
    return {
        "cwnd_bytes": cwnd_pkts * mss,
        "srtt_us": srtt_us,
        "min_rtt_us": minimum,
        "bytes_acked": acked,
        "retransmits_pkts": retransmits,
    }


def drain(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        left = len(PAYLOAD)
        while left:
            left -= len(connection.recv(1 << 16))
        connection.sendall(b".")
        connection.recv(1)


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
def test_it_reads_what_the_socket_says_until_the_socket_is_gone(wire: Path, family: Family) -> None:
    with wire.receiver.tcp_socket(family) as listener, TcpWatch(wire.sender) as watch:
        listener.bind((wire.receiver.address(family), 0))
        listener.listen()
        receiver = threading.Thread(target=drain, args=[listener])
        receiver.start()
        with wire.sender.tcp_socket(family) as sender:
            sender.settimeout(10)
            sender.connect(listener.getsockname())
            assert watch.read() is None, "it has not sent anything yet"
            sender.sendall(PAYLOAD)
            assert sender.recv(1) == b"."
            found = watch.read()
            again = watch.read()
            assert found is not None
            assert again is not None
            assert again.time_s > found.time_s
            assert {name: getattr(again, name) for name in own_info(sender)} == own_info(sender)
            assert again.bytes_acked == len(PAYLOAD) + 1  # the SYN counts
        receiver.join()
        assert watch.read() is None
