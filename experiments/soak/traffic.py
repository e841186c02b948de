"""Churning connections between two hosts, all of which exchange data; failed connections are reported.

Run for a pair of hosts as `python -m experiments.soak.traffic CLIENT SERVER ADDRESS ...`, with the files of
their network namespaces. Out of a fixed number of connections, some end each second and are replaced. Each
connection now and then sends a number of bytes and receives a number back, and both ends count the bytes.
Commands come on standard input, one per line: `hold` (start and end no connections), `churn`, `tell`.
Answers are lines of JSON.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import struct
import sys
import time
from collections.abc import Coroutine
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Annotated, Any, Final

import typer

from experiments.bench.flow_load import allow_files
from experiments.netlab import set_congestion
from telemetry import netns

HEADER: Final = struct.Struct("!II")
"""Header of a turn: number of bytes that follow, and number of bytes to send back."""

MAX_BYTES: Final = 30_000
CHUNK: Final = bytes(MAX_BYTES)
TURN_TIMEOUT_S: Final = 90.0
"""Time after which a connection counts as failed; longer than several timeouts with backoff [s]."""
REPORTED_FAILURES: Final = 20
_CHURN_S: Final = 0.02
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


@dataclass(slots=True, eq=False)
class SoakClient:
    """The client side of a connection, and whether the connection is to end."""

    ending: bool = False


@dataclass(slots=True)
class Reported:
    """Counters of the connections.

    Attributes:
        made: Established connections.
        ended: Connections that ended normally.
        turns: Completed turns.
        failed: Failed connections.
        failures: Errors of the first failed connections.
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
        """Start listening."""
        self._count, self._per_s, self._talk_s, self._random = count, per_s, talk_s, random
        netns.enter(hosts[1])
        self._listeners = [socket.create_server((address, 0), backlog=1024) for _ in range(2)]
        set_congestion(self._listeners[0], "ccp")  # the other uses its namespace's default
        netns.enter(hosts[0])
        self._clients: dict[SoakClient, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._holding = False
        self._done = False
        self._owed = 0.0
        self.reported = Reported()

    async def run(self) -> None:
        """Run until the end of standard input."""
        os.set_blocking(sys.stdin.fileno(), False)
        asyncio.get_running_loop().add_reader(sys.stdin, self._order)
        for listener in self._listeners:
            listener.setblocking(False)
            self._begin(self._accept(listener))
        before_s = time.monotonic()
        while not self._done:
            await asyncio.sleep(_CHURN_S)
            now_s = time.monotonic()
            if not self._holding:
                self._churn(now_s - before_s)
            before_s = now_s

    def _begin(self, what: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _order(self) -> None:
        line = sys.stdin.readline()
        if not line:
            self._done = True
        elif line.strip() != "tell":
            self._holding = line.strip() == "hold"
        if line:
            print(json.dumps({"open": len(self._clients), **asdict(self.reported)}), flush=True)

    # Clients

    def _churn(self, passed_s: float) -> None:
        full = len(self._clients) >= self._count
        self._owed = min(self._owed + passed_s * self._per_s * (1 if full else 5), 50.0)
        while self._owed >= 1:
            self._owed -= 1
            if full:
                self._random.choice(list(self._clients)).ending = True
            elif len(self._clients) < self._count:
                client = SoakClient()
                self._clients[client] = None
                self.reported.made += 1
                self._begin(self._talk(client))

    async def _talk(self, client: SoakClient) -> None:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            set_congestion(sock, self._random.choice(("ccp", "ccp", "ccp.soak", "ccp.reno")))
            if self._random.random() < 0.25:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            address = self._random.choice(self._listeners).getsockname()
            async with asyncio.timeout(TURN_TIMEOUT_S):
                await asyncio.get_running_loop().sock_connect(sock, address)
            while self._holding or not client.ending:
                async with asyncio.timeout(TURN_TIMEOUT_S):
                    await self._turn(sock)
                self.reported.turns += 1
                await asyncio.sleep(self._random.uniform(0.5, 1.5) * self._talk_s)
            self.reported.ended += 1
        except TimeoutError as error:
            self._failed(error.strerror or f"no answer for {TURN_TIMEOUT_S:g} s")
        except Exception as error:
            self._failed(getattr(error, "strerror", None) or f"{type(error).__name__}: {error}")
        finally:
            sock.close()
            del self._clients[client]

    async def _turn(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        sent, wanted = self._random.randrange(MAX_BYTES), 1 + self._random.randrange(MAX_BYTES)
        await loop.sock_sendall(sock, HEADER.pack(sent, wanted) + CHUNK[:sent])
        while wanted:
            got = len(await loop.sock_recv(sock, wanted + 1))
            if not 0 < got <= wanted:
                raise OSError(errno.EPROTO, f"received {got} of {wanted} bytes")
            wanted -= got

    def _failed(self, why: str) -> None:
        self.reported.failed += 1
        if len(self.reported.failures) < REPORTED_FAILURES:
            self.reported.failures.append(f"{time.strftime('%H:%M:%S')} {why}")

    # Servers

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            sock, _ = await asyncio.get_running_loop().sock_accept(listener)
            self._begin(_answer(sock))


async def _answer(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    try:
        while head := await _received(sock, HEADER.size):
            brought, wanted = HEADER.unpack(head)
            await _received(sock, brought)
            await loop.sock_sendall(sock, CHUNK[:wanted])
    except (OSError, struct.error):  # the client counts it, or has reset a finished connection
        pass
    finally:
        sock.close()


async def _received(sock: socket.socket, count: int) -> bytes:
    """Return the next bytes; fewer only if the client closes the connection."""
    loop, whole = asyncio.get_running_loop(), b""
    while len(whole) < count and (part := await loop.sock_recv(sock, count - len(whole))):
        whole += part
    return whole


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
    """Make connections until the end of standard input."""
    allow_files(3 * count)
    asyncio.run(Traffic((client, server), address, count, per_s, talk_s, Random(seed)).run())


if __name__ == "__main__":
    app()
