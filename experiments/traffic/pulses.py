"""The two programs of on/off traffic: a source that sends in pulses, and a sink that discards the data.

Both programs are run by path, on the hosts, with the Python of this process, and import only the standard
library. The source prints its results as JSON, at its end or on SIGTERM.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import socket
import struct
import sys
import time
from types import FrameType
from typing import Any, NoReturn

CHUNK_BYTES = 1 << 16
PACE_S = 1e-3  # how often a limited source writes
NOTSENT_BYTES = 1 << 17
"""Maximum unsent data in the socket, so that data of a pulse is not sent in the pause after it."""

CONNECT_TIMEOUT_S = 30.0
_INFO_RETRANS, _INFO_ACKED = 100, 120  # offsets in struct tcp_info of <linux/tcp.h>
_FAMILIES = {"ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}


class _Ended(Exception):  # noqa: N818 - not an error
    """SIGTERM was received."""


def durations(distribution: str, on_s: float, off_s: float, seed: int) -> Any:
    """Yield (on, off) pairs without end [s]."""
    rng = random.Random(seed)
    while True:
        if distribution == "fixed":
            yield on_s, off_s
        else:
            yield rng.expovariate(1 / on_s), rng.expovariate(1 / off_s)


def send_pulse(sock: socket.socket, until_s: float, rate_bytes_per_s: float | None) -> int:
    """Send until a point in time [s, monotonic]; return the written bytes."""
    chunk = memoryview(bytes(CHUNK_BYTES))
    start_s = time.monotonic()
    written = 0
    while (now_s := time.monotonic()) < until_s:
        size = CHUNK_BYTES
        if rate_bytes_per_s is not None:
            size = min(size, int((now_s - start_s) * rate_bytes_per_s) - written)
            if size < min(CHUNK_BYTES, max(1.0, PACE_S * rate_bytes_per_s)):
                time.sleep(min(PACE_S, until_s - now_s))
                continue
        sock.settimeout(until_s - now_s)
        with contextlib.suppress(TimeoutError):
            written += sock.send(chunk[:size])
    return written


def source(order: dict[str, Any]) -> None:
    """Connect, and send pulses until `end_s` [s, monotonic]."""
    signal.signal(signal.SIGTERM, _end)
    complete = False
    with socket.socket(_FAMILIES[order["family"]], socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, order["congestion"].encode())
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, NOTSENT_BYTES)
        sock.bind(("", order["own_port"]))
        sock.settimeout(CONNECT_TIMEOUT_S)
        sock.connect((order["address"], order["port"]))
        start_s, end_s = time.monotonic(), order["end_s"]
        with contextlib.suppress(_Ended):
            pairs = durations(order["distribution"], order["on_s"], order["off_s"], order["seed"])
            while time.monotonic() < end_s:
                on_s, off_s = next(pairs)
                until_s = min(time.monotonic() + on_s, end_s)
                send_pulse(sock, until_s, order["rate_bytes_per_s"])
                time.sleep(max(0.0, min(until_s + off_s, end_s) - time.monotonic()))
            complete = True
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        account = {
            "complete": complete,
            "duration_s": time.monotonic() - start_s,
            "acked_bytes": struct.unpack_from("=Q", info, _INFO_ACKED)[0] - 1,  # the kernel counts the SYN
            "retrans_pkts": struct.unpack_from("=I", info, _INFO_RETRANS)[0],
        }
        # Discard data that is still in flight, because the flow is over.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    print(json.dumps(account))


def sink(order: dict[str, Any]) -> None:
    """Accept one connection, and discard its data."""
    with socket.socket(_FAMILIES[order["family"]], socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # As iperf3 does: DCTCP must run at both ends (RFC 8257, section 3); its ECN setup fails otherwise.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, order["congestion"].encode())
        listener.bind((order["address"], order["port"]))
        listener.listen(1)
        connection, _ = listener.accept()
    with connection, contextlib.suppress(ConnectionResetError):
        while connection.recv(1 << 20, socket.MSG_TRUNC):
            pass


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _Ended


if __name__ == "__main__":
    {"source": source, "sink": sink}[sys.argv[1]](json.loads(sys.argv[2]))
