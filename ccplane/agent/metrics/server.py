"""Serves metrics over HTTP on one thread, whatever the number of clients.

Clients cannot exhaust the agent's time or descriptors, because metrics are collected at most once per
`FRESH_S`, at most `MAX_CONNECTIONS` connections stay open, and each has `TIMEOUT_S` for its request and the
answer.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from ccplane.agent.features import Collects
from ccplane.agent.listener import BACKLOG, Listener
from ccplane.agent.metrics.address import MetricsAddress
from ccplane.agent.metrics.families import AgentCollector
from ccplane.base.errors import LoadError
from ccplane.base.extras import extra_part

if TYPE_CHECKING:
    from ccplane.agent.agent_loop import AgentLoop
    from ccplane.agent.audit import AuditLog
    from ccplane.agent.inbox import Inbox
    from ccplane.agent.telemetry_dispatch import TelemetryDispatch

log = logging.getLogger("ccplane.agent")

STOP_TIMEOUT_S: Final = 5.0

TIMEOUT_S: Final = 5.0
"""Time that a connection has from its start until the answer is sent [s]."""

FRESH_S: Final = 1.0
"""How long an answer is repeated before metrics are collected again [s]."""

MAX_CONNECTIONS: Final = 32
"""Maximum open connections; a further one closes the oldest, so that idle clients do not exclude others."""

MAX_HEAD_BYTES: Final = 8192
"""Maximum length of a request's head."""

SOCKET_MODE: Final = 0o660
"""Mode of the Unix socket: root, the agent's user and its group may connect."""

_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


class MetricsServer:
    """Listens immediately, except where a predecessor listens, and answers after `start`.

    Attributes:
        port: The TCP port; 0 for a Unix socket.
    """

    def __init__(
        self,
        address: MetricsAddress,
        *collectors: Collects,
        timeout_s: float = TIMEOUT_S,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Listen, or occupy an address where the predecessor of this agent may listen.

        Raises:
            LoadError: `load.no_extra`, or `metrics.cannot_listen`.
        """
        with extra_part():
            from prometheus_client import CollectorRegistry, generate_latest
        registry = CollectorRegistry(auto_describe=False)
        for collector in collectors:
            registry.register(collector)
        self._collect: Callable[[], bytes] = lambda: generate_latest(registry)
        self._timeout_s = timeout_s
        self._clock_s = clock_s
        self._answer = b""
        self._expires_s = -float("inf")
        self._failing = False
        place = (address.host, address.port) if address.path is None else address.path
        try:
            self._listener = Listener(place, shares=address.shares, mode=SOCKET_MODE)
        except OSError as error:
            raise LoadError(
                "metrics.cannot_listen",
                "cannot listen for metrics at this address",
                str(address.path or address),
                error.strerror or str(error),
                "choose another address with --metrics; `ss -lntxp` shows which process uses an address",
            ) from None
        self.port: int = 0 if address.path else self._listener.socket.getsockname()[1]
        self._open: dict[asyncio.StreamWriter, None] = {}
        self._stopping = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self, begin: Callable[[], None]) -> None:
        """Listen, and start the thread, which first calls `begin`."""
        self._listener.settle()
        loop = self._loop = asyncio.new_event_loop()

        def answer() -> None:
            begin()
            loop.run_until_complete(self._serve())

        self._thread = threading.Thread(target=answer, name="ccp-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread, and close the socket."""
        if self._thread is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(STOP_TIMEOUT_S)
            if not self._thread.is_alive():
                self._loop.close()
        self._listener.close()

    # The thread

    async def _serve(self) -> None:
        server = await asyncio.start_server(
            self._connected, sock=self._listener.socket, limit=MAX_HEAD_BYTES, backlog=MAX_CONNECTIONS
        )
        self._listener.socket.listen(BACKLOG)  # asyncio accepts MAX_CONNECTIONS at a time
        await self._stopping.wait()
        server.close()
        for writer in self._open:
            _abort(writer)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = None
        if len(self._open) > MAX_CONNECTIONS:
            oldest = next(iter(self._open))
            del self._open[oldest]
            _abort(oldest)
        try:
            async with asyncio.timeout(self._timeout_s):
                writer.write(self._answer_to(await reader.readuntil(b"\r\n\r\n")))
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client disconnected, or is too slow
        finally:
            self._open.pop(writer, None)
            _abort(writer)

    def _answer_to(self, head: bytes) -> bytes:
        method = head.split(b" ", 1)[0]
        if method == b"GET":
            return self._page()
        if method == b"HEAD":
            return self._page().partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        return _response(HTTPStatus.METHOD_NOT_ALLOWED, b"use GET\n", "Allow: GET, HEAD\r\n")

    def _page(self) -> bytes:
        """Return the response with all metrics, collected at most `FRESH_S` ago."""
        now_s = self._clock_s()
        if now_s >= self._expires_s:
            try:
                self._answer = _response(HTTPStatus.OK, self._collect())
                self._failing = False
            except Exception:
                self._answer = _response(HTTPStatus.INTERNAL_SERVER_ERROR, b"see the agent's log\n")
                if not self._failing:
                    log.exception("cannot collect metrics; the next request tries again")
                self._failing = True
            self._expires_s = self._clock_s() + FRESH_S
        return self._answer


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close a connection without waiting for the client: the kernel also drops what it has not sent."""
    with suppress(OSError):  # already closed
        made: socket.socket = writer.get_extra_info("socket")
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _response(status: HTTPStatus, body: bytes, more: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {_TEXT}\r\n"
        f"Content-Length: {len(body)}\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode() + body


@contextmanager
def listening(
    address: MetricsAddress,
    agent_loop: AgentLoop,
    dispatch: TelemetryDispatch | None = None,
    inbox: Inbox | None = None,
    *others: Collects,
    audit_log: AuditLog | None = None,
) -> Iterator[MetricsServer]:
    """Serve the metrics of an agent during a block.

    Raises:
        LoadError: As `MetricsServer`.
    """
    with serving(
        address, AgentCollector(agent_loop, dispatch, inbox, audit_log=audit_log), *others
    ) as server:
        yield server


@contextmanager
def serving(address: MetricsAddress, *collectors: Collects, shares: bool = False) -> Iterator[MetricsServer]:
    """Serve collectors during a block; arguments and errors as for `MetricsServer`."""
    server = MetricsServer(address, *collectors)
    try:
        yield server
    finally:
        server.close()
