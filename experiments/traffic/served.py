"""Traffic that clients at the receiver request from a server at the sender."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from ccplane.base import clock
from experiments.netlab.errors import LabError
from experiments.netlab.host import Host
from experiments.traffic.running import FlowSockets, ObjectResult, Outcome, Played, TrafficResult


class ServedClient(Protocol):
    """A program at the receiver, and its reports."""

    @property
    def where(self) -> str:
        """Host and program, for errors."""

    @property
    def running(self) -> bool:
        """Whether the program is running."""

    @property
    def failure(self) -> str | None:
        """The failure as a sentence, if any."""

    @property
    def complaints(self) -> Sequence[str]:
        """The program's error output."""

    @property
    def hint(self) -> str:
        """Hint for errors."""

    def objects(self) -> Sequence[ObjectResult]:
        """Return the program's downloads."""

    def playback(self) -> Sequence[Played]:
        """Return the played segments."""

    def join(self, timeout_s: float) -> None:
        """Wait until the program has exited and its output is read, or until the time limit."""

    def stop(self) -> None:
        """Stop the program."""


class Server(Protocol):
    """The server."""

    @property
    def port(self) -> int:
        """Its port."""

    @property
    def url(self) -> str:
        """URL for clients."""

    def log(self) -> str:
        """Return the end of its error output."""

    def stop(self) -> None:
        """Stop the program and remove its files; may be called again."""


class ServedTraffic:
    """Running downloads.

    Attributes:
        server: The server.
        sockets: The sockets that carry it.
        started_us: Its start, CLOCK_MONOTONIC [us].
    """

    def __init__(
        self,
        server: Server,
        sender: Host,
        clients: Sequence[Callable[[str], ServedClient]],
        *,
        duration_s: float,
    ) -> None:
        """Start the clients.

        Raises:
            LabError: If a client cannot start; everything is stopped then.
        """
        self.server = server
        self.sockets = FlowSockets.of(sender, sports=(server.port, server.port))
        self._clients: list[ServedClient] = []
        self._outcome = Outcome()
        self.started_us = clock.now_us()
        self._deadline_s = time.monotonic() + duration_s
        try:
            for start in clients:
                self._clients.append(start(server.url))
        except BaseException:
            self._end()
            raise

    @property
    def running(self) -> bool:
        """Whether a client is downloading, waiting or playing."""
        return not self._outcome.known and any(client.running for client in self._clients)

    def wait(self) -> TrafficResult:
        """Wait for the result; downloads are aborted when the time is over.

        Raises:
            LabError: `lab.command_failed`, if the server or a client fails.
        """
        for client in self._clients:
            client.join(max(0.0, self._deadline_s - time.monotonic()))
        return self._outcome.find(self._finish)

    def stop(self) -> None:
        """Stop the traffic; only complete downloads count.

        Raises:
            LabError: `lab.command_failed`, if a client had failed before.
        """
        self._outcome.find(self._finish)

    def _finish(self) -> TrafficResult:
        duration_s = (clock.now_us() - self.started_us) / 1e6
        complete = not any(client.running for client in self._clients)
        failures = [client.failure for client in self._clients]
        complaints = self._end()
        for client, failure in zip(self._clients, failures, strict=True):
            if failure is not None:
                raise LabError(
                    "lab.command_failed",
                    failure,
                    client.where,
                    "\n".join([*client.complaints, complaints]).strip() or "the program gave no reason",
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
        """Stop all processes and remove the files; return the server's error output."""
        for client in self._clients:
            client.stop()
        complaints = self.server.log()
        self.server.stop()
        return complaints
