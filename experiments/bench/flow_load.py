"""Traffic of very many connections from one process: what iperf3, with its limit of 128 streams, cannot do.

Run inside two hosts of a lab as `python -m experiments.bench.flow_load server|client ...`. The client opens
all connections, then writes a chunk on one after the other at a fixed total rate, so that two congestion
controls carry the same load. Both tell what they have done in lines of JSON.
"""

from __future__ import annotations

import json
import resource
import selectors
import socket
import struct
import sys
import time
from typing import Annotated, Final

import typer

from experiments.netlab import set_congestion

app = typer.Typer(help=__doc__)

CHUNK: Final = b"\0" * 16_384
"""What is written at a time: more than the first window of 10 segments, so that ACKs clock the rest."""

BACKLOG: Final = 16_384
"""Connections that may wait to be accepted; the host's net.core.somaxconn must allow it."""

_RECEIVE_BYTES: Final = 1 << 17
_CONNECT_TIMEOUT_S: Final = 10.0
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER: closing leaves nothing in TIME_WAIT, where 10,000 a round would use up the ports."""

Count = Annotated[int, typer.Option(min=1, help="Connections.")]


def allow_files(count: int) -> None:
    """Raise the limit of open files of this process, if it is below what so many connections need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 100
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(hard, wanted)))


@app.command()
def server(address: str, port: int, count: Count = 10_000) -> None:
    """Accept connections and throw away what they bring; end when all have closed."""
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


def _connect(address: str, port: int, congestion: str) -> socket.socket:
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    set_congestion(connection, congestion)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    connection.settimeout(_CONNECT_TIMEOUT_S)
    connection.connect((address, port))
    connection.setblocking(False)
    return connection


@app.command()
def client(
    address: str,
    port: int,
    congestion: str,
    count: Count = 10_000,
    seconds: Annotated[float, typer.Option(help="For how many seconds to send.")] = 5.0,
    bytes_per_s: Annotated[float, typer.Option(help="Bytes a second, all connections together.")] = 100e6,
) -> None:
    """Open the connections; after a line on stdin send; keep them open until stdin ends or brings another."""
    allow_files(count)
    connections = [_connect(address, port, congestion) for _ in range(count)]
    print(json.dumps({"connections": len(connections)}), flush=True)
    sys.stdin.readline()
    print(json.dumps(_send(connections, seconds, bytes_per_s)), flush=True)
    sys.stdin.readline()


def _send(connections: list[socket.socket], seconds: float, bytes_per_s: float) -> dict[str, float]:
    """Write chunks in turn at a total rate; returns how many bytes in how many seconds."""
    start_s = now_s = time.monotonic()
    sent_bytes = turn = 0
    while now_s - start_s < seconds:
        behind_bytes = (now_s - start_s) * bytes_per_s - sent_bytes
        if behind_bytes < len(CHUNK):
            time.sleep((len(CHUNK) - behind_bytes) / bytes_per_s)
        else:
            try:
                sent_bytes += connections[turn % len(connections)].send(CHUNK)
            except BlockingIOError:
                time.sleep(len(CHUNK) / bytes_per_s)  # it has its turn again
            turn += 1
        now_s = time.monotonic()
    return {"sent_bytes": sent_bytes, "seconds": now_s - start_s}


if __name__ == "__main__":
    app()
