"""Connections that come and go, as on a server: each fetches an object of its own size, and closes.

Run inside two hosts of a lab as `python -m tests.kernel.churn_load server|client ...`. Arrivals are
Poisson, sizes log-normal: most are small, a few carry most of the bytes. The client tells every second what
came in, as a line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import socket
import struct
import time
from typing import Final

import typer

from experiments.netlab import set_congestion

app = typer.Typer(help=__doc__)

PER_S: Final = 40.0
"""Connections a second."""
MEAN_BYTES: Final = 200_000
"""Of an object."""
SIGMA: Final = 1.5
"""Of the logarithm of sizes."""
TELL_S: Final = 1.0
GIVE_UP_S: Final = 60.0
"""An object that takes longer is a failure [s]."""

_SIZE: Final = struct.Struct("!Q")
_BLOCK: Final = b"\0" * 65_536
_BACKLOG: Final = 4_096


@app.command()
def server(address: str, port: int, congestion: str) -> None:
    """Send objects of the sizes that are asked for, until killed."""
    listener = socket.create_server((address, port), backlog=_BACKLOG)
    set_congestion(listener, congestion)
    asyncio.run(_serve(listener))


async def _serve(listener: socket.socket) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            (left,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
            while left:
                writer.write(_BLOCK[:left])
                left -= min(left, len(_BLOCK))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client gave up, and counts it
        finally:
            writer.close()

    serving = await asyncio.start_server(answer, sock=listener)
    print(json.dumps({"listening": True}), flush=True)
    async with serving:
        await serving.serve_forever()


@app.command()
def client(address: str, port: int, seed: int) -> None:
    """Fetch objects until killed."""
    asyncio.run(_Client(address, port, seed).run())


class _Client:
    def __init__(self, address: str, port: int, seed: int) -> None:
        self._place = (address, port)
        self._random = random.Random(seed)
        self._bytes = self._failed = 0
        self._open: set[asyncio.Task[None]] = set()  # the loop itself holds tasks only weakly

    async def run(self) -> None:
        telling = asyncio.create_task(self._tell())
        next_s = time.monotonic()
        while not telling.done():
            next_s += self._random.expovariate(PER_S)
            size = max(1, round(self._random.lognormvariate(math.log(MEAN_BYTES) - SIGMA**2 / 2, SIGMA)))
            await asyncio.sleep(max(0.0, next_s - time.monotonic()))
            task = asyncio.create_task(self._fetch(size))
            self._open.add(task)
            task.add_done_callback(self._open.discard)

    async def _fetch(self, size: int) -> None:
        try:
            async with asyncio.timeout(GIVE_UP_S):
                reader, writer = await asyncio.open_connection(*self._place)
                writer.write(_SIZE.pack(size))
                left = size
                while left and (block := await reader.read(1 << 18)):
                    left -= len(block)
                    self._bytes += len(block)
                writer.close()
        except (OSError, TimeoutError):
            left = size
        self._failed += bool(left)

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(TELL_S)
            told = {"t_s": time.monotonic(), "bytes": self._bytes, "failed": self._failed}
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    app()
