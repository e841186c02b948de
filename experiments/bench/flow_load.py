"""Traffic of very many connections from one process: what iperf3, with its limit of 128 streams, cannot do.

Run inside two hosts of a lab as `python -m experiments.bench.flow_load server|client ...`. The client opens
all connections, then writes a chunk on one after the other at a fixed total rate, so that two congestion
controls carry the same load; or, with `--active`, whole objects on some of them at a time, as fast as each
takes them. Both tell what they have done in lines of JSON.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import selectors
import socket
import struct
import sys
import termios
import time
from collections import deque
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Annotated, Final

import typer

from experiments.netlab import set_congestion

app = typer.Typer(help=__doc__)

CHUNK: Final = b"\0" * 16_384
"""What is written at a time: more than the first window of 10 segments, so that ACKs clock the rest."""

BACKLOG: Final = 16_384
"""Connections that may wait to be accepted; the host's net.core.somaxconn must allow it."""

_RECEIVE_BYTES: Final = 1 << 17
_SEND_BUFFER_BYTES: Final = 1 << 16
"""Of connections that send objects: what is written is soon on its way."""
_LOOK_S: Final = 0.005
"""How often connections are asked whether all was acknowledged; nothing tells."""
_TCP_INFO_BYTES: Final = 232  # <linux/tcp.h>, as the next
_BYTES_ACKED: Final = struct.Struct("=120xQ")
_BYTES_SENT_AND_RETRANS: Final = struct.Struct("=200xQQ")
_CONNECT_TIMEOUT_S: Final = 10.0
_AT_A_TIME: Final = 1000
"""Connections that are being opened at once."""
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


def _open(address: str, port: int, congestion: str, count: int, clients: int) -> list[socket.socket]:
    """Open connections to addresses in turn, many at a time: each takes a round trip."""
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
            raise TimeoutError("connections are not answered")
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
    clients: Annotated[int, typer.Option(min=1, help="Addresses to connect to, from the given one on.")] = 1,
    seconds: Annotated[float, typer.Option(help="For how many seconds to send.")] = 5.0,
    bytes_per_s: Annotated[float, typer.Option(help="Bytes a second, all connections together.")] = 100e6,
    active: Annotated[int, typer.Option(help="Connections that send objects at a time; 0: none do.")] = 0,
    object_bytes: Annotated[int, typer.Option(min=1, help="Size of each object.")] = 1 << 18,
) -> None:
    """Open the connections; send after each line on stdin; keep them open until stdin ends."""
    allow_files(count)
    connections = _open(address, port, congestion, count, clients)
    waiting = deque(connections)
    print(json.dumps({"connections": len(connections)}), flush=True)
    for _ in sys.stdin:
        before, start_s = _progress(connections), time.monotonic()
        if active:
            _send_objects(waiting, active, object_bytes, seconds)
        else:
            _send(connections, seconds, bytes_per_s)
        took_s, after = time.monotonic() - start_s, _progress(connections)
        print(
            json.dumps({name: after[name] - before[name] for name in after} | {"seconds": took_s}), flush=True
        )


def _progress(connections: Sequence[socket.socket]) -> dict[str, int]:
    """Return what all connections together have sent, sent again, and had acknowledged [bytes]."""
    sent_bytes = retrans_bytes = acked_bytes = 0
    for connection in connections:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        sent, retrans = _BYTES_SENT_AND_RETRANS.unpack_from(info)
        sent_bytes += sent
        retrans_bytes += retrans
        acked_bytes += _BYTES_ACKED.unpack_from(info)[0]
    return {"sent_bytes": sent_bytes, "retrans_bytes": retrans_bytes, "acked_bytes": acked_bytes}


def _send_objects(waiting: deque[socket.socket], active: int, object_bytes: int, seconds: float) -> None:
    """Let so many connections send an object each; whoever has it acknowledged makes room for the next."""
    look_s = time.monotonic()
    end_s = look_s + seconds
    with selectors.EpollSelector() as selector:
        left_bytes: dict[socket.socket, int] = {}
        written: list[socket.socket] = []

        def begin() -> None:
            connection = waiting.popleft()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
            left_bytes[connection] = object_bytes
            selector.register(connection, selectors.EVENT_WRITE)

        for _ in range(min(active, len(waiting))):
            begin()
        while (now_s := time.monotonic()) < end_s:
            for key, _ in selector.select(_LOOK_S):
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                left_bytes[connection] -= connection.send(CHUNK[: left_bytes[connection]])
                if not left_bytes[connection]:
                    selector.unregister(connection)
                    del left_bytes[connection]
                    written.append(connection)
            if now_s >= look_s:
                look_s = now_s + _LOOK_S
                done = {connection for connection in written if not unacknowledged_bytes(connection)}
                written = [connection for connection in written if connection not in done]
                waiting.extend(done)
                for _ in done:
                    begin()
        waiting.extend(written)
        waiting.extend(left_bytes)


def unacknowledged_bytes(connection: socket.socket) -> int:
    """Return how much was written to a connection and not acknowledged yet [bytes]."""
    return int(struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))[0])


def _send(connections: list[socket.socket], seconds: float, bytes_per_s: float) -> None:
    """Write chunks in turn at a total rate."""
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


if __name__ == "__main__":
    app()
