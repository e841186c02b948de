"""Serves metrics over HTTP on a separate thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import ThreadingHTTPServer
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import TYPE_CHECKING, Any, Final

from ccplane.agent.features import Collects
from ccplane.agent.metrics.address import MetricsAddress
from ccplane.agent.metrics.families import AgentCollector
from ccplane.base.errors import LoadError
from ccplane.base.extras import extra_part

if TYPE_CHECKING:
    from ccplane.agent.agent_loop import AgentLoop
    from ccplane.agent.inbox import Inbox
    from ccplane.agent.telemetry_dispatch import TelemetryDispatch

STOP_TIMEOUT_S: Final = 5.0


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore scrapers that disconnect."""


class _Http6(_Http):
    address_family = socket.AF_INET6


class _Unix(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True

    def get_request(self) -> tuple[Any, Any]:
        """Return a connection with a peer name in the format that HTTP servers need."""
        request, _ = super().get_request()
        return request, ("unix", 0)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore scrapers that disconnect."""


class MetricsServer:
    """Listens immediately, and answers after `start`.

    Attributes:
        port: The TCP port; 0 for a Unix socket.
    """

    def __init__(self, address: MetricsAddress, *collectors: Collects) -> None:
        """Listen.

        Raises:
            LoadError: `load.no_extra`, or `metrics.cannot_listen`.
        """
        with extra_part():
            from prometheus_client import CollectorRegistry, MetricsHandler
        registry = CollectorRegistry(auto_describe=False)
        for collector in collectors:
            registry.register(collector)
        handler = MetricsHandler.factory(registry)
        self._address = address
        try:
            if address.path is None:
                kind = _Http6 if ":" in address.host else _Http
                self._server: Any = kind((address.host, address.port), handler)
            else:
                with suppress(FileNotFoundError):
                    address.path.unlink()  # the socket of a killed agent
                self._server = _Unix(str(address.path), handler)
        except OSError as error:
            raise LoadError(
                "metrics.cannot_listen",
                "cannot listen for metrics at this address",
                str(address.path or address),
                error.strerror or str(error),
                "choose another address with --metrics; `ss -ltnp` shows which process uses a port",
            ) from None
        self.port: int = 0 if address.path else self._server.server_address[1]
        self._thread: threading.Thread | None = None

    def start(self, begin: Callable[[], None]) -> None:
        """Start the thread, which first calls `begin`."""

        def answer() -> None:
            begin()
            self._server.serve_forever()

        self._thread = threading.Thread(target=answer, name="ccp-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread, and close the socket."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join(STOP_TIMEOUT_S)
        self._server.server_close()
        if self._address.path is not None:
            self._address.path.unlink(missing_ok=True)


@contextmanager
def listening(
    address: MetricsAddress,
    agent_loop: AgentLoop,
    dispatch: TelemetryDispatch | None = None,
    inbox: Inbox | None = None,
    *others: Collects,
) -> Iterator[MetricsServer]:
    """Serve the metrics of an agent during a block.

    Raises:
        LoadError: As `MetricsServer`.
    """
    with serving(address, AgentCollector(agent_loop, dispatch, inbox), *others) as server:
        yield server


@contextmanager
def serving(address: MetricsAddress, *collectors: Collects) -> Iterator[MetricsServer]:
    """Serve collectors during a block; arguments and errors as for `MetricsServer`."""
    server = MetricsServer(address, *collectors)
    try:
        yield server
    finally:
        server.close()
