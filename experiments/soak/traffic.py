"""Connections that come and go between two hosts, all of which talk; those that fail are told.

Run beside a pair of hosts as `python -m experiments.soak.traffic CLIENT SERVER ADDRESS ...`, with the files
of their network namespaces. Of a fixed number of connections some end each second, and others take their
place. Each one asks now and then: it sends so many bytes and gets so many back, and both ends count. Orders
come on standard input, one line each, answers are lines of JSON: `hold` (nothing begins or ends any more),
`churn`, `tell`.
"""

from __future__ import annotations

import errno
import heapq
import json
import os
import selectors
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Annotated, Final

import typer

from experiments.bench.flow_load import allow_files
from experiments.netlab import set_congestion
from telemetry import netns

HEADER: Final = struct.Struct("!II")
"""What a connection begins each turn with: bytes that follow, and bytes that it wants back."""

MOST_BYTES: Final = 30_000
CHUNK: Final = bytes(1 << 16)
TURN_TIMEOUT_S: Final = 90.0
"""After this a connection counts as failed: longer than the backoff of some timeouts in a row [s]."""
TOLD_FAILURES: Final = 20
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


@dataclass(slots=True, eq=False)
class Client:
    """An end that asks."""

    sock: socket.socket
    to_send: int = 0
    to_get: int = 0
    head: bytes = b""
    began_s: float = 0.0
    connected: bool = False
    ending: bool = False


@dataclass(slots=True, eq=False)
class Answering:
    """An end that answers."""

    sock: socket.socket
    head: bytes = b""
    to_get: int = 0
    to_send: int = 0


@dataclass(slots=True)
class Told:
    """What became of the connections.

    Attributes:
        made: Connections that were made.
        ended: Those that ended as they should.
        turns: Times that one asked and got everything.
        failed: Those that did not.
        failures: What happened to the first ones of them.
    """

    made: int = 0
    ended: int = 0
    turns: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)


class Traffic:
    """The connections of a pair of hosts."""

    def __init__(
        self, hosts: tuple[Path, Path], address: str, count: int, per_s: float, talk_s: float, random: Random
    ) -> None:
        """Listen.

        Args:
            hosts: Namespaces of the client and of the server.
            address: Of the server.
            count: Connections at a time.
            per_s: How many end each second, and begin.
            talk_s: Mean time between two turns of a connection [s].
            random: What decides.
        """
        self._count, self._per_s, self._talk_s, self._random = count, per_s, talk_s, random
        self._selector = selectors.EpollSelector()
        netns.enter(hosts[1])
        self._listeners = [socket.create_server((address, 0), backlog=1024) for _ in range(2)]
        set_congestion(self._listeners[0], "ccp")  # the other one has what is its namespace's default
        for listener in self._listeners:
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ, lambda _, one=listener: self._accept(one))
        netns.enter(hosts[0])
        self._clients: dict[Client, None] = {}
        self._due: list[tuple[float, int, Client]] = []
        self._number = 0
        self._holding = False
        self._owed = 0.0
        self.told = Told()
        self._done = False
        os.set_blocking(sys.stdin.fileno(), False)
        self._selector.register(sys.stdin, selectors.EVENT_READ, lambda _: self._order())

    def run(self) -> None:
        """Go on until standard input ends."""
        before_s = time.monotonic()
        while not self._done:
            for key, events in self._selector.select(0.02):
                key.data(events)
            now_s = time.monotonic()
            while self._due and self._due[0][0] <= now_s:
                self._ask(heapq.heappop(self._due)[2])
            if not self._holding:
                self._churn(now_s - before_s)
            if int(now_s) != int(before_s):
                self._look_for_stalls(now_s)
            before_s = now_s

    def _order(self) -> None:
        line = sys.stdin.readline()
        if not line:
            self._done = True
        elif line.strip() != "tell":
            self._holding = line.strip() == "hold"
        if line:
            print(json.dumps({"open": len(self._clients), **asdict(self.told)}), flush=True)

    # Clients

    def _churn(self, passed_s: float) -> None:
        full = len(self._clients) >= self._count
        self._owed = min(self._owed + passed_s * self._per_s * (1 if full else 5), 50.0)
        while self._owed >= 1:
            self._owed -= 1
            if full:
                self._random.choice(list(self._clients)).ending = True
            elif len(self._clients) < self._count:
                self._connect()

    def _connect(self) -> None:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        client = Client(sock, began_s=time.monotonic())
        self._clients[client] = None
        self.told.made += 1
        try:
            set_congestion(sock, self._random.choice(("ccp", "ccp", "ccp.soak", "ccp.reno")))
            if self._random.random() < 0.25:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            sock.connect_ex(self._random.choice(self._listeners).getsockname())
        except Exception as error:
            self._fail(client, f"choosing: {error}")
            return
        self._selector.register(sock, selectors.EVENT_WRITE, lambda _: self._go_on(client))

    def _ask(self, client: Client) -> None:
        if client not in self._clients:
            return
        if client.ending and not self._holding:
            self._end(client)
            return
        client.to_send = self._random.randrange(MOST_BYTES)
        client.to_get = 1 + self._random.randrange(MOST_BYTES)
        client.head = HEADER.pack(client.to_send, client.to_get)
        client.began_s = time.monotonic()
        self._selector.modify(client.sock, selectors.EVENT_WRITE, lambda _: self._go_on(client))

    def _go_on(self, client: Client) -> None:
        try:
            if not client.connected:
                if number := client.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    raise OSError(number, f"connecting: {os.strerror(number)}")
                client.connected = True
                self._ask(client)
            elif client.head or client.to_send:
                self._send(client)
            else:
                self._get(client)
        except BlockingIOError:
            pass
        except OSError as error:
            self._fail(client, error.strerror or str(error))

    def _send(self, client: Client) -> None:
        if client.head:
            client.head = client.head[client.sock.send(client.head) :]
        elif client.to_send:
            client.to_send -= client.sock.send(CHUNK[: client.to_send])
        if not client.head and not client.to_send:
            self._selector.modify(client.sock, selectors.EVENT_READ, lambda _: self._go_on(client))

    def _get(self, client: Client) -> None:
        got = len(client.sock.recv(client.to_get + 1))
        if not got or got > client.to_get:
            raise OSError(errno.EPROTO, f"{client.to_get} bytes were to come, {got} came")
        client.to_get -= got
        if not client.to_get:
            self.told.turns += 1
            self._number += 1
            again_s = time.monotonic() + self._random.uniform(0.5, 1.5) * self._talk_s
            heapq.heappush(self._due, (again_s, self._number, client))

    def _end(self, client: Client) -> None:
        self._selector.unregister(client.sock)
        client.sock.close()
        del self._clients[client]
        self.told.ended += 1

    def _fail(self, client: Client, why: str) -> None:
        self.told.failed += 1
        if len(self.told.failures) < TOLD_FAILURES:
            self.told.failures.append(f"{time.strftime('%H:%M:%S')} {why}")
        if client.sock.fileno() in self._selector.get_map():
            self._selector.unregister(client.sock)
        client.sock.close()
        del self._clients[client]

    def _look_for_stalls(self, now_s: float) -> None:
        waiting = [one for one in self._clients if one.to_get or not one.connected]
        for client in waiting:
            if now_s - client.began_s > TURN_TIMEOUT_S:
                self._fail(client, f"no answer for {TURN_TIMEOUT_S:g} s")

    # Servers

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:  # it has gone meanwhile
            return
        sock.setblocking(False)
        answering = Answering(sock)
        self._selector.register(sock, selectors.EVENT_READ, self._answering(answering))

    def _answering(self, one: Answering) -> Callable[[int], None]:
        return lambda _: self._answer(one)

    def _answer(self, one: Answering) -> None:
        try:
            if one.to_get:
                one.to_get -= self._come(one, min(one.to_get, len(CHUNK)))
            elif one.to_send and len(one.head) == HEADER.size:
                one.to_send -= one.sock.send(CHUNK[: one.to_send])
            else:
                head = one.sock.recv(HEADER.size - len(one.head))
                if not head:
                    self._hang_up(one)
                    return
                one.head += head
                if len(one.head) == HEADER.size:
                    one.to_get, one.to_send = HEADER.unpack(one.head)
        except BlockingIOError:
            return
        except OSError:  # the client counts it, or has reset a connection that it had done with
            self._hang_up(one)
            return
        sends = len(one.head) == HEADER.size and not one.to_get
        if sends and not one.to_send:
            one.head, sends = b"", False
        wanted = selectors.EVENT_WRITE if sends else selectors.EVENT_READ
        if self._selector.get_key(one.sock).events != wanted:
            self._selector.modify(one.sock, wanted, self._answering(one))

    def _come(self, one: Answering, most: int) -> int:
        got = len(one.sock.recv(most))
        if not got:
            raise OSError(errno.EPROTO, "the client left in the middle")
        return got

    def _hang_up(self, one: Answering) -> None:
        self._selector.unregister(one.sock)
        one.sock.close()


app = typer.Typer()


@app.command()
def main(
    client: Path,
    server: Path,
    address: str,
    count: Annotated[int, typer.Option(min=1)] = 100,
    per_s: Annotated[float, typer.Option(min=0.0)] = 10.0,
    talk_s: Annotated[float, typer.Option(min=0.1)] = 2.0,
    seed: int = 0,
) -> None:
    """Make connections until standard input ends."""
    allow_files(3 * count)
    Traffic((client, server), address, count, per_s, talk_s, Random(seed)).run()


if __name__ == "__main__":
    app()
