"""A program at the receiver that plays video, and tells how it goes in lines of JSON."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, Final

from experiments.netlab import process
from experiments.traffic.running import ObjectResult, Played

_JOIN_TIMEOUT_S: Final = 5.0
_KEPT_COMPLAINTS: Final = 20

Told = list[Mapping[str, Any]]
"""What a program told, in order; `kind` says what a message is of, `ended` that everything was played."""


class Viewer:
    """The program, and the thread that reads what it tells.

    Attributes:
        where: The host and the program.
        complaints: The last lines it wrote that are no messages.
        hint: What to do if it failed.
    """

    def __init__(
        self,
        running: process.Process,
        stream: IO[str] | None,
        read: Callable[[str], Mapping[str, Any] | None],
        *,
        where: str,
        hint: str,
        objects: Callable[[Told], Sequence[ObjectResult]],
        playback: Callable[[Told], Sequence[Played]],
    ) -> None:
        """Begin to read.

        Args:
            running: The program; it is ended when everything was played.
            stream: Where it tells.
            read: Returns the message in a line, or None if there is none.
            where: The host and the program, for errors.
            hint: What to do if it fails.
            objects: Returns the downloads among what was told.
            playback: Returns what was played, likewise.
        """
        assert stream is not None
        self.where = where
        self.hint = hint
        self.complaints: list[str] = []
        self._process = running
        self._stream = stream
        self._read = read
        self._objects = objects
        self._playback = playback
        self._told: Told = []
        self._ended = False
        self._error: str | None = None
        self._thread = threading.Thread(target=self._follow, name=where, daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether it still plays."""
        return self._thread.is_alive()

    @property
    def failure(self) -> str | None:
        """What became of it, if it failed."""
        if self._error is not None:
            return f"the player says: {self._error}"
        if self.running or self._ended:
            return None
        status = self._process.poll()
        return "the player " + ("fell silent" if status is None else f"ended with {process.status(status)}")

    def objects(self) -> Sequence[ObjectResult]:
        """Return what it downloaded."""
        return self._objects(self._told)

    def playback(self) -> Sequence[Played]:
        """Return what was played of that."""
        return self._playback(self._told)

    def join(self, timeout_s: float) -> None:
        """Return when everything was played, or after the time."""
        self._thread.join(timeout_s)

    def stop(self) -> None:
        """End it."""
        process.kill(self._process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_JOIN_TIMEOUT_S)
        self._thread.join(_JOIN_TIMEOUT_S)
        process.end([self._process])  # closes our ends of its pipes

    def _follow(self) -> None:
        with contextlib.suppress(ValueError, OSError):  # the lab closed it: everything is over
            for line in self._stream:
                message = self._read(line)
                if message is None:
                    self.complaints = [*self.complaints, line.strip()][-_KEPT_COMPLAINTS:]
                    continue
                self._told.append(message)
                if message["kind"] == "error":
                    self._error = str(message["message"])
                    return
                if message["kind"] == "ended":
                    self._ended = True
                    return
