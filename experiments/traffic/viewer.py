"""A program at the receiver that plays video, and reports in lines of JSON."""

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

Reported = list[Mapping[str, Any]]
"""Messages of a program, in order; `kind` is the type of a message, `ended` means that everything was
played."""


class Viewer:
    """The program, and the thread that reads its output.

    Attributes:
        where: Host and program.
        complaints: Its last lines that are not messages.
        hint: Hint for errors.
    """

    def __init__(
        self,
        running: process.Process,
        stream: IO[str] | None,
        read: Callable[[str], Mapping[str, Any] | None],
        *,
        where: str,
        hint: str,
        objects: Callable[[Reported], Sequence[ObjectResult]],
        playback: Callable[[Reported], Sequence[Played]],
    ) -> None:
        """Start reading."""
        assert stream is not None
        self.where = where
        self.hint = hint
        self.complaints: list[str] = []
        self._process = running
        self._stream = stream
        self._read = read
        self._objects = objects
        self._playback = playback
        self._reported: Reported = []
        self._ended = False
        self._error: str | None = None
        self._thread = threading.Thread(target=self._follow, name=where, daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether the program is playing."""
        return self._thread.is_alive()

    @property
    def failure(self) -> str | None:
        """The failure, if any."""
        if self._error is not None:
            return f"the player reports: {self._error}"
        if self.running or self._ended:
            return None
        status = self._process.poll()
        return "the player " + (
            "stopped reporting" if status is None else f"exited with {process.status(status)}"
        )

    def objects(self) -> Sequence[ObjectResult]:
        """Return the program's downloads."""
        return self._objects(self._reported)

    def playback(self) -> Sequence[Played]:
        """Return the played segments."""
        return self._playback(self._reported)

    def join(self, timeout_s: float) -> None:
        """Wait until everything was played, or until the time limit."""
        self._thread.join(timeout_s)

    def stop(self) -> None:
        """Stop the program."""
        process.kill(self._process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_JOIN_TIMEOUT_S)
        self._thread.join(_JOIN_TIMEOUT_S)
        process.end([self._process])  # also closes this end of its pipes

    def _follow(self) -> None:
        with contextlib.suppress(ValueError, OSError):  # closed by the lab
            for line in self._stream:
                message = self._read(line)
                if message is None:
                    self.complaints = [*self.complaints, line.strip()][-_KEPT_COMPLAINTS:]
                    continue
                self._reported.append(message)
                if message["kind"] == "error":
                    self._error = str(message["message"])
                    return
                if message["kind"] == "ended":
                    self._ended = True
                    return
