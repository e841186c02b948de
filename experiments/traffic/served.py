"""Traffic that programs at the receiver ask for, and a server at the sender serves."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from experiments.netlab.errors import LabError
from experiments.netlab.host import Host
from experiments.traffic.running import FlowSockets, ObjectResult, Outcome, Played, TrafficResult


class Client(Protocol):
    """A program at the receiver, and what it told."""

    @property
    def where(self) -> str:
        """The host and the program, for errors."""

    @property
    def running(self) -> bool:
        """Whether it is still at it."""

    @property
    def failure(self) -> str | None:
        """What became of it, as a sentence, if it failed."""

    @property
    def complaints(self) -> Sequence[str]:
        """What it complained of."""

    @property
    def hint(self) -> str:
        """What to do if it failed."""

    def objects(self) -> Sequence[ObjectResult]:
        """Return what it downloaded."""

    def playback(self) -> Sequence[Played]:
        """Return what was played of that."""

    def join(self, timeout_s: float) -> None:
        """Return when it has ended and all it reported is read, or after the time."""

    def stop(self) -> None:
        """End it."""


class Server(Protocol):
    """What serves."""

    @property
    def port(self) -> int:
        """Where it listens."""

    @property
    def url(self) -> str:
        """Where clients find it."""

    def log(self) -> str:
        """Return the end of what it complained of."""

    def stop(self) -> None:
        """End it and remove its files; may be called again."""


class ServedTraffic:
    """Downloads under way.

    Attributes:
        server: The server.
        sockets: Which sockets carry it.
        started_us: When it started, CLOCK_MONOTONIC [us].
    """

    def __init__(
        self,
        server: Server,
        sender: Host,
        clients: Sequence[Callable[[str], Client]],
        *,
        duration_s: float,
    ) -> None:
        """Start the clients.

        Args:
            server: Serves already; it is stopped with the traffic.
            sender: Where it runs.
            clients: Start one each, given the server's `url`.
            duration_s: How long it lasts [s]; what runs then is stopped.

        Raises:
            LabError: What kept a client from starting; nothing runs then.
        """
        self.server = server
        self.sockets = FlowSockets.of(sender, sports=(server.port, server.port))
        self._clients: list[Client] = []
        self._outcome = Outcome()
        self.started_us = time.monotonic_ns() // 1000
        self._deadline_s = time.monotonic() + duration_s
        try:
            for start in clients:
                self._clients.append(start(server.url))
        except BaseException:
            self._end()
            raise

    @property
    def running(self) -> bool:
        """Whether a client still downloads, waits or plays."""
        return not self._outcome.known and any(client.running for client in self._clients)

    def wait(self) -> TrafficResult:
        """Return the result; what is not done when the time is over is cut off.

        Raises:
            LabError: `lab.command_failed`, if the server or a client fails.
        """
        for client in self._clients:
            client.join(max(0.0, self._deadline_s - time.monotonic()))
        return self._outcome.find(self._finish)

    def stop(self) -> None:
        """End it now; only what is downloaded completely counts.

        Raises:
            LabError: `lab.command_failed`, if a client had failed before.
        """
        self._outcome.find(self._finish)

    def _finish(self) -> TrafficResult:
        duration_s = time.monotonic() - self.started_us / 1e6
        complete = not any(client.running for client in self._clients)
        failures = [client.failure for client in self._clients]
        complaints = self._end()
        for client, failure in zip(self._clients, failures, strict=True):
            if failure is not None:
                raise LabError(
                    "lab.command_failed",
                    failure,
                    client.where,
                    "\n".join([*client.complaints, complaints]).strip() or "it did not say why",
                    client.hint,
                )
        objects = sorted(
            (one for client in self._clients for one in client.objects()),
            key=lambda one: one.start_us + 1e6 * one.completion_s,
        )
        return TrafficResult(
            received_bytes=sum(one.size_bytes for one in objects) if complete else None,
            duration_s=duration_s,
            complete=complete,
            objects=tuple(objects),
            playback=tuple(one for client in self._clients for one in client.playback()),
        )

    def _end(self) -> str:
        """End all processes, remove the files; return what the server complained of."""
        for client in self._clients:
            client.stop()
        complaints = self.server.log()
        self.server.stop()
        return complaints
