"""Whatever answers on the control socket, the client reports an error of ccplane."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq

from ccplane.agent.client import Client
from ccplane.agent.client_stream import Stream
from ccplane.agent.messages import Status
from ccplane.base.errors import CcpError

ANSWERS = [
    b"",
    b"\xff",
    b'{"ok": "\xff"}',
    b"[" * 5000,
    b"[]",
    b'{"id": "1"}',
    b'{"error": [{}]}',
    b"9" * 5000,
]
ROWS = [
    [b"event/x"],
    [b"event/x", b"{}"],
    [b"event/x", b"[]"],
    [b"event/x", b'{"number": {}}'],
    [b"event/\xff", b"1"],
]


@contextmanager
def impostor(address: str, answers: list[bytes]) -> Iterator[None]:
    """Answer a request per answer."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as server:
        server.setsockopt(zmq.LINGER, 0)
        server.bind(address)

        def answer() -> None:
            for raw in answers:
                *around, _ = server.recv_multipart()
                server.send_multipart([*around, raw])

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield
        thread.join(10)


def test_an_answer_that_is_not_an_agents_is_an_error(tmp_path: Path) -> None:
    address = f"ipc://{tmp_path}/control"
    with impostor(address, ANSWERS), Client(address) as client:
        for _ in ANSWERS:
            with pytest.raises(CcpError) as caught:
                client.ask(Status())
            assert caught.value.slug == "control.bad_answer"
            assert caught.value.where == address


@pytest.mark.parametrize("frames", ROWS)
def test_a_message_of_a_stream_that_is_not_an_agents_is_an_error(tmp_path: Path, frames: list[bytes]) -> None:
    address = f"ipc://{tmp_path}/stream"
    with zmq.Context() as context, context.socket(zmq.XPUB) as server, context.socket(zmq.SUB) as socket:
        for one in (server, socket):
            one.setsockopt(zmq.LINGER, 0)
        server.bind(address)
        stream = Stream(socket, ["event/"], None)
        socket.connect(address)
        server.recv()  # the subscription
        server.send_multipart(frames)
        with pytest.raises(CcpError) as caught:
            stream.next(10)
    assert caught.value.slug == "control.bad_answer"
    assert caught.value.where == address
