"""`ccp run reno --datapath quic` and a server of aioquic: a path that drops, agents that come and go.

All but the agent is in one process, in real time: server, client, and between them a bottleneck of UDP.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest
from aioquic.asyncio import connect, serve

from ccplane.agent.agent_view import view_of
from ccplane.datapath.aioquic import Session, register
from experiments.agent_process import ccp
from tests.quic_ends import ends

PIECE_BYTES = 50_000
RATE_BYTES_PER_S = 250_000
ONE_WAY_S = 0.020
BUFFER_BYTES = 20_000
"""Two BDPs."""


@asynccontextmanager
async def agent(path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """An agent that runs."""
    command = ccp("run", "reno", "--datapath", "quic", "--bind", str(path))
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        greeting = (await process.stdout.readline()).decode()
        assert "reno loaded, waiting for datapaths at" in greeting, greeting
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@dataclass
class Bottleneck(asyncio.DatagramProtocol):
    """A port in front of a server: to the client, a rate and a buffer; both ways, a delay.

    Attributes:
        server: Where the server is.
        dropped: Datagrams for which the buffer had no room.
    """

    server: tuple[str, int]
    dropped: int = 0
    _client: tuple[str, int] | None = None
    _idle_s: float = 0.0
    _transport: asyncio.DatagramTransport = field(init=False)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, sender: tuple[str, int]) -> None:
        loop = asyncio.get_running_loop()
        now_s = leaves_s = loop.time()
        if sender != self.server:
            self._client, receiver = sender, self.server
        else:
            assert self._client is not None
            receiver = self._client
            if (self._idle_s - now_s) * RATE_BYTES_PER_S + len(data) > BUFFER_BYTES:
                self.dropped += 1
                return
            leaves_s = self._idle_s = max(now_s, self._idle_s) + len(data) / RATE_BYTES_PER_S
        loop.call_at(leaves_s + ONE_WAY_S, self._transport.sendto, data, receiver)


@dataclass
class Download:
    """A file on its way through the bottleneck, as long as the test goes on.

    Attributes:
        sent: What the server has given to aioquic of it.
        arrived: What the client has got of it.
        is_enough: Whether the file ends.
    """

    path: Bottleneck
    sent: bytearray = field(default_factory=bytearray)
    arrived: bytearray = field(default_factory=bytearray)
    is_enough: bool = False

    async def send(self, writer: asyncio.StreamWriter) -> None:
        noise = random.Random(1)
        while not self.is_enough:
            if len(self.sent) - len(self.arrived) < 4 * PIECE_BYTES:
                piece = noise.randbytes(PIECE_BYTES)
                self.sent += piece
                writer.write(piece)
            await asyncio.sleep(0.01)
        writer.close()

    async def receive(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(PIECE_BYTES):
            self.arrived += data


@asynccontextmanager
async def download() -> AsyncIterator[Download]:
    """A download that ends with the block, when all has arrived."""
    both = ends(server="ccp")
    sending: list[asyncio.Task[None]] = []
    made: list[Download] = []

    def requested(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sending.append(asyncio.create_task(made[0].send(writer)))

    server = await serve("127.0.0.1", 0, configuration=both.server, stream_handler=requested)
    address = server._transport.get_extra_info("sockname")
    transport, path = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: Bottleneck(address), local_addr=("127.0.0.1", 0)
    )
    made.append(Download(path))
    port = transport.get_extra_info("sockname")[1]
    async with connect("127.0.0.1", port, configuration=both.client) as client:
        reader, writer = await client.create_stream()
        writer.write(b"the file, please")
        writer.close()
        receiving = asyncio.create_task(made[0].receive(reader))
        yield made[0]
        made[0].is_enough = True
        await asyncio.gather(receiving, *sending)
    transport.close()
    server.close()


async def until(done: Callable[[], object], timeout_s: float = 100) -> None:
    async with asyncio.timeout(timeout_s):
        while not done():
            await asyncio.sleep(0.001)


async def halved(session: Session) -> None:
    """Wait until the agent's program has halved the window."""
    (flow,) = session.flows.values()
    before, ratio = flow.congestion_window, 1.0
    async with asyncio.timeout(100):
        while not 0.45 < ratio < 0.55:
            await asyncio.sleep(0.001)
            assert flow.is_steered
            before, ratio = flow.congestion_window, flow.congestion_window / before


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with closing(register(tmp_path / "agent")) as made:
        yield made


@pytest.mark.timeout(300)
def test_reno_has_a_connection_that_outlives_its_agents(session: Session, tmp_path: Path) -> None:
    async def scenario() -> Download:
        async with download() as file:
            for _ in range(2):
                async with agent(tmp_path / "agent") as process:
                    await until(lambda: any(flow.is_steered for flow in session.flows.values()))
                    dropped = file.path.dropped
                    await halved(session)
                    assert file.path.dropped > dropped
                    view = view_of(str(tmp_path / "agent"))
                    assert len(await asyncio.to_thread(view.flows)) == 1
                    process.kill()
                    (flow,) = session.flows.values()
                    await until(lambda flow=flow: not flow.is_steered)  # type: ignore[misc]
                before = len(file.arrived)
                await until(lambda before=before: len(file.arrived) > before + 200_000)  # type: ignore[misc]
                assert not flow.is_steered
        return file

    file = asyncio.run(scenario())
    assert len(file.sent) > 400_000
    assert file.arrived == file.sent
