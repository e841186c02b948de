"""Traffic of thousands of connections from one process; iperf3 has at most 128 streams.

Run in two hosts of a lab as `python -m experiments.bench.flow_load server|client ...`. The client opens all
connections, then writes chunks to one connection after the other at a fixed total rate, so that two
congestion controls carry the same load. Server and client print lines of JSON.
"""

from __future__ import annotations

import json
import os
import resource
import selectors
import socket
import struct
import sys
import time
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Annotated, Final

import typer

from experiments.netlab import set_congestion

app = typer.Typer(help=__doc__)

CHUNK: Final = b"\0" * 16_384
"""Size of a write: more than the initial window of 10 segments, so that ACKs clock the rest."""

BACKLOG: Final = 16_384
"""Maximum connections waiting to be accepted; the host's net.core.somaxconn must allow it."""

_RECEIVE_BYTES: Final = 1 << 17
_TCP_INFO_BYTES: Final = 232  # <linux/tcp.h>, like the next two
_BYTES_ACKED: Final = struct.Struct("=120xQ")
_BYTES_SENT_AND_RETRANS: Final = struct.Struct("=200xQQ")
_CONNECT_TIMEOUT_S: Final = 10.0
_AT_A_TIME: Final = 1000
"""Maximum connections being opened simultaneously."""
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER: closing leaves no TIME_WAIT, which would use up the ports."""

Count = Annotated[int, typer.Option(min=1, help="Number of connections.")]


def allow_files(count: int) -> None:
    """Raise the limit of open files of this process for `count` connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 100
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(hard, wanted)))


@app.command()
def server(address: str, port: int, count: Count = 10_000) -> None:
    """Accept connections and discard their data; exit when all have closed."""
    allow_files(count)
    with (
        socket.create_server((address, port), backlog=BACKLOG) as listener,
        selectors.EpollSelector() as selector,
    ):
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ, None)
        print(json.dumps({"listening": port}), flush=True)
        left = count
        while left:
            for key, _ in selector.select():
                if key.data is None:
                    connection, _ = listener.accept()
                    selector.register(connection, selectors.EVENT_READ, connection)
                elif _ended(key.data):
                    selector.unregister(key.data)
                    key.data.close()
                    left -= 1


def _ended(connection: socket.socket) -> bool:
    try:
        return not connection.recv(_RECEIVE_BYTES)
    except ConnectionResetError:
        return True


def _open(address: str, port: int, congestion: str, count: int, clients: int) -> list[socket.socket]:
    """Open connections to one address after the other, many simultaneously."""
    connections: list[socket.socket] = []
    with selectors.EpollSelector() as selector:
        for number in range(count):
            connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            connections.append(connection)
            set_congestion(connection, congestion)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            connection.connect_ex((str(ip_address(address) + number % clients), port))
            selector.register(connection, selectors.EVENT_WRITE)
            if len(selector.get_map()) == _AT_A_TIME or number == count - 1:
                _wait_for_all(selector)
    return connections


def _wait_for_all(selector: selectors.BaseSelector) -> None:
    while selector.get_map():
        ready = selector.select(_CONNECT_TIMEOUT_S)
        if not ready:
            raise TimeoutError("the server does not accept connections")
        for key, _ in ready:
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            selector.unregister(connection)
            if number := connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(number, os.strerror(number))


@app.command()
def client(
    address: str,
    port: int,
    congestion: str,
    count: Count = 10_000,
    clients: Annotated[
        int, typer.Option(min=1, help="Number of addresses to connect to, from ADDRESS on.")
    ] = 1,
    seconds: Annotated[float, typer.Option(help="How long to send, in seconds.")] = 5.0,
    bytes_per_s: Annotated[float, typer.Option(help="Total rate of all connections, in bytes/s.")] = 100e6,
) -> None:
    """Open the connections, send after each line on stdin, and close them when stdin ends."""
    allow_files(count)
    connections = _open(address, port, congestion, count, clients)
    print(json.dumps({"connections": len(connections)}), flush=True)
    for _ in sys.stdin:
        before, start_s = _progress(connections), time.monotonic()
        _send(connections, seconds, bytes_per_s)
        took_s, after = time.monotonic() - start_s, _progress(connections)
        print(
            json.dumps({name: after[name] - before[name] for name in after} | {"seconds": took_s}), flush=True
        )


def _progress(connections: Sequence[socket.socket]) -> dict[str, int]:
    """Return the totals of all connections: sent, retransmitted and acknowledged [bytes]."""
    sent_bytes = retrans_bytes = acked_bytes = 0
    for connection in connections:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        sent, retrans = _BYTES_SENT_AND_RETRANS.unpack_from(info)
        sent_bytes += sent
        retrans_bytes += retrans
        acked_bytes += _BYTES_ACKED.unpack_from(info)[0]
    return {"sent_bytes": sent_bytes, "retrans_bytes": retrans_bytes, "acked_bytes": acked_bytes}


def _send(connections: list[socket.socket], seconds: float, bytes_per_s: float) -> None:
    """Write chunks to one connection after the other, at a total rate."""
    start_s = now_s = time.monotonic()
    sent_bytes = turn = 0
    while now_s - start_s < seconds:
        owed_bytes = (now_s - start_s) * bytes_per_s - sent_bytes
        if owed_bytes < len(CHUNK):
            time.sleep((len(CHUNK) - owed_bytes) / bytes_per_s)
        else:
            try:
                sent_bytes += connections[turn % len(connections)].send(CHUNK)
            except BlockingIOError:
                time.sleep(len(CHUNK) / bytes_per_s)  # its next turn comes
            turn += 1
        now_s = time.monotonic()


if __name__ == "__main__":
    app()
